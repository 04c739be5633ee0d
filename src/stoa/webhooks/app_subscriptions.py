"""The subscriptions that an app declares once for all stores that install it.

On each store a declaration is a subscription with `managed: true`, which signs with the app's own signing secret. A new
installation gets it in its transaction; a change reaches the other stores in the background.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stoa.access.app_changes import tell_shards
from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused, App
from stoa.access.operator import Operator, lock_live_app
from stoa.access.rules import expanded
from stoa.db.fan_out import FanOut, figures
from stoa.db.query import Command, Executor, Query
from stoa.events.outbox import Event
from stoa.rest.problems import Fault, ValidationFailed, counted
from stoa.webhooks.api.contract import (
    ChangedFields,
    Fields,
    FilterKey,
    FilterValue,
    InFlight,
    NewWebhook,
    Ordering,
    Patterns,
    Payload,
    Rate,
    Url,
    WebhookName,
)
from stoa.webhooks.api.queries import PAUSE_LANE, RESUME_LANE
from stoa.webhooks.api.rules import selected_events
from stoa.webhooks.api.subscriptions import host_of
from stoa.webhooks.api.validation import check_settings, not_allowed
from stoa.webhooks.app_callbacks import ensure_secret
from stoa.webhooks.http import address_guard

MAX_DECLARED = 20
_OWNER = "it belongs to an app, on every store"


class AppSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription that an app declares for all stores; its name identifies it among those of the app."""

    name: WebhookName
    events: Patterns
    url: Url | None = None
    filter: Annotated[dict[FilterKey, FilterValue], Meta(max_length=20)] = {}
    changed: ChangedFields = []
    fields: Fields = []
    payload: Payload = "full"
    ordering: Ordering = "none"
    skip_own: bool = False
    max_in_flight: InFlight = 10
    rate_per_s: Rate | None = None


class Declared(msgspec.Struct):
    """A declaration with its progress: the stores that have its current revision, of those that install the app."""

    id: int
    name: str
    url: str | None
    events: list[str]
    filter: str
    changed: list[str]
    fields: list[str]
    payload: str
    ordering: str
    skip_own: bool
    max_in_flight: int
    rate_per_s: int | None
    revision: int
    removing: bool
    applied: bool
    current_stores: int
    stores: int
    failed_stores: int
    paused_stores: int
    disabled_stores: int
    updated_at: datetime
    applied_at: datetime | None

    @property
    def settings(self) -> AppSubscription:
        values: dict[str, Any] = {name: getattr(self, name) for name in AppSubscription.__struct_fields__}
        return AppSubscription(**values | {"filter": msgspec.json.decode(self.filter)})


class FailedStore(msgspec.Struct):
    """A store that a revision could not reach yet, with the code of PostgreSQL."""

    handle: str
    error: str
    failed_at: datetime


class NoSuchDeclaration(AccessRefused):
    def __init__(self, name: str) -> None:
        super().__init__(f'the app declares no subscription "{name[:100]}"')


class TooManyDeclarations(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"an app can declare at most {MAX_DECLARED} subscriptions; remove one first")


# The stores are counted first: Citus does not join the rows of stores with each declaration.
_DECLARED = """
    WITH installed AS MATERIALIZED (
           SELECT count(*) AS stores FROM installations WHERE app_id = $1 AND store_id <> ALL ({absent}::bigint[])),
         reached AS MATERIALIZED (
           SELECT w.managed_by, w.managed_revision, count(*) AS stores, count(*) FILTER (WHERE w.status = 'paused') AS paused,
                  count(*) FILTER (WHERE w.status = 'disabled') AS disabled
             FROM webhooks w JOIN app_subscriptions o ON o.id = w.managed_by
            WHERE o.app_id = $1 AND w.ended_at IS NULL AND w.store_id <> ALL ({absent}::bigint[])
            GROUP BY w.managed_by, w.managed_revision)
    SELECT d.id, d.name, d.url, d.events, d.filter, d.changed, d.fields, d.payload, d.ordering, d.skip_own, d.max_in_flight,
           d.rate_per_s, d.revision, d.removed_at IS NOT NULL AS removing, d.applied_revision = d.revision AS applied,
           (SELECT coalesce(sum(r.stores), 0)::bigint FROM reached r
             WHERE r.managed_by = d.id AND r.managed_revision = d.revision) AS current_stores,
           (SELECT i.stores FROM installed i) AS stores,
           (SELECT count(*) FROM app_subscription_failures f WHERE f.subscription_id = d.id) AS failed_stores,
           (SELECT coalesce(sum(r.paused), 0)::bigint FROM reached r WHERE r.managed_by = d.id) AS paused_stores,
           (SELECT coalesce(sum(r.disabled), 0)::bigint FROM reached r WHERE r.managed_by = d.id) AS disabled_stores,
           d.updated_at, d.applied_at
      FROM app_subscriptions d
     WHERE d.app_id = $1"""
_OF_SHARDS = figures("current_stores", "stores", "paused_stores", "disabled_stores")
DECLARED = FanOut(Declared, _DECLARED.format(absent="$2") + " ORDER BY d.id", _OF_SHARDS, unbound=_OWNER)
BY_NAME = FanOut(
    Declared,
    _DECLARED.format(absent="$3") + " AND d.name = $2 AND d.removed_at IS NULL",
    _OF_SHARDS,
    unbound=_OWNER,
)
BY_ID = FanOut(Declared, _DECLARED.format(absent="$3") + " AND d.id = $2", _OF_SHARDS, unbound=_OWNER)
FAILED = Query(
    FailedStore,
    """SELECT s.handle, f.error, f.failed_at FROM app_subscription_failures f JOIN stores s ON s.id = f.store_id
        WHERE f.subscription_id = $1 ORDER BY f.failed_at DESC LIMIT 20""",
    unbound=_OWNER,
)
COUNT = Query(int, "SELECT count(*) FROM app_subscriptions WHERE app_id = $1 AND removed_at IS NULL", unbound=_OWNER)
_VALUES = "$3, $4, $5, $6, $7, $8, $9, $10, $11, $12"
_COLUMNS = "url, events, filter, changed, fields, payload, ordering, skip_own, max_in_flight, rate_per_s"
# A new revision begins its way to the stores at the first one.
_RESTART = "revision = revision + 1, applied_store_id = 0, applied_stores = 0, applied_at = NULL, updated_at = now()"
INSERT = Command(f"INSERT INTO app_subscriptions (app_id, name, {_COLUMNS}) VALUES ($1, $2, {_VALUES})", unbound=_OWNER)
CHANGE = Command(
    f"UPDATE app_subscriptions SET ({_COLUMNS}) = ({_VALUES}), {_RESTART} WHERE app_id = $1 AND name = $2 AND removed_at IS NULL",
    unbound=_OWNER,
)
_NAMED = "WHERE app_id = $1 AND name = $2 AND removed_at IS NULL RETURNING id"
REMOVE = Query(int, f"UPDATE app_subscriptions SET removed_at = now(), {_RESTART} {_NAMED}", unbound=_OWNER)
RESUME = Query(int, f"UPDATE app_subscriptions SET {_RESTART} {_NAMED}", unbound=_OWNER)


class ManagedOnStore(msgspec.Struct):
    """A managed subscription of one store, as its merchant sees it."""

    id: int
    name: str
    events: list[str]
    status: str


ON_STORE = Query(
    ManagedOnStore,
    """SELECT id, name, events, status FROM webhooks
        WHERE store_id = $1 AND app_id = $2 AND managed_by IS NOT NULL AND ended_at IS NULL ORDER BY id""",
)
SET_STATUS = Query(
    str,
    """UPDATE webhooks SET status = $4, disabled_reason = NULL, version = version + 1, updated_at = now()
        WHERE store_id = $1 AND app_id = $2 AND id = $3 AND managed_by IS NOT NULL AND ended_at IS NULL AND status <> $4
       RETURNING name""",
)


async def declared_by(db: Executor, app_id: int) -> list[Declared]:
    return await DECLARED.all(db, app_id)


async def declare(by: Operator, app: str, body: AppSubscription) -> tuple[Declared, str | None]:
    """Declare a subscription, or change the one with this name. Returns it, and the signing secret if it is new."""
    unreachable = await unreachable_host(by, body.url)  # before the transaction, because it may be slow
    return await save_declaration(by, app, body, unreachable)


async def unreachable_host(by: Operator, url: str | None) -> Fault | None:
    """Why the service does not send to the host of a URL that it otherwise accepts."""
    allowed = address_guard.Allowed.parse(by.settings.webhook_allow)
    if url is None or address_guard.refuse_url(url, allowed) is not None:
        return None
    why = await address_guard.refuse_host(url, allowed)
    return not_allowed(why) if why is not None else None


async def save_declaration(
    by: Operator, app: str, body: AppSubscription, unreachable: Fault | None = None
) -> tuple[Declared, str | None]:
    """Declare a subscription whose host was checked before the transaction."""
    async with by.db.transaction() as db:
        # So that an installation either sees this change, or is seen by the background duty.
        found = await lock_live_app(db, app)
        faults: list[Fault] = []
        kept = check_declaration(body, found.scopes, faults, webhook_allow=by.settings.webhook_allow)
        faults += [unreachable] if unreachable else []
        if faults:
            raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)
        before = await BY_NAME.maybe(db, found.id, body.name)
        if before is not None and before.settings == msgspec.structs.replace(body, filter=dict[str, Any](kept)):
            return before, None
        if before is None and await COUNT.one(db, found.id) >= MAX_DECLARED:
            raise TooManyDeclarations
        secret = await ensure_secret(db, by, found.id)
        await (CHANGE if before else INSERT).run(
            db,
            found.id,
            body.name,
            body.url,
            body.events,
            msgspec.json.encode(kept).decode(),
            body.changed,
            body.fields,
            body.payload,
            body.ordering,
            body.skip_own,
            body.max_in_flight,
            body.rate_per_s,
        )
        await tell_shards(by, db, found.id)
        action = "app.subscription_changed" if before else "app.subscription_declared"
        await _record(by, db, found, action, name=body.name, host=host_of(body.url), events=body.events)
        return await BY_NAME.one(db, found.id, body.name), secret


async def remove(by: Operator, app: str, name: str) -> Declared:
    """Remove a declaration, and its subscription from every store."""
    return await _restart(by, app, name, REMOVE, "app.subscription_removed")


async def resume(by: Operator, app: str, name: str) -> Declared:
    """Send again on the stores on which the subscription was disabled; what merchants paused stays paused."""
    return await _restart(by, app, name, RESUME, "app.subscription_resumed")


async def _restart(by: Operator, app: str, name: str, statement: Query[int], action: str) -> Declared:
    async with by.db.transaction() as db:
        found = await lock_live_app(db, app)
        declared_id = await statement.maybe(db, found.id, name)
        if declared_id is None:
            raise NoSuchDeclaration(name)
        await tell_shards(by, db, found.id)
        await _record(by, db, found, action, name=name)
        return await BY_ID.one(db, found.id, declared_id)


async def set_on_store(by: Operator, store_id: int, app_id: int, webhook_id: int, *, paused: bool) -> None:
    """Pause or resume a managed subscription on one store, as its merchant decides. Its events are kept while it is paused."""
    status = "paused" if paused else "active"
    async with by.db.transaction() as db:
        if await SET_STATUS.maybe(db, store_id, app_id, webhook_id, status) is None:
            return
        await (PAUSE_LANE if paused else RESUME_LANE).one(db, store_id, webhook_id)
        await by.record(db, store_id, "webhook.changed", f"webhook:{webhook_id}", fields=["status"], status=status)


def check_declaration(
    body: AppSubscription, scopes: Collection[str], faults: list[Fault], *, webhook_allow: str | None
) -> dict[str, str]:
    """Add every fault of a declaration of an app that requests these scopes, and return the normalized filter.

    Where it is unknown to which addresses the service sends, `webhook_allow` is None, and the URL is not checked.
    """
    members = {name: getattr(body, name) for name in AppSubscription.__struct_fields__}
    given = {name: value for name, value in members.items() if name != "url" or webhook_allow is not None}
    kept = check_settings(NewWebhook(**members), given, faults, digits=None, webhook_allow=webhook_allow or "")
    requested = expanded(scopes)
    for index, pattern in enumerate(body.events):
        needed = [event.scope for event in selected_events([pattern], Event.subscribable())]
        if needed and not requested.intersection(needed):
            faults.append(
                Fault(f"/events/{index}", "insufficient_scope", f"needs {needed[0]}, which the app does not request")
            )
    return kept


async def _record(by: Operator, db: Executor, app: App, action: str, **detail: Any) -> None:
    await by.record(db, SERVICE, action, f"app:{app.id}", **detail)
