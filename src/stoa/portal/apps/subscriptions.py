"""Webhook subscriptions of an app: the list across all stores, and the form for a new one."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from stoa.accounts.contract import Right
from stoa.db.fan_out import FanOut, in_order
from stoa.events.outbox import Event
from stoa.portal.apps.impersonation import (
    READ,
    WRITE,
    ImpersonatedCall,
    InstalledStore,
    call_as_app,
    effective_scopes,
    installed_stores,
    write_transaction,
)
from stoa.portal.apps.receivers import DEFAULT_PORT, OF_SUBSCRIPTION, receivers
from stoa.portal.kit.forms import text
from stoa.portal.kit.list_view import PAGE_SIZE, before_pair
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.rest.endpoint import One
from stoa.webhooks.api import endpoints, queries
from stoa.webhooks.api.contract import CHANGED_FIELD, MAX_CHANGED_FIELDS, NewWebhook, Webhook
from stoa.webhooks.api.documents import shown
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.http import address_guard

pages = Pages()
FIELDS = ("url", "name", "events", "changed")
_GROUPS = {
    "order": "Orders",
    "product": "Products and inventory",
    "customer": "Customers",
    "app": "This app",
    "webhook": "Webhooks of this app",
}
_FEW_FIELDS = f"Enter at most {MAX_CHANGED_FIELDS} fields, such as price, stock.available, metadata.tier."
_WEB_URL = re.compile(r"https?://\S+")


class SubscriptionForm(msgspec.Struct):
    events: list[str]
    url: Annotated[str, text("Use a URL with at most 2048 characters.", max_length=2048)] = ""
    name: Annotated[str, text("Use a name with at most 100 characters.", max_length=100)] = ""
    changed: Annotated[str, text(_FEW_FIELDS, max_length=3300)] = ""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        faults: dict[str, str] = {}
        if not values.get("events"):
            faults["events"] = "Select at least one event."
        elif not {*Event.subscribable(), *(f"{group}.*" for group in _GROUPS), "*"}.issuperset(values["events"]):
            faults["events"] = "Select events from this list."
        if values.get("url") and not _WEB_URL.fullmatch(values["url"]):
            faults["url"] = "Enter a URL without spaces that starts with https://."
        watched = _words(values.get("changed") or "")
        if len(watched) > MAX_CHANGED_FIELDS or any(not re.match(CHANGED_FIELD, each) for each in watched):
            faults["changed"] = _FEW_FIELDS
        return faults

    def patterns(self) -> list[str]:
        """Return the selected events, without those that a selected wildcard already covers."""
        wildcards = {each for each in self.events if each.endswith("*")}
        return [
            each
            for each in dict.fromkeys(self.events)
            if each in wildcards or f"{each.partition('.')[0]}.*" not in wildcards
        ]

    def watched(self) -> list[str]:
        """Return the fields of which one must change."""
        return _words(self.changed)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


class NewSubscriptionForm(SubscriptionForm):
    store: Annotated[str, text("Select a store.", max_length=200)] = ""


class EventChoice(msgspec.Struct, frozen=True):
    """An event in the event chooser."""

    name: str
    description: str
    scope: str


class SubscriptionKey(msgspec.Struct):
    store_id: int
    id: int


SUBSCRIPTIONS_OF_APP = FanOut(
    SubscriptionKey,
    """SELECT w.store_id, w.id FROM webhooks w
        WHERE w.app_id = $1 AND w.store_id = ANY ($2::text[]::bigint[]) AND w.ended_at IS NULL AND NOT w.of_app
          AND (w.id, w.store_id) < ($3, $4) AND w.store_id <> ALL ($6::bigint[])
        ORDER BY w.id DESC, w.store_id DESC LIMIT $5""",
    # Two shards can number two subscriptions alike, so the store is a part of the order.
    in_order("-id", "-store_id", limit=5, unique=["id", "store_id"]),
    unbound="an app's developer sees its subscriptions on all stores that grant it access",
)


@pages.page("/apps/{app_id:int}/webhooks", nav="list_apps")
async def app_webhooks(visit: Visit) -> View:
    stores = await installed_stores(visit)
    readable = [each for each in stores if READ in effective_scopes(visit, each)]
    rows = await _subscriptions(visit, readable)
    context = {
        "stores": stores,
        "hidden_stores": len(stores) - len(readable),
        "rows": rows[:PAGE_SIZE],
        "next": _position(*rows[PAGE_SIZE - 1]) if rows[PAGE_SIZE:] else "",
        "may_subscribe": any(WRITE in effective_scopes(visit, each) for each in stores),
    }
    return View("apps/webhooks.html", context)


def _position(store: InstalledStore, hook: Webhook) -> str:
    """Return where the list continues after a subscription."""
    return f"{hook.id}-{store.id}"


async def _subscriptions(visit: Visit, stores: Sequence[InstalledStore]) -> list[tuple[InstalledStore, Webhook]]:
    """Return subscriptions with their stores, newest first, and one more than a page holds."""
    by_id = {each.id: each for each in stores}
    store_ids = [str(each) for each in by_id]
    below = before_pair(visit)
    keys = await SUBSCRIPTIONS_OF_APP.all(visit.everywhere, visit.app.id, store_ids, *below, PAGE_SIZE + 1)
    found: list[tuple[InstalledStore, Webhook]] = []
    for store_id in {key.store_id for key in keys}:
        named = (store_id, visit.app.id, [key.id for key in keys if key.store_id == store_id])
        rows = await visit.everywhere.ask(by_id[store_id].shard, lambda db, named=named: queries.THESE.all(db, *named))
        found += [(by_id[store_id], shown(row)) for row in rows or []]
    return sorted(found, key=lambda pair: (-pair[1].id, -pair[0].id))


@pages.page("/apps/{app_id:int}/new-webhook", nav="list_apps", right=Right.CHANGE)
async def new_webhook(visit: Visit) -> View:
    stores = [each for each in await installed_stores(visit) if WRITE in effective_scopes(visit, each)]
    handle = visit.submitted.values.get("store", [""])[-1] if visit.submitted else visit.query("store")
    # By default the first store that installed the app, as in the snippets on the app's page.
    default = min(stores, key=lambda each: each.installed_at, default=None)
    context = {
        "stores": stores,
        "selected": next((each for each in stores if each.handle == handle), default),
        "groups": event_groups(),
        # Every scope that one of the stores grants; the selected store's scopes are checked on submission.
        "granted": frozenset[str]().union(*(effective_scopes(visit, each) for each in stores)),
        "localhost_allowed": localhost_allowed(visit),
    }
    return View("apps/new_webhook.html", context)


@pages.form("/apps/{app_id:int}/new-webhook", on=new_webhook)
async def create_subscription(visit: Visit, form: NewSubscriptionForm) -> View:
    call = await call_as_app(visit, form.store)
    body = NewWebhook(form.patterns(), url=form.url or None, name=form.name or None, changed=form.watched())
    call.require(WRITE)
    async with refusals_as_faults(FIELDS):
        await endpoints.refuse_private_host(call, body)
    async with write_transaction(visit, call, FIELDS):
        created = await endpoints.create_webhook(call, body)
    return secret_page(visit, call, created, new=True)


def secret_page(visit: Visit, call: ImpersonatedCall, result: One[Webhook], *, new: bool = False) -> View:
    """Return the only page that shows this secret."""
    hook = msgspec.json.decode(result.doc, type=Webhook)
    context = {
        "hook": hook,
        "at": call.store.handle,
        "new": new,
        "variable": OF_SUBSCRIPTION,
        "receivers": receivers(OF_SUBSCRIPTION, receiver_port(hook.url or "")),
    }
    return View("apps/webhook_secret.html", context, secret=True)


def receiver_port(url: str) -> int:
    """Return the port for the example receiver: that of a plain HTTP URL; behind TLS there is a proxy."""
    parts = urlsplit(url)
    return parts.port or 80 if parts.scheme == "http" else DEFAULT_PORT


def localhost_allowed(visit: Visit) -> bool:
    """Whether the service can deliver to a receiver on its own machine, as in the demo."""
    allowed = address_guard.Allowed.parse(visit.settings.webhook_allow)
    return address_guard.refuse_url(f"http://localhost:{DEFAULT_PORT}/", allowed) is None


@cache
def event_groups() -> list[tuple[str, str, list[EventChoice]]]:
    """Return the events by resource: the wildcard, its title, and its events."""
    groups: list[tuple[str, str, list[EventChoice]]] = []
    for group, title in _GROUPS.items():
        events = [each for each in Event.subscribable().values() if each.name.partition(".")[0] == group]
        events.sort(key=lambda each: each.resource_type == "import")  # the rarest last
        choices = [EventChoice(each.name, _summary(each), each.scope) for each in events if each is not WebhookTest]
        groups.append((f"{group}.*", title, choices))
    return groups


def _summary(event: type[Event]) -> str:
    """Return the first clause of an event's description."""
    clause = (event.__doc__ or "").strip().partition(";")[0]
    return clause if clause.endswith(".") else f"{clause}."
