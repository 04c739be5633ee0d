"""One subscription of an app: how it fares, tried out, changed, paused, given a new secret and ended from a page."""

from typing import Annotated, Any, Literal

import msgspec

from stoa.db.query import Executor
from stoa.events.outbox import Event
from stoa.portal.acting import WRITE, Acting, looking, telling, writing
from stoa.portal.answering import not_found
from stoa.portal.apps import APPS
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import Pages, Redirect, View
from stoa.portal.subscriptions import FIELDS, Settings, choices, near, secret_page
from stoa.portal.visit import Visit
from stoa.webhooks.api import endpoints, queries, secrets, test_send
from stoa.webhooks.api.contract import NewSecret, NewTest, TestResult, Webhook, WebhookChanges
from stoa.webhooks.api.documents import shown
from stoa.webhooks.delivery.events import WebhookTest

pages = Pages()
_LONGEST_SHOWN = 8_000


class Resumption(msgspec.Struct):
    what: Annotated[Literal["all", "now"], msgspec.Meta(extra={"say": "Choose one of these."})] = "all"


class Rotation(msgspec.Struct):
    grace_hours: Annotated[int, msgspec.Meta(ge=0, le=168, extra={"say": "Choose one of these."})]


class Trial(msgspec.Struct):
    event: Annotated[str, text("Choose an event.", most=64)] = WebhookTest.name


class Ending(msgspec.Struct):
    sure: bool = False


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}", under="list_apps")
async def app_webhook(visit: Visit) -> View:
    call = await looking(visit)
    return await _page(visit, call)


async def _page(visit: Visit, call: Acting, **more: Any) -> View:
    hook = await subscription(visit.db, call, visit.place("webhook_id"))
    tried = [WebhookTest.name, *(each.name for _, _, group in choices() for each in group)]
    tried = [name for name in tried if call.caller.may(Event.known[name].scope)]
    context = {"hook": hook, "store": call.store, "tried": tried, "result": None, "may_write": call.caller.may(WRITE)}
    return View("apps/webhook.html", {**context, **more})


async def subscription(db: Executor, call: Acting, webhook_id: int) -> Webhook:
    """A subscription of this app at this store."""
    row = await queries.GET.maybe(db, call.store_id, call.caller.app_id, webhook_id)
    if row is None:
        raise not_found()
    return shown(row)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/test", on=app_webhook)
async def try_subscription(visit: Visit, form: Trial) -> View:
    call = await looking(visit)
    call.require(WRITE)
    kind = Event.known.get(form.event)
    if kind is not None and not call.caller.may(kind.scope):
        raise Wrong(event="The store does not let this app hear of that.")
    async with telling(("event",)):
        sent = await test_send.send_webhook_test(call, visit.place("webhook_id"), NewTest(form.event))
    result = msgspec.json.decode(sent.doc, type=TestResult)
    return await _page(visit, call, result=result, sent=_as_sent(result))


def _as_sent(result: TestResult) -> str:
    """The request of a test, as it went over the line."""
    headers = "\n".join(f"{name}: {value}" for name, value in result.request_headers.items())
    return f"POST {result.url}\n{headers}\n\n{result.request_body[:_LONGEST_SHOWN]}"


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/pause", on=app_webhook)
async def pause_subscription(visit: Visit) -> Redirect:
    await _change(visit, WebhookChanges(status="paused"))
    return _back(visit, "Paused. Events are kept until you resume.")


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/resume", on=app_webhook)
async def resume_subscription(visit: Visit, form: Resumption) -> Redirect:
    await _change(visit, WebhookChanges(status="active", resume=form.what))
    return _back(visit, "Active again.")


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/secret", on=app_webhook)
async def rotate_subscription_secret(visit: Visit, form: Rotation) -> View:
    call = await looking(visit)
    async with writing(visit, call):
        # Whoever presses the button means it, also while an older secret still signs.
        body = NewSecret(form.grace_hours, force=True)
        made = await secrets.rotate_webhook_secret(call, visit.place("webhook_id"), body)
    return secret_page(visit, call, made)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/delete", on=app_webhook)
async def end_subscription(visit: Visit, form: Ending) -> Redirect:
    call = await looking(visit)
    if not form.sure:
        raise Wrong(sure="Tick this first.")
    async with writing(visit, call):
        await endpoints.delete_webhook(call, visit.place("webhook_id"))
    return Redirect(f"{APPS}/{visit.app.id}/webhooks", "The subscription is deleted.")


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/settings", under="list_apps")
async def webhook_settings(visit: Visit) -> View:
    call = await looking(visit)
    hook = await subscription(visit.db, call, visit.place("webhook_id"))
    context = {
        "hook": hook,
        "store": call.store,
        "groups": choices(),
        "granted": call.caller.scopes,
        "near": near(visit),
    }
    return View("apps/webhook_settings.html", context)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/settings", on=webhook_settings)
async def change_subscription(visit: Visit, form: Settings) -> Redirect:
    changes = WebhookChanges(events=form.wanted(), url=form.url or None, name=form.name or None)
    await _change(visit, changes)
    return _back(visit, "Saved.")


async def _change(visit: Visit, changes: WebhookChanges) -> None:
    """What a merge patch with these members does."""
    call = await looking(visit)
    call.require(WRITE)
    call.patch = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not msgspec.UNSET}
    async with telling(FIELDS):
        await endpoints.refuse_private_host(call, changes)
    async with writing(visit, call, FIELDS):
        await endpoints.update_webhook(call, visit.place("webhook_id"), changes)


def _back(visit: Visit, words: str) -> Redirect:
    return Redirect(f"{APPS}/{visit.app.id}/webhooks/{visit.place('at')}/{visit.place('webhook_id')}", words)
