"""Idempotency keys: claimed, worked and answered in the one transaction that does the work."""

import hashlib
import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from stoa.db.errors import LOCK_TIMEOUT, PostgresError, sqlstate
from stoa.db.query import Command, Executor, Query
from stoa.rest.endpoint import Subject
from stoa.rest.problems import IdempotencyInProgress, IdempotencyKeyReused, InvalidIdempotencyKey
from stoa.rest.request import Headers
from stoa.rest.response import Response

_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


class Seal(Protocol):
    """What keeps a remembered secret unreadable in the database; the service hands its own to the dispatcher."""

    def seal(self, text: str, table: str, column: str, store_id: int, row_id: int) -> bytes: ...
    def open(self, sealed: bytes, table: str, column: str, store_id: int, row_id: int) -> str: ...


class Claim(msgspec.Struct):
    claimed: bool
    fingerprint: bytes | None
    status: int | None
    headers: str | None
    body: bytes | None


CLAIM = Query(Claim, "SELECT claimed, fingerprint, status, headers, body FROM claim_key($1, $2, $3, $4)")
LOOK = Query(
    Claim,
    """SELECT false AS claimed, fingerprint, status, headers, body FROM idempotency_keys
        WHERE store_id = $1 AND app_id = $2 AND key = $3""",
)
REMEMBER = Command(
    """UPDATE idempotency_keys SET status = $4, headers = $5, body = $6, subject_type = $7, subject_id = $8
        WHERE store_id = $1 AND app_id = $2 AND key = $3"""
)


class UsedKey(msgspec.Struct):
    app_id: int
    key: str


USED = Query(UsedKey, "SELECT app_id, key FROM keys_used($1, $2, $3)")
KEEP = Query(int, "SELECT keep_answers($1, $2, $3, $4, $5, $6, $7, $8, $9)")
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
    return None if found.claimed else _again(found, mark)


async def answered(db: Executor, store_id: int, app_id: int, key: str, mark: bytes) -> Response | None:
    """The answer that was given before under a key, without claiming it."""
    found = await LOOK.maybe(db, store_id, app_id, key)
    return _again(found, mark) if found else None


def _again(found: Claim, mark: bytes) -> Response:
    if found.fingerprint != mark:
        raise IdempotencyKeyReused("A key belongs to one request: same method, address, query and body.")
    stored: list[tuple[str, str]] = msgspec.json.decode(found.headers or "[]", type=list[tuple[str, str]])
    headers: Headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored]
    return Response(found.status or 200, [*headers, (b"idempotent-replayed", b"true")], found.body or b"")


async def remember(
    db: Executor, store_id: int, app_id: int, key: str, response: Response, subject: Subject | None = None
) -> None:
    """Keep the answer beside the work; only successes come this far. Erasing the person it tells of finds it."""
    headers = _text(response.headers)
    await REMEMBER.run(db, store_id, app_id, key, response.status, headers, response.body, *_columns(subject))


def _columns(subject: Subject | None) -> tuple[str | None, int | None]:
    return (subject.type, subject.id) if subject else (None, None)


def _text(headers: Headers) -> str:
    return msgspec.json.encode([(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers]).decode()


class Kept(msgspec.Struct, frozen=True):
    """One of several answers that are kept at once, with the key that it was given under."""

    app_id: int
    key: str
    mark: bytes
    response: Response
    subject: Subject | None


async def used(db: Executor, store_id: int, keys: Sequence[tuple[int, str]]) -> set[tuple[int, str]]:
    """Which of several keys were answered before; nothing is claimed."""
    if not keys:
        return set()
    found = await USED.all(db, store_id, [app_id for app_id, _ in keys], [key for _, key in keys])
    return {(each.app_id, each.key) for each in found}


async def keep(db: Executor, store_id: int, kept: Sequence[Kept]) -> None:
    """Claim the keys of several writes with their answers, at the end of the one transaction that did them all."""
    await KEEP.one(
        db,
        store_id,
        [each.app_id for each in kept],
        [each.key for each in kept],
        [each.mark for each in kept],
        [each.response.status for each in kept],
        [_text(each.response.headers) for each in kept],
        [each.response.body for each in kept],
        [each.subject.type if each.subject else None for each in kept],
        [each.subject.id if each.subject else None for each in kept],
    )


def sealed(response: Response, seal: Seal, store_id: int, app_id: int, key: str) -> Response:
    """An answer that shows a secret, as it is kept: bound to its key, so that no other request gets it."""
    body = seal.seal(response.body.decode(), "idempotency_keys", f"body/{key}", store_id, app_id)
    return msgspec.structs.replace(response, body=body)


def opened(response: Response, seal: Seal, store_id: int, app_id: int, key: str) -> Response:
    body = seal.open(response.body, "idempotency_keys", f"body/{key}", store_id, app_id)
    return msgspec.structs.replace(response, body=body.encode())
