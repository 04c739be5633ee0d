"""Deploy tokens: with one of them, a program changes one app by its file, and nothing else."""

from datetime import datetime

import msgspec

from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused, App, InvalidName
from stoa.access.credentials import hint, is_deploy_token, keyed_hash, keyed_hashes, new_deploy_token
from stoa.access.operator import Operator, lock_app, lock_live_app
from stoa.db.query import Command, Executor, Query

MOST_TOKENS, MOST_DAYS = 10, 730
_OWNER = "it belongs to an app, on every store"


class DeployToken(msgspec.Struct):
    """A deploy token, identified by its last characters. `account_id` is null if an operator created it."""

    id: int
    name: str
    hint: str
    account_id: int | None
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class NewDeployToken(msgspec.Struct):
    """A new deploy token, shown only once."""

    id: int
    name: str
    deploy_token: str
    expires_at: datetime | None


class Bearer(msgspec.Struct):
    """The app that a deploy token is for, and the account that created the token."""

    token_id: int
    name: str
    account_id: int | None
    client_id: str
    app_status: str


class TooManyDeployTokens(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"an app can have {MOST_TOKENS} deploy tokens; revoke one first")


class DeployTokenTaken(AccessRefused):
    def __init__(self, name: str) -> None:
        super().__init__(f'the app already has a deploy token "{name}"; revoke it first, or choose another name')


class InvalidLifetime(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"a deploy token is valid for 1 to {MOST_DAYS} days, or without an end")


class NoSuchDeployToken(AccessRefused):
    def __init__(self, token_id: int) -> None:
        super().__init__(f"the app has no deploy token {token_id}; list its tokens to see their numbers")


_LIVE = "(t.expires_at IS NULL OR t.expires_at > now())"
LIST = Query(
    DeployToken,
    """SELECT id, name, hint, account_id, created_at, expires_at, used_at FROM deploy_tokens
        WHERE app_id = $1 ORDER BY id DESC""",
    unbound=_OWNER,
)
NAMES = Query(str, f"SELECT t.name FROM deploy_tokens t WHERE t.app_id = $1 AND {_LIVE}", unbound=_OWNER)
DROP_EXPIRED = Command("DELETE FROM deploy_tokens WHERE app_id = $1 AND expires_at <= now()", unbound=_OWNER)
ADD = Query(
    NewDeployToken,
    """INSERT INTO deploy_tokens (app_id, account_id, name, token_hash, hint, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(days => $6::int))
       RETURNING id, name, '' AS deploy_token, expires_at""",
    unbound=_OWNER,
)
REMOVE = Query(str, "DELETE FROM deploy_tokens WHERE app_id = $1 AND id = $2 RETURNING name", unbound=_OWNER)
FIND = Query(
    Bearer,
    f"""SELECT t.id AS token_id, t.name, t.account_id, a.client_id, a.status AS app_status
          FROM deploy_tokens t JOIN apps a ON a.id = t.app_id WHERE t.token_hash = ANY ($1::bytea[]) AND {_LIVE}""",
    unbound=_OWNER,
)
# Written at most once a minute, because a job may call several times.
USED = Command(
    """UPDATE deploy_tokens SET used_at = now()
        WHERE id = $1 AND (used_at IS NULL OR used_at < now() - interval '1 minute')""",
    unbound=_OWNER,
)


async def list_deploy_tokens(by: Operator, app: App) -> list[DeployToken]:
    """The deploy tokens of an app, newest first; expired ones are listed until another one is created."""
    return await LIST.all(by.db, app.id)


async def create_deploy_token(
    by: Operator, app: str, name: str, *, days: int | None, account_id: int | None = None
) -> NewDeployToken:
    """Create a deploy token. It is valid for some days, or until it is revoked."""
    if not 1 <= len(name) <= 80 or not name.isprintable():
        raise InvalidName
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise InvalidLifetime
    token = new_deploy_token()
    async with by.db.transaction() as db:
        found = await lock_live_app(db, app)
        await DROP_EXPIRED.run(db, found.id)
        names = await NAMES.all(db, found.id)
        if name in names:  # also if a form is submitted twice
            raise DeployTokenTaken(name)
        if len(names) >= MOST_TOKENS:
            raise TooManyDeployTokens
        made = await ADD.one(db, found.id, account_id, name, keyed_hash(by.key, token), hint(token), days)
        detail = {"token": made.id, "name": name, "hint": hint(token), "days": days}
        await by.record(db, SERVICE, "app.deploy_token_created", f"app:{found.id}", **detail)
    return msgspec.structs.replace(made, deploy_token=token)


async def revoke_deploy_token(by: Operator, app: str, token_id: int) -> None:
    """Refuse a deploy token from now on."""
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        name = await REMOVE.maybe(db, found.id, token_id)
        if name is None:
            raise NoSuchDeployToken(token_id)
        await by.record(db, SERVICE, "app.deploy_token_revoked", f"app:{found.id}", token=token_id, name=name)


async def bearer_of(by: Operator, db: Executor, token: str) -> Bearer | None:
    """The app that a text is a valid deploy token of; None if there is none."""
    if not is_deploy_token(token):
        return None
    found = await FIND.maybe(db, keyed_hashes(by.key, token))
    if found is not None:
        await USED.run(db, found.token_id)
    return found
