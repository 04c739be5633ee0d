"""What operators let apps do on stores; each verb is one transaction with its audit entry and its event."""

from collections.abc import Sequence
from typing import Any

import msgspec

from stoa.access.audit import SERVICE
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
from stoa.access.credentials import hint, is_access_token, keyed_hash, new_access_token
from stoa.access.operator import Operator, find_app, find_store, known_scopes
from stoa.access.queries import (
    CHANGE_INSTALLATION,
    GET_INSTALLATION,
    INSTALL,
    KEEP_TOKEN,
    LIST_INSTALLATIONS,
    REVOKE_TOKEN,
    REVOKE_TOKENS_OF_APP,
    UNINSTALL,
)
from stoa.access.rules import as_listed, expanded
from stoa.db.query import Executor
from stoa.events.outbox import Actor, Event, emit


async def list_installations(by: Operator, store: str) -> list[Installation]:
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
    """Let an app into a store with these scopes, or all that it asks for; again, to change what it may do."""
    if any(rate is not None and rate < 1 for rate in (rate_burst, rate_refill)):
        raise InvalidRate
    async with by.db.transaction() as db:
        found, shop = await find_app(db, app), await find_store(db, store)
        if found.status == "deleted":
            raise AppDeleted
        granted = known_scopes(found.scopes if scopes is None else scopes)
        # What the store grants already may stay, even if the app has since stopped asking for it.
        now = await GET_INSTALLATION.maybe(db, shop.id, found.id)
        _check_covered(granted, [*found.scopes, *(now.scopes if now else [])])
        if await INSTALL.run(db, shop.id, found.id, granted, rate_burst, rate_refill):
            await _tell(by, db, shop, found, AppInstalled, granted, {})
            return await GET_INSTALLATION.one(db, shop.id, found.id)
        before = await GET_INSTALLATION.one(db, shop.id, found.id)
        after = msgspec.structs.replace(
            before,
            scopes=granted,
            rate_burst=rate_burst or before.rate_burst,
            rate_refill=rate_refill or before.rate_refill,
        )
        if after == before:
            return before
        await CHANGE_INSTALLATION.run(db, shop.id, found.id, granted, after.rate_burst, after.rate_refill)
        if after.scopes != before.scopes:
            changes = {"scopes": (before.scopes, after.scopes)}
            await _tell(by, db, shop, found, AppScopesChanged, granted, changes)
        else:
            rate = {"burst": after.rate_burst, "refill": after.rate_refill}
            await by.record(db, shop.id, "app.rate_changed", f"app:{found.id}", **rate)
        return await GET_INSTALLATION.one(db, shop.id, found.id)


async def uninstall(by: Operator, app: str, store: str) -> Installation:
    """Take an app off a store; its tokens are refused there from then on."""
    async with by.db.transaction() as db:
        found, shop = await find_app(db, app), await find_store(db, store)
        gone = await GET_INSTALLATION.maybe(db, shop.id, found.id)
        if gone is None:
            raise NotInstalled(app, store)
        await UNINSTALL.run(db, shop.id, found.id)
        await _tell(by, db, shop, found, AppUninstalled, [], {"scopes": (gone.scopes, [])})
    return gone


async def issue_token(
    by: Operator, app: str, store: str | None = None, scopes: Sequence[str] | None = None
) -> IssuedToken:
    """Make a token as the app itself would get it: for one store, or for every store that has the app."""
    token = new_access_token()
    async with by.db.transaction() as db:
        found = await find_app(db, app)
        store_id, granted = None, found.scopes
        if store is not None:
            store_id = (await find_store(db, store)).id
            installation = await GET_INSTALLATION.maybe(db, store_id, found.id)
            if installation is None:
                raise NotInstalled(app, store)
            granted = installation.scopes
        asked = None if scopes is None else known_scopes(scopes)
        _check_covered(asked or [], granted)
        digest = keyed_hash(by.key, token)
        expires_at = await KEEP_TOKEN.one(db, digest, found.id, store_id, asked, by.settings.token_seconds)
        scope = " ".join(as_listed(asked, granted))
        detail = {"token_hint": hint(token), "scope": scope}
        await by.record(db, store_id or SERVICE, "token.issued", f"app:{found.id}", **detail)
    return IssuedToken(token, scope, store, expires_at)


async def revoke_token(by: Operator, token: str) -> None:
    """End one token, wherever it serves."""
    if not is_access_token(token):
        raise NoSuchToken
    async with by.db.transaction() as db:
        revoked = await REVOKE_TOKEN.maybe(db, keyed_hash(by.key, token))
        if revoked is None:
            raise NoSuchToken
        subject = f"app:{revoked.app_id}"
        await by.record(db, revoked.store_id or SERVICE, "token.revoked", subject, token_hint=hint(token))


async def revoke_all_tokens(by: Operator, app: str) -> int:
    """End every live token of an app, as after a leak, and say how many there were."""
    async with by.db.transaction() as db:
        found = await find_app(db, app)
        count = await REVOKE_TOKENS_OF_APP.run(db, found.id)
        await by.record(db, SERVICE, "token.all_revoked", f"app:{found.id}", tokens=count)
    return count


def _check_covered(scopes: Sequence[str], covered: Sequence[str]) -> None:
    beyond = [scope for scope in scopes if scope not in expanded(covered)]
    if beyond:
        raise ScopeNotCovered(", ".join(beyond), ", ".join(covered))


async def _tell(
    by: Operator,
    db: Executor,
    store: StoreRow,
    app: App,
    event: type[Event],
    scopes: list[str],
    changes: dict[str, tuple[Any, Any]],
) -> None:
    """Record a change of what an app may do on a store, and announce it."""
    subject = f"app:{app.id}"
    position = await by.record(db, store.id, event.name, subject, name=app.name, scopes=scopes)
    document = msgspec.json.encode(InstalledApp(app.id, app.name, scopes)).decode()
    # An app can be installed anew, so its version on a store is the place in the log, which only grows.
    news = event(app.id, position, document, changes)
    actor = Actor(by.actor.partition(":")[0])
    await emit(db, store.id, news, actor=actor, request_id=by.request_id)
