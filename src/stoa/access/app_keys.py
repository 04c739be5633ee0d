"""The public keys of an app: added, listed and removed; each change is one transaction that includes its audit entry."""

from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused, App, AppKey
from stoa.access.operator import Operator, lock_app, lock_live_app
from stoa.access.operator_queries import ADD_KEY, LIST_KEYS, REMOVE_KEY
from stoa.access.public_keys import read_key

MOST_KEYS = 5


class KeyTaken(AccessRefused):
    def __init__(self, kid: str) -> None:
        super().__init__(
            f'the app already has a key with the id "{kid}"; remove it first, or give the new key another kid'
        )


class TooManyKeys(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"an app can have {MOST_KEYS} keys; remove one first")


class NoSuchKey(AccessRefused):
    def __init__(self, kid: str) -> None:
        super().__init__(f'the app has no key with the id "{kid}"; list its keys to see their ids')


async def list_keys(by: Operator, app: App) -> list[AppKey]:
    """The keys of an app, newest first."""
    return await LIST_KEYS.all(by.db, app.id)


async def add_key(by: Operator, app: str, jwk: str) -> AppKey:
    """Let an app authenticate with the private key that belongs to this public key, from now on."""
    key = read_key(jwk)
    async with by.db.transaction() as db:
        found = await lock_live_app(db, app)
        present = {each.kid: each for each in await LIST_KEYS.all(db, found.id)}
        if key.kid in present:
            if present[key.kid].jwk != key.jwk:
                raise KeyTaken(key.kid)
            return present[key.kid]
        if len(present) >= MOST_KEYS:
            raise TooManyKeys
        await ADD_KEY.run(db, found.id, key.kid, key.algorithm, key.jwk)
        await by.record(db, SERVICE, "app.key_added", f"app:{found.id}", kid=key.kid, algorithm=key.algorithm)
        return next(each for each in await LIST_KEYS.all(db, found.id) if each.kid == key.kid)


async def remove_key(by: Operator, app: str, kid: str) -> None:
    """Accept no further assertions of this key. Tokens that were issued with it stay valid until they expire."""
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        if not await REMOVE_KEY.run(db, found.id, kid):
            raise NoSuchKey(kid)
        await by.record(db, SERVICE, "app.key_removed", f"app:{found.id}", kid=kid)
