"""Results of forms: the page that a form produced, such as a new secret or a test send, kept for one reload.

The browser is redirected to the page after the form, so that a reload or the Back button never submits the form again.
"""

import secrets

import msgspec

from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.encryption import Cipher, Undecryptable
from stoa.db.query import Command, Query
from stoa.portal.kit.visit import Visit

PARAMETER = "result"
SHOWS = 2  # after the form, and after one reload
SECONDS = 10 * 60
_COLUMN = ("account_results", "page", 0)
_SESSION = "results belong to a session of an account"

KEEP_RESULT = Command(
    """INSERT INTO account_results (result_hash, session_hash, path, page, shows_left, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))""",
    unbound=_SESSION,
)
SHOW_RESULT = Query(
    bytes,
    """UPDATE account_results SET shows_left = shows_left - 1
        WHERE result_hash = ANY ($1::bytea[]) AND session_hash = ANY ($2::bytea[]) AND path = $3 AND shows_left > 0 AND expires_at > now()
       RETURNING page""",
    unbound=_SESSION,
)


class Result(msgspec.Struct):
    """A rendered page with the nonce of its scripts and styles."""

    html: str
    nonce: str
    secret: bool


async def keep(visit: Visit, result: Result) -> str:
    """Keep a result for this session and path, encrypted; returns the URL that shows it."""
    token, path = secrets.token_urlsafe(16), visit.request.scope["path"]
    page = Cipher(visit.by.key).encrypt(msgspec.json.encode(result).decode(), *_COLUMN, visit.me.account_id)
    hashes = (keyed_hash(visit.by.key, token), keyed_hash(visit.by.key, visit.session))
    await KEEP_RESULT.run(visit.directory, *hashes, path, page, SHOWS, SECONDS)
    return f"{path}?{PARAMETER}={token}"


async def show(visit: Visit) -> Result | None:
    """Return the result that the URL names, unless it was shown often enough or is too old."""
    keys, path = visit.by.key, visit.request.scope["path"]
    hashes = (keyed_hashes(keys, visit.query(PARAMETER)), keyed_hashes(keys, visit.session))
    page = await SHOW_RESULT.maybe(visit.directory, *hashes, path)
    if page is None:
        return None
    try:
        opened = Cipher(keys).decrypt(page, *_COLUMN, visit.me.account_id)
    except Undecryptable:
        return None
    return msgspec.json.decode(opened, type=Result)
