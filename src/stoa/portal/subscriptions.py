"""An app's webhooks over its stores: subscribed, tried out, paused, given a new secret and ended from a page."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from stoa.db.query import Executor, Query
from stoa.events.outbox import Event
from stoa.portal.acting import (
    READ,
    WRITE,
    Acting,
    There,
    acting_at,
    in_force_there,
    looking,
    stores_of,
    telling,
    writing,
)
from stoa.portal.answering import not_found
from stoa.portal.apps import APPS
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import Pages, Redirect, View
from stoa.portal.visit import Visit
from stoa.rest.endpoint import One
from stoa.webhooks import endpoints, guard, queries, trying
from stoa.webhooks.contract import NewSecret, NewTest, NewWebhook, TestResult, Webhook, WebhookChanges
from stoa.webhooks.documents import shown
from stoa.webhooks.events import WebhookTest

pages = Pages()
LISTED = 25
_LONGEST_SHOWN = 8_000
_FIELDS = ("url", "name", "events")
_NOUNS = {
    "order": "Orders",
    "product": "Products and stock",
    "customer": "Customers",
    "app": "This app",
    "webhook": "Its webhooks",
}

Address = Annotated[str, text("Give an address of at most 2048 characters.", most=2048)]
Name = Annotated[str, text("Give a name of at most 100 characters.", most=100)]
_WEB_ADDRESS = re.compile(r"https?://\S+")


class Settings(msgspec.Struct):
    events: list[str]
    url: Address = ""
    name: Name = ""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        faults: dict[str, str] = {}
        if not values.get("events"):
            faults["events"] = "Choose at least one event."
        elif not {*Event.known, *(f"{noun}.*" for noun in _NOUNS), "*"}.issuperset(values["events"]):
            faults["events"] = "Choose among these events."
        if values.get("url") and not _WEB_ADDRESS.fullmatch(values["url"]):
            faults["url"] = "Give a web address without spaces that begins with https://."
        return faults

    def wanted(self) -> list[str]:
        """What was ticked, without what a wildcard means anyway."""
        all_of = {each for each in self.events if each.endswith("*")}
        return [
            each for each in dict.fromkeys(self.events) if each in all_of or f"{each.partition('.')[0]}.*" not in all_of
        ]


class NewSubscription(Settings):
    store: Annotated[str, text("Choose a store.", most=200)] = ""


class Resumption(msgspec.Struct):
    what: Annotated[Literal["all", "now"], msgspec.Meta(extra={"say": "Choose one of these."})] = "all"


class Rotation(msgspec.Struct):
    grace_hours: Annotated[int, msgspec.Meta(ge=0, le=168, extra={"say": "Choose one of these."})]


class Trial(msgspec.Struct):
    event: Annotated[str, text("Choose an event.", most=64)] = WebhookTest.name


class Ending(msgspec.Struct):
    sure: bool = False


class Choice(msgspec.Struct, frozen=True):
    """An event that may be ticked."""

    name: str
    words: str
    scope: str


class Place(msgspec.Struct):
    store_id: int
    id: int


# The stores are those that have the app installed and let it see its webhooks.
SUBSCRIPTIONS_OF_APP = Query(
    Place,
    """SELECT w.store_id, w.id FROM webhooks w
        WHERE w.app_id = $1 AND w.store_id = ANY ($2::text[]::bigint[]) AND w.ended_at IS NULL AND w.id < $3
        ORDER BY w.id DESC LIMIT $4""",
    unbound="the developer of an app sees its webhooks in all stores",
)


# --- all of an app --------------------------------------------------------------------------------------------------


@pages.page("/apps/{app_id:int}/webhooks", under="list_apps")
async def app_webhooks(visit: Visit) -> View:
    stores = await stores_of(visit)
    seen = [each for each in stores if READ in in_force_there(visit, each)]
    rows = await _listed(visit, seen, before(visit))
    context = {
        "stores": stores,
        "blind": len(stores) - len(seen),
        "rows": rows[:LISTED],
        "next": rows[LISTED - 1][1].id if rows[LISTED:] else 0,
        "may_subscribe": any(WRITE in in_force_there(visit, each) for each in stores),
    }
    return View("apps/webhooks.html", context)


def before(visit: Visit) -> int:
    """The number below which a list goes on, as its address says; what it says wrongly is left out."""
    said = visit.query("before")
    return int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 19 else 2**62


async def _listed(visit: Visit, seen: Sequence[There], below: int) -> list[tuple[There, Webhook]]:
    """Subscriptions with how they fare, the newest first, and one more than a page holds."""
    by_id = {each.id: each for each in seen}
    places = await SUBSCRIPTIONS_OF_APP.all(visit.db, visit.app.id, [str(each) for each in by_id], below, LISTED + 1)
    found: list[tuple[There, Webhook]] = []
    for store_id in {place.store_id for place in places}:
        ids = [place.id for place in places if place.store_id == store_id]
        rows = await queries.THESE.all(visit.db, store_id, visit.app.id, ids)
        found += [(by_id[store_id], shown(row)) for row in rows]
    return sorted(found, key=lambda pair: -pair[1].id)


@pages.page("/apps/{app_id:int}/new-webhook", under="list_apps")
async def new_webhook(visit: Visit) -> View:
    stores = await stores_of(visit)
    able = [each for each in stores if WRITE in in_force_there(visit, each)]
    asked = visit.filled.values.get("store", [""])[-1] if visit.filled else visit.query("store")
    chosen = next((each for each in able if each.handle == asked), able[0] if able else None)
    context = {
        "stores": stores,
        "able": able,
        "chosen": chosen,
        "groups": choices(),
        "granted": in_force_there(visit, chosen) if chosen else frozenset[str](),
        "near": _near(visit),
    }
    return View("apps/new_webhook.html", context)


@pages.form("/apps/{app_id:int}/new-webhook", on=new_webhook)
async def create_subscription(visit: Visit, form: NewSubscription) -> View:
    call = await acting_at(visit, form.store)
    body = NewWebhook(form.wanted(), url=form.url or None, name=form.name or None)
    call.require(WRITE)
    async with telling(_FIELDS):
        await endpoints.refuse_private_host(call, body)
    async with writing(visit, call, _FIELDS):
        made = await endpoints.create_webhook(call, body)
    return _secret_page(visit, call, made, fresh=True)


def _secret_page(visit: Visit, call: Acting, made: One[Webhook], *, fresh: bool = False) -> View:
    """The one page that ever shows this secret."""
    hook = msgspec.json.decode(made.doc, type=Webhook)
    return View("apps/webhook_secret.html", {"hook": hook, "at": call.store.handle, "fresh": fresh}, secret=True)


def _near(visit: Visit) -> bool:
    """Whether events may be sent to a receiver on this very machine, as in the demo."""
    allowed = guard.Allowed.parse(visit.settings.webhook_allow)
    return guard.refuse_url("http://localhost:8787/", allowed) is None


@cache
def choices() -> list[tuple[str, str, list[Choice]]]:
    """The events by what they are about: the wildcard, its words, and each event in plain words."""
    groups: list[tuple[str, str, list[Choice]]] = []
    for noun, words in _NOUNS.items():
        named = [each for each in Event.known.values() if each.name.partition(".")[0] == noun]
        named.sort(key=lambda each: each.resource_type == "import")  # the rarest last
        found = [Choice(each.name, _plain(each), each.scope) for each in named if each is not WebhookTest]
        groups.append((f"{noun}.*", words, found))
    return groups


def _plain(event: type[Event]) -> str:
    """An event's description without what is only of use to whoever reads its document."""
    told = (event.__doc__ or "").strip().partition(";")[0]
    return told if told.endswith(".") else f"{told}."


# --- one of them ----------------------------------------------------------------------------------------------------


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
        sent = await trying.send_webhook_test(call, visit.place("webhook_id"), NewTest(form.event))
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
        made = await trying.rotate_webhook_secret(call, visit.place("webhook_id"), body)
    return _secret_page(visit, call, made)


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
        "near": _near(visit),
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
    async with telling(_FIELDS):
        await endpoints.refuse_private_host(call, changes)
    async with writing(visit, call, _FIELDS):
        await endpoints.update_webhook(call, visit.place("webhook_id"), changes)


def _back(visit: Visit, words: str) -> Redirect:
    return Redirect(f"{APPS}/{visit.app.id}/webhooks/{visit.place('at')}/{visit.place('webhook_id')}", words)
