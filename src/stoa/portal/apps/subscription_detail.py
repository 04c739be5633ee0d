"""One webhook subscription: its health, test sends, settings, pause and resume, secret rotation, deletion."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec

from stoa.accounts.contract import Right
from stoa.db.query import Executor
from stoa.events.outbox import Event
from stoa.portal.apps.apps import APPS
from stoa.portal.apps.impersonation import WRITE, ImpersonatedCall, webhook_call, write_transaction
from stoa.portal.apps.queries import DELIVERY_HOURS, DeliveryHour
from stoa.portal.apps.signing_secrets import SigningRotationForm, secret_mark
from stoa.portal.apps.subscriptions import (
    FIELDS,
    SubscriptionForm,
    event_groups,
    localhost_allowed,
    receiver_port,
    secret_page,
)
from stoa.portal.kit import charts
from stoa.portal.kit.charts import Chart, Series
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, FormError, text
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.usage.reports import HOURS_OF_A_DAY, last_hours
from stoa.webhooks.api import endpoints, queries, secrets, send_sample
from stoa.webhooks.api.contract import NewSecret, Webhook, WebhookChanges
from stoa.webhooks.api.delivery_contract import NewTest, TestResult
from stoa.webhooks.api.documents import shown
from stoa.webhooks.api.queries import Row
from stoa.webhooks.api.subscriptions import locked
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.delivery.failing_receivers import FAILING_SUBSCRIPTION

pages = Pages()
_MAX_BODY_LENGTH = 8_000


class ResumeForm(msgspec.Struct):
    what: Annotated[Literal["all", "now"], msgspec.Meta(extra={"message": "Select one of the options."})] = "all"


class TestForm(msgspec.Struct):
    event: Annotated[str, text("Select an event.", max_length=64)] = WebhookTest.name


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}", nav="list_apps")
async def app_webhook(visit: Visit) -> View:
    call = await webhook_call(visit)
    return await _page(visit, call)


async def _page(visit: Visit, call: ImpersonatedCall, **more: Any) -> View:
    row = await found_row(visit.db, call, visit.path_param("webhook_id"))
    events = [WebhookTest.name, *(each.name for _, _, group in event_groups() for each in group)]
    if row.of_app:
        events = [WebhookTest.name, *row.events]
    hours = await _hours(visit.db, call, row.id)
    context = {
        "hook": shown(row),
        "of_app": row.of_app,
        "store": call.store,
        "test_events": [name for name in events if call.may(Event.known[name].scope)],
        "result": None,
        "hours": hours,
        "charts": attempt_charts(hours) if any(each.mean_ms is not None for each in hours) else [],
        "may_write": call.may(WRITE),
        "seen": secret_mark(row.sealed_secret),
        "failing": await FAILING_SUBSCRIPTION.maybe(visit.db, call.store_id, row.id),
        "port": receiver_port(row.url or ""),
    }
    return View("apps/webhook.html", {**context, **more})


async def _hours(db: Executor, call: ImpersonatedCall, webhook_id: int) -> list[DeliveryHour]:
    """Return the attempts of the last 24 hours, also for hours without attempts."""
    found = {each.hour: each for each in await DELIVERY_HOURS.all(db, call.store_id, webhook_id)}
    first, _ = last_hours()
    hours = [first + timedelta(hours=number) for number in range(HOURS_OF_A_DAY)]
    return [found.get(hour) or DeliveryHour(hour) for hour in hours]


def attempt_charts(hours: Sequence[DeliveryHour]) -> list[Chart]:
    times = [each.hour for each in hours]
    return [
        charts.bars(
            "attempts", "Attempts", "per hour", times,
            [
                Series("Succeeded", "sea", "succeeded", [each.succeeded for each in hours]),
                Series("Failed", "clay", "failed", [each.failed for each in hours]),
            ],
        ),
        charts.lines(
            "duration", "Response time", "ms, mean", times,
            [Series("Receiver", "ochre", "duration", [each.mean_ms for each in hours])],
        ),
    ]  # fmt: skip


async def subscription(db: Executor, call: ImpersonatedCall, webhook_id: int) -> Webhook:
    """Return a subscription of this app on this store."""
    return shown(await found_row(db, call, webhook_id))


async def found_row(db: Executor, call: ImpersonatedCall, webhook_id: int) -> Row:
    """Return a subscription of this app on this store, or the app's own endpoint there."""
    names = (call.store_id, call.caller.app_id, webhook_id)
    row = await queries.GET.maybe(db, *names) or await queries.GET_ENDPOINT.maybe(db, *names)
    if row is None:
        raise not_found()
    return row


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/test", on=app_webhook)
async def send_test(visit: Visit, form: TestForm) -> View:
    call = await webhook_call(visit)
    call.require(WRITE)
    row = await found_row(visit.db, call, visit.path_param("webhook_id"))
    kind = Event.known.get(form.event)
    async with refusals_as_faults(("event",)):
        if row.of_app and row.url is not None:
            if form.event not in (WebhookTest.name, *row.events):
                raise FormError(event="Select an event of the endpoint.")
            sent = await send_sample.sent_test(call, row, row.url, form.event)
        elif kind is not None and not call.may(kind.scope):
            raise FormError(event=f"The store does not grant this app {kind.scope}.")
        else:
            sent = await send_sample.send_webhook_test(call, row.id, NewTest(form.event))
    result = msgspec.json.decode(sent.doc, type=TestResult)
    return await _page(visit, call, result=result, request=_request_text(result))


def _request_text(result: TestResult) -> str:
    """Return the HTTP request of a test."""
    headers = "\n".join(f"{name}: {value}" for name, value in result.request_headers.items())
    return f"POST {result.url}\n{headers}\n\n{result.request_body[:_MAX_BODY_LENGTH]}"


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/pause", on=app_webhook)
async def pause_subscription(visit: Visit) -> Redirect:
    await _change(visit, WebhookChanges(status="paused"))
    return _back(visit, "Subscription paused. Events are kept until you resume it.")


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/resume", on=app_webhook)
async def resume_subscription(visit: Visit, form: ResumeForm) -> Redirect:
    await _change(visit, WebhookChanges(status="active", resume=form.what))
    return _back(visit, "Subscription resumed.")


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/secret", on=app_webhook)
async def rotate_subscription_secret(visit: Visit, form: SigningRotationForm) -> View:
    call = await webhook_call(visit)
    webhook_id = visit.path_param("webhook_id")
    async with write_transaction(visit, call):
        form.check((await locked(call, webhook_id)).sealed_secret)
        # Forced: the button also works while the previous secret is still valid.
        body = NewSecret(form.grace_hours, force=True)
        rotated = await secrets.rotate_webhook_secret(call, webhook_id, body)
    return secret_page(visit, call, rotated)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/delete", on=app_webhook)
async def delete_subscription(visit: Visit, form: ConfirmedForm) -> Redirect:
    call = await webhook_call(visit)
    async with write_transaction(visit, call):
        await endpoints.delete_webhook(call, visit.path_param("webhook_id"))
    return Redirect(f"{APPS}/{visit.app.id}/webhooks", "Subscription deleted.")


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/settings", nav="list_apps", right=Right.CHANGE)
async def webhook_settings(visit: Visit) -> View:
    call = await webhook_call(visit)
    hook = await subscription(visit.db, call, visit.path_param("webhook_id"))
    context = {
        "hook": hook,
        "groups": event_groups(),
        "granted": call.caller.scopes,
        "localhost_allowed": localhost_allowed(visit),
    }
    return View("apps/webhook_settings.html", context)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/settings", on=webhook_settings)
async def update_subscription(visit: Visit, form: SubscriptionForm) -> Redirect:
    changes = WebhookChanges(
        events=form.patterns(), url=form.url or None, name=form.name or None, changed=form.watched()
    )
    before, after = await _change(visit, changes)
    if len(after.headers) < len(before.headers):
        removed = ", ".join(before.headers)
        return _back(visit, f"Saved. The host changed, so these headers were removed: {removed}. Set them by the API.")
    return _back(visit, "Saved.")


async def _change(visit: Visit, changes: WebhookChanges) -> tuple[Webhook, Webhook]:
    """Apply the changes as the endpoint does for a merge patch; returns the subscription before and after."""
    call = await webhook_call(visit)
    before = await subscription(visit.db, call, visit.path_param("webhook_id"))
    call.require(WRITE)
    call.patch = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not msgspec.UNSET}
    async with refusals_as_faults(FIELDS):
        await endpoints.refuse_private_host(call, changes)
    async with write_transaction(visit, call, FIELDS):
        changed = await endpoints.update_webhook(call, visit.path_param("webhook_id"), changes)
    return before, msgspec.json.decode(changed.doc, type=Webhook)


def _back(visit: Visit, notice: str) -> Redirect:
    return Redirect(f"{APPS}/{visit.app.id}/webhooks/{visit.path_param('at')}/{visit.path_param('webhook_id')}", notice)
