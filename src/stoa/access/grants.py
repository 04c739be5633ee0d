"""Operations on installations and tokens; each is one transaction that includes its audit entry and event."""

from collections.abc import Sequence
from typing import Any

import msgspec

from stoa.access.audit import SERVICE, changed_values
from stoa.access.contract import (
    App,
    AppDeleted,
    AppInstalled,
    AppScopesChanged,
    AppUninstalled,
    Installation,
    InstalledApp,
    InvalidRate,
    IssuedToken,
    NoSuchToken,
    NotInstalled,
    ScopeNotCovered,
    StoreRow,
)
from stoa.access.credentials import hint, is_access_token, keyed_hash, keyed_hashes, new_access_token
from stoa.access.operator import Operator, find_app, find_store, known_scopes, known_store
from stoa.access.operator_queries import (
    ADD_APP_ENDPOINT,
    CHANGE_INSTALLATION,
    DELETE_TOMBSTONE,
    END_OLD_SUBSCRIPTIONS,
    GET_INSTALLATION,
    INSTALL,
    LIST_INSTALLATIONS,
    LOCK_APP,
    REVOKE_TOKEN,
    REVOKE_TOKENS_OF_APP,
    UNINSTALL,
)
from stoa.access.queries import STORE_TOKEN
from stoa.access.rules import expanded, listed
from stoa.db.query import Executor
from stoa.events.outbox import Actor, Event, emit


async def list_installations(by: Operator, store: str) -> list[Installation]:
    by = await by.at_store(store)
    return await LIST_INSTALLATIONS.all(by.db, (await find_store(by.db, store)).id)


async def install(
    by: Operator,
    app: str,
    store: str,
    scopes: Sequence[str] | None = None,
    *,
    rate_burst: int | None = None,
    rate_refill: int | None = None,
) -> Installation:
    """Install an app on a store with these scopes, by default all it requests; a second call changes the scopes."""
    if any(rate is not None and rate < 1 for rate in (rate_burst, rate_refill)):
        raise InvalidRate
    by = await by.at_store(store)
    async with by.db.transaction() as db:
        app_id, found_store = (await find_app(db, app)).id, await find_store(db, store)
        await LOCK_APP.one(db, app_id)
        found = await find_app(db, app)  # it may have changed while this waited
        if found.status == "deleted":
            raise AppDeleted
        granted = known_scopes(found.scopes if scopes is None else scopes)
        # Scopes that the store already grants may stay, even if the app no longer requests them.
        current = await GET_INSTALLATION.maybe(db, found_store.id, found.id)
        _check_covered(granted, [*found.scopes, *(current.scopes if current else [])])
        if await INSTALL.maybe(db, found_store.id, found.id, granted, rate_burst, rate_refill) is not None:
            if await DELETE_TOMBSTONE.run(db, found_store.id, found.id):
                await END_OLD_SUBSCRIPTIONS.run(db, found_store.id, found.id)
            await ADD_APP_ENDPOINT.one(db, found_store.id, found.id)
            await _announce(by, db, found_store, found, AppInstalled, granted, {})
            return await GET_INSTALLATION.one(db, found_store.id, found.id)
        before = await GET_INSTALLATION.one(db, found_store.id, found.id)
        after = msgspec.structs.replace(
            before,
            scopes=granted,
            rate_burst=rate_burst or before.rate_burst,
            rate_refill=rate_refill or before.rate_refill,
        )
        if after == before:
            return before
        await CHANGE_INSTALLATION.run(db, found_store.id, found.id, granted, after.rate_burst, after.rate_refill)
        if after.scopes != before.scopes:
            changes = {"scopes": (before.scopes, after.scopes)}
            await _announce(by, db, found_store, found, AppScopesChanged, granted, changes)
        else:
            rate = {"burst": (before.rate_burst, after.rate_burst), "refill": (before.rate_refill, after.rate_refill)}
            await by.record(db, found_store.id, "app.rate_changed", f"app:{found.id}", **changed_values(rate))
        return await GET_INSTALLATION.one(db, found_store.id, found.id)


async def uninstall(by: Operator, app: str, store: str) -> Installation:
    """Uninstall an app from a store, which refuses its tokens from then on, also after a reinstall."""
    by = await by.at_store(store)
    async with by.db.transaction() as db:
        found, found_store = await find_app(db, app), await find_store(db, store)
        removed = await GET_INSTALLATION.maybe(db, found_store.id, found.id)
        if removed is None:
            raise NotInstalled(app, store)
        await UNINSTALL.run(db, found_store.id, found.id)
        await _announce(by, db, found_store, found, AppUninstalled, [], {"scopes": (removed.scopes, [])})
    return removed


async def issue_token(
    by: Operator,
    app: str,
    store: str | None = None,
    scopes: Sequence[str] | None = None,
    *,
    lifetime_s: int | None = None,
) -> IssuedToken:
    """Issue the token that the app itself would get: for one store, or for every store that installed it."""
    token = new_access_token()
    installed = await list_installations(by, store) if store is not None else []
    async with by.db.transaction() as db:
        found = await find_app(db, app)
        store_id, granted = None, found.scopes
        if store is not None:
            store_id = (await known_store(db, store)).id
            # An app that is uninstalled meanwhile gets a token that the store refuses.
            installation = next((each for each in installed if each.app_id == found.id), None)
            if installation is None:
                raise NotInstalled(app, store)
            granted = installation.scopes
        requested = None if scopes is None else known_scopes(scopes)
        _check_covered(requested or [], granted)
        digest = keyed_hash(by.key, token)
        seconds = lifetime_s or by.settings.token_seconds
        expires_at = await STORE_TOKEN.one(db, digest, found.id, store_id, requested, seconds)
        scope = " ".join(listed(requested, granted))
        detail = {"token_hint": hint(token), "scope": scope}
        await _record_token(by, db, store_id, "token.issued", f"app:{found.id}", **detail)
    return IssuedToken(token, scope, store, expires_at)


async def revoke_token(by: Operator, token: str) -> None:
    """Revoke one token on every store."""
    if not is_access_token(token):
        raise NoSuchToken
    async with by.db.transaction() as db:
        revoked = await REVOKE_TOKEN.maybe(db, keyed_hashes(by.key, token))
        if revoked is None:
            raise NoSuchToken
        subject = f"app:{revoked.app_id}"
        await _record_token(by, db, revoked.store_id, "token.revoked", subject, token_hint=hint(token))


async def revoke_all_tokens(by: Operator, app: str) -> int:
    """Revoke every live token of an app, for example after a leak; returns how many."""
    async with by.db.transaction() as db:
        found = await find_app(db, app)
        count = await REVOKE_TOKENS_OF_APP.run(db, found.id)
        await by.record(db, SERVICE, "token.all_revoked", f"app:{found.id}", tokens=count)
    return count


async def _record_token(
    by: Operator, db: Executor, store_id: int | None, action: str, subject: str, **detail: str
) -> None:
    """Write the audit entry of a token: in the log of its store, or in that of the service."""
    if store_id is None:
        await by.record(db, SERVICE, action, subject, **detail)
    else:
        await by.record_global(db, store_id, action, subject, **detail)


def _check_covered(scopes: Sequence[str], covered: Sequence[str]) -> None:
    beyond = [scope for scope in scopes if scope not in expanded(covered)]
    if beyond:
        raise ScopeNotCovered(", ".join(beyond), ", ".join(covered))


async def _announce(
    by: Operator,
    db: Executor,
    store: StoreRow,
    app: App,
    event: type[Event],
    scopes: list[str],
    changes: dict[str, tuple[Any, Any]],
) -> None:
    """Write the audit entry and the event of a change to an app's scopes on a store."""
    subject = f"app:{app.id}"
    before = {"before": {field: old for field, (old, _) in changes.items()}} if changes else {}
    position = await by.record(db, store.id, event.name, subject, name=app.name, scopes=scopes, **before)
    document = msgspec.json.encode(InstalledApp(app.id, app.name, scopes)).decode()
    # An app can be reinstalled, so its version on a store is the audit log position, which only grows.
    change = event(app.id, position, document, changes)
    actor = Actor(by.actor.partition(":")[0])
    await emit(db, store.id, change, actor=actor, request_id=by.request_id)
