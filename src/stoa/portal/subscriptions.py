"""An app's webhooks over its stores: the list of them, and a new one with its secret."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from stoa.db.query import Query
from stoa.events.outbox import Event
from stoa.portal.acting import (
    READ,
    WRITE,
    Acting,
    There,
    acting_at,
    in_force_there,
    stores_of,
    telling,
    writing,
)
from stoa.portal.forms import text
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit
from stoa.rest.endpoint import One
from stoa.webhooks.api import endpoints, queries
from stoa.webhooks.api.contract import NewWebhook, Webhook
from stoa.webhooks.api.documents import shown
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.http import address_guard

pages = Pages()
LISTED = 25
FIELDS = ("url", "name", "events")
_NOUNS = {
    "order": "Orders",
    "product": "Products and stock",
    "customer": "Customers",
    "app": "This app",
    "webhook": "Its webhooks",
}

Address = Annotated[str, text("Give an address of at most 2048 characters.", most=2048)]
Name = Annotated[str, text("Give a name of at most 100 characters.", most=100)]
_PORT = 8787
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
    # At first the one that has had the app for longest: its lines to paste call that store, too.
    usual = min(able, key=lambda each: each.installed_at, default=None)
    chosen = next((each for each in able if each.handle == asked), usual)
    context = {
        "stores": stores,
        "able": able,
        "chosen": chosen,
        "groups": choices(),
        # What one of them grants may be ticked; whether the chosen one does is told when it is sent.
        "granted": frozenset[str]().union(*(in_force_there(visit, each) for each in able)),
        "near": near(visit),
    }
    return View("apps/new_webhook.html", context)


@pages.form("/apps/{app_id:int}/new-webhook", on=new_webhook)
async def create_subscription(visit: Visit, form: NewSubscription) -> View:
    call = await acting_at(visit, form.store)
    body = NewWebhook(form.wanted(), url=form.url or None, name=form.name or None)
    call.require(WRITE)
    async with telling(FIELDS):
        await endpoints.refuse_private_host(call, body)
    async with writing(visit, call, FIELDS):
        made = await endpoints.create_webhook(call, body)
    return secret_page(visit, call, made, fresh=True)


def secret_page(visit: Visit, call: Acting, made: One[Webhook], *, fresh: bool = False) -> View:
    """The one page that ever shows this secret."""
    hook = msgspec.json.decode(made.doc, type=Webhook)
    context = {"hook": hook, "at": call.store.handle, "fresh": fresh, "port": _port(hook.url or "")}
    return View("apps/webhook_secret.html", context, secret=True)


def _port(url: str) -> int:
    """Where the receiver that we show listens: where a plain address leads; before TLS something else stands."""
    parts = urlsplit(url)
    return parts.port or 80 if parts.scheme == "http" else _PORT


def near(visit: Visit) -> bool:
    """Whether events may be sent to a receiver on this very machine, as in the demo."""
    allowed = address_guard.Allowed.parse(visit.settings.webhook_allow)
    return address_guard.refuse_url(f"http://localhost:{_PORT}/", allowed) is None


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
