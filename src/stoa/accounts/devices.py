"""The browsers that an account has signed in from; a sign-in from a new one causes a notification."""

import re
import secrets

from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.operator import Operator
from stoa.accounts.authentication_queries import ADD_DEVICE, SEE_DEVICE
from stoa.accounts.rules import browser_of
from stoa.db.query import Executor
from stoa.notifications.news import new_device
from stoa.notifications.notify import notify
from stoa.rest.headers import address_of

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def device_token(known: str) -> str:
    """The token that a browser sent, or a new one."""
    return known if _TOKEN.fullmatch(known) else secrets.token_urlsafe(32)


async def remember_device(by: Operator, db: Executor, account_id: int, device: str) -> bool:
    """Remember a browser; returns whether it was known."""
    if await SEE_DEVICE.run(db, account_id, keyed_hashes(by.key, device)):
        return True
    await ADD_DEVICE.run(db, account_id, keyed_hash(by.key, device))
    return False


async def note_sign_in(by: Operator, db: Executor, account_id: int, device: str, *, peer: str, agent: str) -> None:
    """Notify the person of a sign-in from an unknown browser, in the transaction of the sign-in."""
    device = device_token(device)
    if not await remember_device(by, db, account_id, device):
        name = keyed_hash(by.key, device).hex()[:16]
        await notify(db, [account_id], new_device(browser_of(agent), address_of(peer), name))
