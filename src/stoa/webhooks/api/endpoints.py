"""The endpoints that list, create, read, change and delete subscriptions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from stoa.events.outbox import Event
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, NoContent, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes, merge
from stoa.rest.problems import AppNotInstalled, Fault, ValidationFailed, counted
from stoa.webhooks.api import queries, rules
from stoa.webhooks.api.contract import (
    MAX_WEBHOOKS,
    VOLATILE,
    ManagedSubscription,
    NewWebhook,
    ResumeSince,
    TooManyWebhooks,
    Webhook,
    WebhookChanges,
    WebhookExists,
)
from stoa.webhooks.api.documents import Secrets, same_key, shown
from stoa.webhooks.api.examples import NEW_WEBHOOK, WEBHOOK_CHANGES
from stoa.webhooks.api.listings import WEBHOOKS
from stoa.webhooks.api.queries import Row
from stoa.webhooks.api.samples import sample
from stoa.webhooks.api.schemas import address
from stoa.webhooks.api.subscriptions import found, host_of, locked_to_change, record, webhook_response
from stoa.webhooks.api.validation import check_settings, not_allowed
from stoa.webhooks.http import address_guard
from stoa.webhooks.http.address_guard import same_receiver
from stoa.webhooks.http.message import new_secret

routes = Routes("Webhooks")
_ROUTING_FIELDS = {"name", "events", "filter", "changed", "skip_own"}
_RECEIVER = ("url", "events", "filter", "changed")  # with the headers and the secret: who receives what


@routes.get("/webhooks", scope="webhooks:read", lists=WEBHOOKS, primary=True)
async def list_webhooks(call: Call, query: ListQuery) -> Page[Webhook]:
    """List this app's subscriptions on this store.

    `meta.available_events` lists every event: the scope that it needs, whether the app has that scope, the URL of its
    JSON Schema, and a sample payload.
    """
    mine = query.with_filter("app_id", call.caller.app_id)
    page = await list_page(call.db, call.store_id, queries.LISTING, mine, separate=True)
    rows = await queries.THESE.all(call.db, call.store_id, call.caller.app_id, list(page.ids)) if page.docs else []
    found = {row.id: msgspec.json.encode(shown(row)) for row in rows}
    # A subscription that ended since the first query is omitted.
    page.docs = [found[each] for each in page.ids if each in found]
    page.extra_meta = {"available_events": [_available(call, event) for event in Event.subscribable().values()]}
    return page


def _available(call: Call, event: type[Event]) -> dict[str, Any]:
    return {
        "name": event.name,
        "description": (event.__doc__ or "").strip(),
        "scope": event.scope,
        "granted": call.caller.may(event.scope),
        "schema": address(event.name),
        "sample": _sample(event),
    }


@cache
def _sample(event: type[Event]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(sample(event)))


async def refuse_private_host(call: Call, body: NewWebhook | WebhookChanges, **_: Any) -> None:
    """Resolve the host before the transaction, because that may be slow; each connection checks the address again."""
    allowed = address_guard.Allowed.parse(call.settings.webhook_allow)
    if isinstance(body.url, str) and address_guard.refuse_url(body.url, allowed) is None:
        why = await address_guard.refuse_host(body.url, allowed)
        if why is not None:
            raise ValidationFailed("This URL cannot receive webhooks.", faults=[not_allowed(why)])


@routes.post(
    "/webhooks",
    scope="webhooks:write",
    errors=[WebhookExists, TooManyWebhooks],
    example=NEW_WEBHOOK,
    before=refuse_private_host,
    secret=True,
)
async def create_webhook(call: Call, body: NewWebhook) -> Created[Webhook]:
    """Subscribe to events.

    You receive every event that is committed after the response. The response contains `secret` only this once;
    repeating the call with the same `Idempotency-Key` returns it again.

    - **`events`** are names (`order.status_changed`), families (`order.*`) or `*`. Names and families require the
      scope of their events in the token. `*` selects every event that the token may read; a token without `scope`
      follows the installation, a narrowed one bounds the subscription for good.
    - **`filter`** has the grammar of list filters and applies to the resource, for example
      `{"status":"cancelled","total[gte]":"100.00"}`.
    - **`changed`** names fields: an update is sent only if one of them changed.
    - **`url`**: without it nothing is sent, and you read the events from the feed.
    """
    kept = _checked(call, body, _SETTINGS)
    rules.check_scopes(body.events, Event.subscribable(), call.caller)
    key = same_key(body.url, body.name or "", body.events)
    await _refuse_same(call, key)
    if await queries.COUNT.one(call.db, call.store_id, call.caller.app_id) >= MAX_WEBHOOKS:
        raise TooManyWebhooks(f"An app can have at most {MAX_WEBHOOKS} subscriptions on a store.")
    webhook_id = await queries.NEW_ID.one(call.db)
    secret, secrets = new_secret(), Secrets(call)
    await queries.INSERT.run(
        call.db,
        call.store_id,
        webhook_id,
        call.caller.app_id,
        body.name or "",
        body.url,
        body.events,
        msgspec.json.encode(kept).decode(),
        body.fields,
        body.payload,
        body.ordering,
        body.skip_own,
        list(body.headers),
        secrets.encrypt_headers(webhook_id, body.headers),
        secrets.encrypt(webhook_id, secret),
        key,
        body.status,
        body.max_in_flight,
        body.rate_per_s,
        rules.readable_by(call.caller),
        body.changed,
    )
    await queries.INSERT_LANE.run(call.db, call.store_id, webhook_id)
    row = await found(call, webhook_id)
    await record(call, "webhook.created", webhook_id, host=host_of(body.url), events=body.events)
    webhook = msgspec.structs.replace(shown(row), secret=secret)
    return Created(msgspec.json.encode(webhook), row.version, f"/webhooks/{webhook_id}")


@routes.get("/webhooks/{webhook_id}", scope="webhooks:read", primary=True)
async def get_webhook(call: Call, webhook_id: int) -> One[Webhook]:
    """Get one subscription, with its health and figures.

    `version` and `ETag` change only with the settings, not with `health`, `pending`, `oldest_pending_age_s`, `breaker` or
    `stats_24h`.
    """
    return webhook_response(await found(call, webhook_id))


@routes.patch(
    "/webhooks/{webhook_id}",
    scope="webhooks:write",
    errors=[WebhookExists, ManagedSubscription],
    example=WEBHOOK_CHANGES,
    before=refuse_private_host,
    repeats=True,  # `resume` skips what is pending at its time
)
async def update_webhook(call: Call, webhook_id: int, body: WebhookChanges) -> One[Webhook]:
    """Change a subscription by merge patch.

    A change of `url`, `events`, `filter`, `changed` or `headers` requires the scopes of the events in the token, as a
    new subscription.

    - **`status`**: `paused` keeps events without sending them. `active` resumes, also a disabled subscription: it
      sends all pending deliveries, or with `resume` only those of new events (`now`) or of events since a time
      (`{"since":"..."}`).
    - **`url`** also applies to pending deliveries. If its host changes, all values of `headers` are removed: send them
      again in the same call.
    - **`headers`**: responses never contain their values. Omit a header, or send its asterisks back, to keep it.
    """
    row = await locked_to_change(call, webhook_id)
    call.check_version(row.version)
    before = shown(row)
    call.echoed = {name: value for name, value in call.echoed.items() if name not in VOLATILE}
    current: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(before)) if call.echoed else {}
    if "secret" in call.echoed:
        current["secret"] = Secrets(call).of(row)[0]  # a caller may echo the secret that it received once
    check_echoes(call, current)
    after, headers = _changed(call, row, body)
    skip_before = await _resumed(call, body)
    settings, stored = _settings(before), Secrets(call).headers_of(row)
    resumes = body.status == "active" and (row.status != "active" or body.resume is not UNSET)
    if after == settings and headers == stored and not resumes:
        return webhook_response(row)
    new = _with_defaults(call, after, headers)
    kept = _checked(call, new, call.patch, stored)
    readable = row.readable
    if headers != stored or any(after[name] != settings[name] for name in _RECEIVER):
        rules.check_scopes(new.events, Event.subscribable(), call.caller)
        readable = rules.readable_by(call.caller)
    key = same_key(new.url, new.name or "", new.events)
    await _refuse_same(call, key, webhook_id)
    status = new.status if isinstance(body.status, str) else row.status
    await queries.UPDATE.run(
        call.db,
        call.store_id,
        webhook_id,
        new.name or "",
        new.url,
        new.events,
        msgspec.json.encode(kept).decode(),
        new.fields,
        new.payload,
        new.ordering,
        new.skip_own,
        list(headers),
        Secrets(call).encrypt_headers(webhook_id, headers),
        key,
        status,
        new.max_in_flight,
        new.rate_per_s,
        skip_before,
        readable,
        new.changed,
        resumes,
    )
    if call.patch.keys() - _ROUTING_FIELDS:
        # End the lease of the lane, so that pending deliveries use the new settings.
        lane = queries.RESUME_LANE if status == "active" and new.url is not None else queries.PAUSE_LANE
        await lane.one(call.db, call.store_id, webhook_id)
    names = sorted(call.patch)
    await record(call, "webhook.changed", webhook_id, host=host_of(new.url), fields=names, status=status)
    return webhook_response(await found(call, webhook_id))


@routes.delete("/webhooks/{webhook_id}", scope="webhooks:write", errors=[ManagedSubscription])
async def delete_webhook(call: Call, webhook_id: int) -> NoContent:
    """Unsubscribe.

    Nothing more is sent. Pending deliveries and the delivery log are deleted.
    """
    row = await locked_to_change(call, webhook_id)
    call.check_version(row.version)
    await queries.END.run(call.db, call.store_id, webhook_id)
    await queries.RESUME_LANE.one(call.db, call.store_id, webhook_id)
    await record(call, "webhook.deleted", webhook_id, host=host_of(row.url))
    return NoContent()


# --- checks -----------------------------------------------------------------------------------------------------------


def _checked(call: Call, body: NewWebhook, given: Collection[str], stored: Collection[str] = ()) -> dict[str, str]:
    """The normalized filter; raises every fault at once."""
    allow = call.settings.webhook_allow
    digits = call.store.digits
    faults: list[Fault] = []
    kept = check_settings(body, given, faults, digits=digits, webhook_allow=allow, stored_headers=stored)
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)
    return kept


async def _refuse_same(call: Call, key: bytes, but: int = 0) -> None:
    """Refuse a second subscription with this key; the lock serializes concurrent calls of one app."""
    if await queries.LOCK_INSTALLATION.maybe(call.db, call.store_id, call.caller.app_id) is None:
        raise AppNotInstalled
    same = await queries.SAME.maybe(call.db, call.store_id, call.caller.app_id, key)
    if same not in (None, but):
        raise WebhookExists("Another subscription already sends these events to this URL.", existing_id=same)


_SETTINGS = tuple(field.encode_name for field in msgspec.structs.fields(NewWebhook) if field.name != "headers")


def _settings(webhook: Webhook) -> dict[str, Any]:
    """The fields of a subscription that its app sets."""
    members = msgspec.to_builtins(webhook)
    return {name: members[name] for name in _SETTINGS}


def _changed(call: Call, row: Row, body: WebhookChanges) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and headers after a merge patch; a cleared field takes its default."""
    patch = {name: value for name, value in call.patch.items() if name not in ("headers", "resume")}
    merged: dict[str, Any] = merge(_settings(shown(row)), patch)
    # Another host must not receive the values that were stored for this one.
    headers = Secrets(call).headers_of(row) if same_receiver(row.url, merged.get("url")) else {}
    if body.headers is not UNSET:
        headers = rules.changed_headers(headers, body.headers)
    defaults: Mapping[str, Any] = {
        "url": None,
        "name": None,
        "filter": {},
        "changed": [],
        "fields": [],
        "rate_per_s": None,
    }
    return {name: merged.get(name, defaults.get(name)) for name in _SETTINGS}, headers


def _with_defaults(call: Call, after: dict[str, Any], headers: dict[str, str]) -> NewWebhook:
    # A request cannot set `disabled`; the caller keeps that status unless the patch names another.
    status = "paused" if after["status"] == "disabled" else after["status"]
    merged = {**after, "status": status, "headers": headers}
    return convert(merged, NewWebhook, digits=call.store.digits)  # the merged maps can be too long


async def _resumed(call: Call, body: WebhookChanges) -> datetime | None:
    """The time before which pending deliveries are skipped on resume; None keeps all. Later events are never skipped."""
    if body.resume is UNSET or body.resume == "all":
        since = None
    else:
        now = await queries.NOW.one(call.db)
        since = min(body.resume.since, now) if isinstance(body.resume, ResumeSince) else now
    if body.resume is not UNSET and body.status != "active":
        fault = Fault("/resume", "invalid_format", 'requires "status": "active"')
        raise ValidationFailed("`resume` requires `status: active`.", faults=[fault])
    return since
