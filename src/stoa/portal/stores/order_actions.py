"""What a person does with an order: ship, return, refund, hold and cancel it, change its status, and comment on it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import JSONResponse, Response

from stoa.accounts.contract import Right
from stoa.orders.bodies import NewComment, OrderChanges, StatusChange
from stoa.orders.comments import create_order_comment
from stoa.orders.contract import Order
from stoa.orders.endpoints import update_order
from stoa.orders.line_items import LineChanges
from stoa.orders.lines import update_order_product
from stoa.orders.status import update_order_status
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.list_view import paginate
from stoa.portal.kit.pages import ROOT, PageResponse, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.metadata_forms import MetadataForm, metadata_change
from stoa.portal.stores.order_forms import (
    ACTIONS,
    Action,
    Line,
    OrderForm,
    Text,
    payments_to,
    refundable,
    statuses_to,
    voidable,
)
from stoa.portal.stores.orders import find_order, locations_to_choose, pages, store_order
from stoa.portal.stores.products import pictures_of
from stoa.portal.stores.queries import ORDER_STATUS
from stoa.portal.stores.writes import REPEATED, Change, carry_out, show_all_faults
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.endpoint import One
from stoa.rest.problems import Refusal

_LINES_PER_FORM = 50


class _AmountNotShown(Exception):
    """The page did not show the amount that would be refunded; the transaction is rolled back."""

    def __init__(self, amount: str) -> None:
        super().__init__("the amount was not shown")
        self.amount = amount


class CommentForm(OnceForm):
    body: Text = ""
    visibility: Line = "internal"


@pages.page("/stores/{handle}/orders/{order_id:int}/{action}", nav="list_stores", right=Right.CHANGE)
async def order_action(visit: Visit) -> PageResponse:
    """The form of one action; without a form, because the order's state does not allow it, back to the order."""
    action, order = _action(visit), await find_order(visit)
    refused = visit.submitted is not None
    if not (action.possible(order) or refused):
        return Redirect(_url(visit), f"Order #{order.number} cannot be changed in this way now.", "warn")
    locations = await locations_to_choose(visit)
    rows = paginate(visit, action.rows(order, bool(locations)) if action.rows else [], "lines", _LINES_PER_FORM)
    show_all_faults(visit, "quantities", [row.key for row in rows.items])
    context: dict[str, Any] = {
        "order": order,
        "action": visit.path_param("action"),
        "title": action.title,
        "replaces": action.replaces,
        "rows": rows,
        "pictures": await pictures_of(visit, [row.line.variant_id for row in rows.items]),
        "refundable": refundable(order),
        "amount": visit.to_confirm,
        "locations": locations,
        "voidable": voidable(order),
        "statuses": statuses_to(order),
        "payments": payments_to(order),
    }
    return View("stores/order_action.html", context)


@pages.form("/stores/{handle}/orders/{order_id:int}/{action}", on=order_action, in_shard=True)
async def change_order(visit: Visit, form: OrderForm) -> Redirect | Response:
    """Change the order; a refund is carried out only with the amount that the page showed, and otherwise shows it."""
    action, order_id = _action(visit), visit.path_param("order_id")
    body = action.body(form)

    async def work(call: Call) -> Any:
        call.patch = body.members
        if body.line_item_id is not None:
            changes = convert(body.members, LineChanges, digits=call.store.digits)
            return await update_order_product(call, order_id, body.line_item_id, changes)
        if body.lines:
            return await _change_lines(call, order_id, body.lines)
        if body.of_order:
            return await update_order(call, order_id, convert(body.members, OrderChanges, digits=call.store.digits))
        change = convert(body.members, StatusChange, digits=call.store.digits)
        if change.status == "shipped":
            await process_pending(call, order_id)
        answer = await update_order_status(call, order_id, change)
        if action.refunds and ((amount := _refunded(answer)) != form.shown_amount or visit.wants_json):
            raise _AmountNotShown(amount)
        return answer

    change = Change(action.audited, f"order:{order_id}", body.fields, replaces=action.replaces)
    try:
        done = await carry_out(visit, form, change, work)
    except _AmountNotShown as would:
        if visit.wants_json:
            return JSONResponse({"amount": would.amount})
        visit.to_confirm = would.amount
        changed = {"": "The amount has changed since the page showed it. Check it, and submit again."}
        raise FormError(changed if form.shown_amount else {}, status=409 if form.shown_amount else 200) from would
    said = f"Refunded {form.shown_amount} {visit.store.currency}." if action.refunds else action.done
    return Redirect(_url(visit), said if done else REPEATED, "good" if done else "warn")


async def _change_lines(call: Call, order_id: int, lines: Mapping[int, dict[str, Any]]) -> Any:
    """Change several line items in turn; each fault names its line item."""
    answer: Any = None
    for line_id, members in lines.items():
        call.patch = members
        try:
            changes = convert(members, LineChanges, digits=call.store.digits)
            answer = await update_order_product(call, order_id, line_id, changes)
        except Refusal as refusal:
            for fault in refusal.faults:
                fault.pointer = f"/{line_id}{fault.pointer}"
            raise
        call.expected = None  # the first step has checked it, and may have made a new version
    return answer


async def process_pending(call: Call, order_id: int) -> None:
    """Process a pending order before it is shipped, as if a person had done both."""
    if await ORDER_STATUS.maybe(call.db, call.store_id, order_id) == "pending":
        await update_order_status(call, order_id, StatusChange(status="processing"))
        call.expected = None  # this step has checked it, and makes a new version


def _refunded(answer: One[Order]) -> str:
    """The amount of the refund that a status change has added."""
    return str(msgspec.json.decode(answer.doc, type=Order).refunds[-1].amount)


@pages.form("/stores/{handle}/orders/{order_id:int}", on=store_order, in_shard=True)
async def comment_on_order(visit: Visit, form: CommentForm) -> Redirect:
    order_id = visit.path_param("order_id")

    async def work(call: Call) -> Any:
        sent = {"body": form.body, "visibility": form.visibility}
        return await create_order_comment(call, order_id, convert(sent, NewComment, digits=call.store.digits))

    change = Change("order.commented", f"order:{order_id}", ("body", "visibility"))
    done = await carry_out(visit, form, change, work)
    return Redirect(f"{_url(visit)}#timeline", "Comment added." if done else REPEATED, "good" if done else "warn")


def _action(visit: Visit) -> Action:
    action = ACTIONS.get(visit.path_param("action"))
    if action is None:
        raise not_found()
    return action


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/orders/{visit.path_param('order_id')}"


@pages.form("/stores/{handle}/order-metadata/{order_id:int}", on=store_order, in_shard=True)
async def change_order_metadata(visit: Visit, form: MetadataForm) -> Redirect:
    order_id = visit.path_param("order_id")

    async def work(call: Call) -> Any:
        call.patch = {"metadata": call.store.definitions.read("order", form.changes)}
        return await update_order(call, order_id, convert(call.patch, OrderChanges, digits=call.store.digits))

    change = await metadata_change(visit, form, "order", order_id, "/metadata")
    done = await carry_out(visit, form, change, work)
    url = f"{ROOT}/stores/{visit.store.handle}/orders/{order_id}"
    return Redirect(url, "Saved." if done else REPEATED, "good" if done else "warn")
