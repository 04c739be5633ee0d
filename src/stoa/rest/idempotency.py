"""Idempotency keys: claimed, worked and answered in the one transaction that does the work."""

import hashlib
import re

import msgspec

from stoa.db.errors import LOCK_TIMEOUT, PostgresError, sqlstate
from stoa.db.query import Command, Executor, Query
from stoa.rest.problems import IdempotencyInProgress, IdempotencyKeyReused, InvalidIdempotencyKey
from stoa.rest.wire import Headers, Response

_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


class Claim(msgspec.Struct):
    claimed: bool
    fingerprint: bytes | None
    status: int | None
    headers: str | None
    body: bytes | None


CLAIM = Query(Claim, "SELECT claimed, fingerprint, status, headers, body FROM claim_key($1, $2, $3, $4)")
REMEMBER = Command(
    "UPDATE idempotency_keys SET status = $4, headers = $5, body = $6 WHERE store_id = $1 AND app_id = $2 AND key = $3"
)
FORGET_OLD = Command(
    """DELETE FROM idempotency_keys WHERE (store_id, app_id, key) IN (
           SELECT store_id, app_id, key FROM idempotency_keys
            WHERE created_at < now() - interval '7 days' LIMIT 1000)""",
    unbound="housekeeping goes over all stores",
)


def read_key(header: bytes | None) -> str | None:
    if header is None:
        return None
    key = header.decode("latin-1")
    if not _KEY.match(key):
        raise InvalidIdempotencyKey("An Idempotency-Key is 1 to 255 visible ASCII characters.")
    return key


def fingerprint(method: str, path: str, query: bytes, body: bytes) -> bytes:
    """What makes two requests the same."""
    digest = hashlib.sha256()
    for part in (method.encode(), path.encode("utf-8", "surrogatepass"), query, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


async def claim(db: Executor, store_id: int, app_id: int, key: str, mark: bytes) -> Response | None:
    """Claim a key for this transaction; an answer given before comes back instead."""
    try:
        found = await CLAIM.one(db, store_id, app_id, key, mark)
    except PostgresError as error:
        if sqlstate(error) == LOCK_TIMEOUT:
            raise IdempotencyInProgress(
                "The first request with this key has not finished.", headers=[(b"retry-after", b"1")]
            ) from error
        raise
    if found.claimed:
        return None
    if found.fingerprint != mark:
        raise IdempotencyKeyReused("A key belongs to one request: same method, address, query and body.")
    stored: list[tuple[str, str]] = msgspec.json.decode(found.headers or "[]", type=list[tuple[str, str]])
    headers: Headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored]
    return Response(found.status or 200, [*headers, (b"idempotent-replayed", b"true")], found.body or b"")


async def remember(db: Executor, store_id: int, app_id: int, key: str, response: Response) -> None:
    """Keep the answer beside the work; only successes come this far."""
    headers = msgspec.json.encode([(n.decode("latin-1"), v.decode("latin-1")) for n, v in response.headers]).decode()
    await REMEMBER.run(db, store_id, app_id, key, response.status, headers, response.body)
