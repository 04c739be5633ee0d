"""An order that a person writes: products, customer, address and discount, priced and placed by the API's own rules.

The form is submitted until it is complete: each time, the page shows the order as it would be. It is placed only with the
total that the page showed, and only if the page named the orders that it may duplicate.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec
from starlette.responses import JSONResponse, Response

from stoa import money
from stoa.accounts.contract import Right
from stoa.customers.contract import Customer
from stoa.orders.bodies import NewOrder
from stoa.orders.contract import Order, OrderAddress
from stoa.orders.endpoints import create_order
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.list_view import find_rows
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.customer_actions import address_fields, address_members
from stoa.portal.stores.customers import CUSTOMER_LIST
from stoa.portal.stores.metadata_forms import NewMetadata, definitions_for
from stoa.portal.stores.order_forms import Line, Text
from stoa.portal.stores.orders import locations_to_choose
from stoa.portal.stores.products import PRODUCT_LIST, pictures_of
from stoa.portal.stores.queries import NAMED_VARIANTS, ORDER_NUMBER, VARIANTS_OF, NamedVariant
from stoa.portal.stores.writes import REPEATED, Change, carry_out, ids_in, show_all_faults, whole
from stoa.rest.body import convert
from stoa.rest.call import Call

pages = Pages()
_MOST_LINES, _MOST_FOUND, _MOST_DUPLICATES = 60, 24, 3
_CHANGED = "The total has changed since the page showed it. Check it, and submit again."
_MAY_DUPLICATE = (
    "This may be the same order as one that is named below. Nothing is placed yet. If it is not, submit again."
)
_CONTACT = ("email", "phone", "first_name", "last_name")
_ADDRESS = frozenset(OrderAddress.__struct_fields__)


class NewOrderForm(NewMetadata):
    """The order as it is written so far. `then` is the button: show it, keep it as a draft, or place it."""

    then: Literal["show", "draft", "place"] = "show"
    shown_amount: Line = ""  # the total that the page showed
    shown_duplicates: Line = ""  # the ids of the orders that the page named
    q: Line = ""  # a search for products
    customer_q: Line = ""
    units: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # by the id of the variant
    prices: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    customer_id: Line = ""
    email: Line = ""
    phone: Line = ""
    first_name: Line = ""
    last_name: Line = ""
    address: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    discount_kind: Line = "percentage"
    discount: Line = ""
    discount_title: Line = ""
    shipping_total: Line = ""
    shipping_method: Line = ""
    location: Line = ""
    paid: bool = False
    note: Text = ""

    @property
    def lines(self) -> dict[str, str]:
        """The units of each variant that has some."""
        return {variant: count for variant, count in self.units.items() if count.strip("0")}

    def shows(self, preview: "Preview") -> bool:
        """Whether the page showed the total, and the orders that this one may duplicate."""
        return str(preview.order.total) == self.shown_amount and not self.unnamed(preview)

    def unnamed(self, preview: "Preview") -> set[int]:
        """The suspected duplicates that the page did not name."""
        return set(preview.duplicates) - set(ids_in(self.shown_duplicates.split(",")))


class Preview(msgspec.Struct):
    """The order as it would be, and the orders that it may duplicate."""

    order: Order
    duplicates: list[int]


class _NotPlaced(Exception):
    """The order was only shown; the transaction is rolled back."""

    def __init__(self, preview: Preview) -> None:
        super().__init__("the order was only shown")
        self.preview = preview


@pages.page("/stores/{handle}/orders/new", nav="list_stores", right=Right.CHANGE)
async def new_order(visit: Visit) -> View:
    sent: Mapping[str, list[str]] = visit.submitted.values if visit.submitted else {}
    preview = msgspec.json.decode(visit.to_confirm, type=Preview) if visit.to_confirm else None
    variants = await _variants(visit, sent)
    show_all_faults(visit, "units", [each.id for each in variants])
    duplicates = preview.duplicates[:_MOST_DUPLICATES] if preview else []
    digits = money.digits(visit.store.currency)
    context: dict[str, Any] = {
        "variants": variants,
        "pictures": await pictures_of(visit, [each.id for each in variants]),
        "prices": {each.id: Decimal(money.to_text(each.price, digits)) for each in variants},
        "customers": await _customers(visit, sent),
        "preview": preview.order if preview else None,
        "shown_duplicates": ",".join(map(str, preview.duplicates)) if preview else "",
        "duplicates": [(each, await ORDER_NUMBER.maybe(visit.db, visit.store.id, each)) for each in duplicates],
        "locations": await locations_to_choose(visit),
        "chosen": visit.query("customer_id"),
        "definitions": (await definitions_for(visit)).of("order"),
    }
    return View("stores/new_order.html", context)


@pages.form("/stores/{handle}/orders/new", on=new_order, in_shard=True)
async def write_order(visit: Visit, form: NewOrderForm) -> Redirect | Response:
    """Place the order, keep it as a draft, or show it as it would be."""
    if not form.lines:
        if form.then == "show":
            raise FormError(status=200)
        raise FormError(units="Add at least one product.")
    if len(form.lines) > _MOST_LINES:
        raise FormError(units=f"An order on this page has at most {_MOST_LINES} products.")
    shows = form.then == "show" or visit.wants_json
    members, fields = await _body(visit, form)
    placed = Redirect(f"{ROOT}/stores/{visit.store.handle}/orders")

    async def work(call: Call) -> None:
        sent = {**members, **form.metadata_members(call.store.definitions, "order")}
        call.patch, call.parameters = sent, {"dry_run": True}
        body = convert(sent, NewOrder, digits=call.store.digits)
        trial = await create_order(call, body)
        preview = _preview(trial)
        if shows or (form.then == "place" and not form.shows(preview)):
            raise _NotPlaced(preview)
        call.parameters = {}
        created = msgspec.json.decode((await create_order(call, body)).doc, type=Order)
        await visit.by.record(call.db, call.store_id, "order.placed", f"order:{created.id}")
        done = "is kept as a draft" if created.status == "draft" else "is placed"
        placed.to, placed.notice = f"{placed.to}/{created.id}", f"Order #{created.number} {done}."

    try:
        if not await carry_out(visit, form, Change("", "", fields | form.metadata_fields), work):
            return Redirect(placed.to, REPEATED, "warn")
    except _NotPlaced as shown:
        if visit.wants_json:
            return JSONResponse({"amount": str(shown.preview.order.total)})
        visit.to_confirm = msgspec.json.encode(shown.preview).decode()
        if form.then != "place" or not form.shown_amount:
            raise FormError(status=200) from shown
        changed = str(shown.preview.order.total) != form.shown_amount
        raise FormError({"": _CHANGED if changed else _MAY_DUPLICATE}, status=409) from shown
    return placed


def _preview(trial: Any) -> Preview:
    meta = msgspec.json.decode(trial.meta)
    order = msgspec.json.decode(trial.doc, type=Order)
    return Preview(order, [each["order_id"] for each in meta["suspected_duplicates"]])


async def _body(visit: Visit, form: NewOrderForm) -> tuple[dict[str, Any], dict[str, str]]:
    """The body of the API's request, and the field of the form for each pointer into it."""
    lines: list[dict[str, Any]] = []
    fields = {"/line_items": "units", "/customer_id": "customer_id", "/discounts/0": "discount"}
    for n, (variant, count) in enumerate(form.lines.items()):
        price = form.prices.get(variant)
        lines.append(
            {"variant_id": whole(variant), "quantity": whole(count), **({"unit_price": price} if price else {})}
        )
        fields |= {f"/line_items/{n}": f"units[{variant}]", f"/line_items/{n}/unit_price": f"prices[{variant}]"}
    members: dict[str, Any] = {"line_items": lines, "status": "draft" if form.then == "draft" else "pending"}
    members |= {name: sent for name in _PLAIN if (sent := getattr(form, name))}
    fields |= {f"/{name}": name for name in _PLAIN}
    if form.paid and form.then != "draft":
        members["payment_status"] = "paid"
    if form.discount:
        title = {"title": form.discount_title} if form.discount_title else {}
        members["discounts"] = [{"kind": form.discount_kind, "value": form.discount, **title}]
        fields |= {"/discounts/0/title": "discount_title", "/discounts/0/kind": "discount_kind"}
    address = address_members(form.address)
    fields |= address_fields("/shipping_address")
    if form.customer_id:
        members["customer_id"] = whole(form.customer_id)
        address = address or await _address_of(visit, form.customer_id)
    elif contact := {name: sent for name in _CONTACT if (sent := getattr(form, name))}:
        members["customer"] = contact
        fields |= {f"/customer/{name}": name for name in _CONTACT}
    return {**members, **({"shipping_address": address} if address else {})}, fields


_PLAIN = ("shipping_total", "shipping_method", "location", "note")


async def _address_of(visit: Visit, customer_id: str) -> dict[str, Any]:
    """The default address of a customer, as an order keeps it."""
    for customer in await find_rows(visit, CUSTOMER_LIST, ids=customer_id):
        for each in customer.addresses:
            if each.is_default_shipping:
                known = msgspec.to_builtins(each)
                return {name: known[name] for name in _ADDRESS if known.get(name) is not None}
    return {}


async def _variants(visit: Visit, sent: Mapping[str, list[str]]) -> list[NamedVariant]:
    """The variants of the order so far, then those of the products that the search finds: the newest without words."""
    rows = [name for name, values in sent.items() if name.startswith("units[") and values[-1].strip("0 ")]
    chosen = ids_in(name[6:-1] for name in rows)
    words = sent.get("q", [""])[-1].strip()
    products = await find_rows(visit, PRODUCT_LIST, status="active", **({"q": words} if words else {}))
    found = await VARIANTS_OF.all(visit.db, visit.store.id, [each.id for each in products], _MOST_FOUND)
    named = await NAMED_VARIANTS.all(visit.db, visit.store.id, list({*chosen[:_MOST_LINES], *found}))
    return sorted(named, key=lambda each: each.id not in chosen)


async def _customers(visit: Visit, sent: Mapping[str, list[str]]) -> list[Customer]:
    """The chosen customer, and those that the search finds."""
    words, chosen = (sent.get(name, [visit.query(name)])[-1].strip() for name in ("customer_q", "customer_id"))
    found = await find_rows(visit, CUSTOMER_LIST, ids=chosen) if chosen.isdigit() else []
    similar = await find_rows(visit, CUSTOMER_LIST, q=words) if words else []
    return list({each.id: each for each in [*found, *similar]}.values())
