"""Operations on apps and their secrets; each is one transaction that includes its audit entry."""

from collections.abc import Sequence

from stoa.access.app_changes import tell_shards
from stoa.access.audit import SERVICE, changed_values
from stoa.access.contract import App, AppSecret, InvalidGrace, NewSecret, RotationActive
from stoa.access.credentials import hint, keyed_hash, new_client_id, new_client_secret
from stoa.access.grants import uninstall
from stoa.access.operator import Operator, check_name, find_app, known_scopes, lock_app, lock_live_app
from stoa.access.operator_queries import (
    ADD_SECRET,
    CHANGE_APP,
    CREATE_APP,
    DELETE_CALLBACKS,
    DROP_DEPLOY_TOKENS,
    DROP_ENDING_SECRETS,
    DROP_KEYS,
    DROP_SECRETS,
    END_APP_ENDPOINTS,
    END_SECRET,
    ENDING_SECRETS,
    INSTALLED_HERE,
    LIST_APPS,
    LIVE_SECRETS,
    REVOKE_TOKENS_OF_APP,
    SET_APP_STATUS,
)
from stoa.db.shards import ABSENT
from stoa.notifications.news import app_suspended
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of

LONGEST_GRACE_HOURS = 168


async def list_apps(by: Operator) -> list[App]:
    return await LIST_APPS.all(by.everywhere)


async def create_app(by: Operator, name: str, scopes: Sequence[str]) -> NewSecret:
    """Register an app with the scopes that stores may grant it, and create its credentials."""
    check_name(name)
    wanted = known_scopes(scopes)
    client_id, secret = new_client_id(), new_client_secret()
    async with by.db.transaction() as db:
        app_id = await CREATE_APP.one(db, client_id, name, wanted)
        await ADD_SECRET.run(db, app_id, keyed_hash(by.key, secret), hint(secret))
        detail = {"name": name, "scopes": wanted, "secret_hint": hint(secret)}
        await by.record(db, SERVICE, "app.created", f"app:{app_id}", **detail)
    return NewSecret(app_id, client_id, secret)


async def rotate_secret(by: Operator, app: str, *, grace_hours: int = 24, force: bool = False) -> NewSecret:
    """Create a new secret. The old one works until its grace period ends; without one, all old secrets end immediately."""
    if not 0 <= grace_hours <= LONGEST_GRACE_HOURS:
        raise InvalidGrace
    secret = new_client_secret()
    async with by.db.transaction() as db:
        found = await lock_live_app(db, app)
        if grace_hours and not force and await ENDING_SECRETS.one(db, found.id):
            raise RotationActive
        await DROP_ENDING_SECRETS.run(db, found.id)
        until = await END_SECRET.maybe(db, found.id, grace_hours)
        await ADD_SECRET.run(db, found.id, keyed_hash(by.key, secret), hint(secret))
        detail = {"secret_hint": hint(secret), "grace_hours": grace_hours, "force": force}
        await by.record(db, SERVICE, "app.secret_rotated", f"app:{found.id}", **detail)
    return NewSecret(found.id, found.client_id, secret, until)


async def list_secrets(by: Operator, app: App) -> list[AppSecret]:
    """The hints of the app's live secrets, newest first."""
    return await LIVE_SECRETS.all(by.db, app.id)


async def end_old_secrets(by: Operator, app: str) -> int:
    """End the rotated-out secrets that are still in their grace period; returns how many."""
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        ended = await ENDING_SECRETS.one(db, found.id)
        if ended:
            await DROP_ENDING_SECRETS.run(db, found.id)
            await by.record(db, SERVICE, "app.old_secret_ended", f"app:{found.id}")
    return ended


async def change_app(by: Operator, app: str, name: str, scopes: Sequence[str]) -> App:
    """Change an app's name and the scopes that stores may grant it from now on; existing grants stay as they are."""
    check_name(name)
    wanted = known_scopes(scopes)
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        if await CHANGE_APP.run(db, found.id, name, wanted):
            values = {"name": (found.name, name), "scopes": (found.scopes, wanted)}
            await by.record(db, SERVICE, "app.changed", f"app:{found.id}", **changed_values(values))
        return await find_app(db, app)


async def delete_app(by: Operator, app: str) -> App:
    """Uninstall an app from every store and end its secrets and tokens, permanently; its name stays for the logs."""
    async with by.transaction() as joined, joined.db.transaction() as db:
        found = await lock_app(db, app)
        absent = await ABSENT.all(db)
        for handle in await INSTALLED_HERE.all(db, found.id, absent):
            await uninstall(joined, app, handle)
        await DROP_SECRETS.run(db, found.id)
        await DROP_KEYS.run(db, found.id)
        await DROP_DEPLOY_TOKENS.run(db, found.id)
        await DELETE_CALLBACKS.run(db, found.id)
        await END_APP_ENDPOINTS.run(db, found.id, absent)
        await REVOKE_TOKENS_OF_APP.run(db, found.id)
        await tell_shards(by, db, found.id)
        if await SET_APP_STATUS.run(db, found.id, "deleted"):
            await by.record(db, SERVICE, "app.deleted", f"app:{found.id}", name=found.name)
        return await find_app(db, app)


async def suspend_app(by: Operator, app: str, reason: str = "") -> App:
    """Refuse the app on every store, and issue it no tokens, until it is resumed; the audit log keeps the reason."""
    detail = {"reason": reason} if reason else {}
    async with by.transaction() as joined, joined.db.transaction() as db:
        before, after = await find_app(db, app), await _set_status(joined, app, "suspended", "app.suspended", **detail)
        if before.status != after.status:
            await notify(db, await people_of(db, app_id=after.id), app_suspended(after.id, after.name, reason))
        return after


async def resume_app(by: Operator, app: str) -> App:
    return await _set_status(by, app, "active", "app.resumed")


async def _set_status(by: Operator, app: str, status: str, action: str, **detail: str) -> App:
    async with by.db.transaction() as db:
        found = await find_app(db, app)
        if await SET_APP_STATUS.run(db, found.id, status):
            await by.record(db, SERVICE, action, f"app:{found.id}", **detail)
        return await find_app(db, app)
