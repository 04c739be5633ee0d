"""Idempotency keys: the key, the work and the stored response share one transaction."""

import hashlib
import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from stoa.db.errors import LOCK_TIMEOUT, PostgresError, sqlstate
from stoa.db.query import Command, Executor, InputRow, Query, hex_bytes, json_rows
from stoa.rest.call import Subject
from stoa.rest.problems import IdempotencyInProgress, IdempotencyKeyReused, InvalidIdempotencyKey, Refusal
from stoa.rest.request import Headers
from stoa.rest.response import Response

_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


class Encryption(Protocol):
    """Encrypts stored responses that contain a secret."""

    def encrypt(self, text: str, table: str, column: str, store_id: int, row_id: int) -> bytes: ...
    def decrypt(self, encrypted: bytes, table: str, column: str, store_id: int, row_id: int) -> str: ...


class StoredResponse(msgspec.Struct):
    """A response that was stored under a key, and the fingerprint of its request."""

    app_id: int
    key: str
    fingerprint: bytes
    status: int | None
    headers: str | None
    body: bytes | None
    event_id: str | None = None  # of the event whose data the body repeats


class Claim(msgspec.Struct):
    claimed: bool
    fingerprint: bytes | None
    status: int | None
    headers: str | None
    body: bytes | None


class RepeatedEvent(msgspec.Struct):
    id: str | None


CLAIM = Query(Claim, "SELECT claimed, fingerprint, status, headers, body FROM claim_key($1, $2, $3, $4)")
LOOK = Query(
    StoredResponse,
    """SELECT app_id, key, fingerprint, status, headers, body, event_id FROM idempotency_keys
        WHERE store_id = $1 AND app_id = $2 AND key = $3""",
)
BODY_OF_EVENT = Query(bytes, "SELECT event_response(data) FROM events WHERE store_id = $1 AND id = $2")
# A large response refers to the event whose data it repeats; its body is stored only if there is no such event.
REMEMBER = Command(
    """UPDATE idempotency_keys
          SET status = $4, headers = $5, body = $6, subject_type = $7, subject_id = $8, event_id = $9
        WHERE store_id = $1 AND app_id = $2 AND key = $3"""
)
EVENT_OF_RESPONSE = Query(RepeatedEvent, "SELECT event_of_response($1, $2) AS id")
LARGE_BYTES = 16 * 1024  # from this size on, a stored response refers to its event if it can


class WantedKey(InputRow):
    """An app's idempotency key."""

    arguments = ("stored_responses.in_keys",)

    app_id: int
    key: str


class KeptResponse(InputRow):
    """One of several responses that are stored at once."""

    arguments = ("keep_responses.in_responses",)

    app_id: int
    key: str
    fingerprint: str
    status: int
    headers: str
    body: int  # the place of the body in in_bodies: bytes beside the JSON are not escaped and parsed
    is_large: bool
    subject_type: str | None
    subject_id: int | None


class KeyInUse(msgspec.Struct):
    """A key under which another request has stored its response or, if `in_flight`, is still running."""

    app_id: int
    key: str
    in_flight: bool


STORED = Query(
    StoredResponse,
    "SELECT app_id, key, fingerprint, status, headers, body, NULL AS event_id FROM stored_responses($1, $2::json)",
)
KEEP = Query(bool, "SELECT keep_response($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
KEEP_ALL = Query(KeyInUse, "SELECT app_id, key, in_flight FROM keep_responses($1, $2::json, $3::bytea[])")
# Waits for the lock that a claim needs on the table, but for no row: no app has the number 0.
LOCK_TABLE = Command("DELETE FROM idempotency_keys WHERE store_id = $1 AND app_id = 0 AND key = ''")
FORGET_OLD = Command(
    """DELETE FROM idempotency_keys WHERE (store_id, app_id, key) IN (
           SELECT store_id, app_id, key FROM idempotency_keys
            WHERE created_at < now() - interval '7 days' LIMIT 1000)""",
    unbound="maintenance covers all stores",
    over="shard",
)


def read_key(header: bytes | None) -> str | None:
    if header is None:
        return None
    key = header.decode("latin-1")
    if not _KEY.match(key):
        raise InvalidIdempotencyKey("The Idempotency-Key must consist of 1 to 255 visible ASCII characters.")
    return key


def fingerprint(method: str, path: str, query: bytes, body: bytes, installation: str = "") -> bytes:
    """A digest that is equal for equal requests of one installation; a reinstalled app does not get older responses."""
    digest = hashlib.sha256()
    parts = [method.encode(), path.encode("utf-8", "surrogatepass"), query, body]
    for part in [*parts, installation.encode()] if installation else parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


async def claim(
    db: Executor, outside: Executor, store_id: int, app_id: int, key: str, fingerprint: bytes
) -> Response | None:
    """Claim a key for this transaction; returns the response if one is stored under it."""
    try:
        found = await CLAIM.one(db, store_id, app_id, key, fingerprint)
    except PostgresError as error:
        if sqlstate(error) == LOCK_TIMEOUT:
            raise await in_progress(outside, store_id) from error
        raise
    if found.claimed:
        return None
    stored = StoredResponse(app_id, key, found.fingerprint or b"", found.status, found.headers, found.body)
    return _replayed(stored, fingerprint)


async def find_response(db: Executor, store_id: int, app_id: int, key: str, fingerprint: bytes) -> Response | None:
    """The response that is stored under a key, without claiming the key."""
    stored = await _look(db, store_id, app_id, key)
    return _replayed(stored, fingerprint) if stored else None


async def _look(db: Executor, store_id: int, app_id: int, key: str) -> StoredResponse | None:
    stored = await LOOK.maybe(db, store_id, app_id, key)
    if stored is not None and stored.event_id is not None:
        stored.body = await BODY_OF_EVENT.maybe(db, store_id, stored.event_id)
    return stored


def _replayed(stored: StoredResponse, fingerprint: bytes) -> Response:
    outcome = replay(stored, fingerprint)
    if isinstance(outcome, Refusal):
        raise outcome
    return outcome


def replay(stored: StoredResponse, fingerprint: bytes) -> Response | Refusal:
    """The stored response; a refusal if it belongs to another request."""
    if stored.fingerprint != fingerprint:
        return IdempotencyKeyReused(
            "This key was used for another request. Use a new key unless method, URL and body are the same."
        )
    pairs: list[tuple[str, str]] = msgspec.json.decode(stored.headers or "[]", type=list[tuple[str, str]])
    headers: Headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    return Response(stored.status or 200, [*headers, (b"idempotent-replayed", b"true")], stored.body or b"")


async def in_progress(outside: Executor, store_id: int) -> IdempotencyInProgress:
    """The refusal of a key that a running request has claimed. If the table itself is locked, the service is unavailable
    instead, which a statement `outside` of the failed transaction finds out."""
    await LOCK_TABLE.run(outside, store_id)
    return IdempotencyInProgress(
        "The first request with this key has not finished. Retry after the number of seconds in Retry-After.",
        headers=[(b"retry-after", b"1")],
    )


async def remember(
    db: Executor, store_id: int, app_id: int, key: str, response: Response, subject: Subject | None = None
) -> None:
    """Store the response with the work; only successes get here. `subject` is the person whose erasure must find it."""
    headers, (body, event_id) = _text(response.headers), await _body(db, store_id, response)
    await REMEMBER.run(db, store_id, app_id, key, response.status, headers, body, *_columns(subject), event_id)


async def _body(db: Executor, store_id: int, response: Response) -> tuple[bytes | None, str | None]:
    """What is stored of the body of a response: the body itself, or the id of the event whose data it repeats."""
    large = len(response.body) >= LARGE_BYTES
    event_id = (await EVENT_OF_RESPONSE.one(db, store_id, response.body)).id if large else None
    return (None if event_id else response.body), event_id


def _columns(subject: Subject | None) -> tuple[str | None, int | None]:
    return (subject.type, subject.id) if subject else (None, None)


def _text(headers: Headers) -> str:
    return msgspec.json.encode([(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers]).decode()


async def stored_responses(
    db: Executor, store_id: int, keys: Sequence[tuple[int, str]]
) -> dict[tuple[int, str] | None, StoredResponse]:
    """The responses that are stored under keys of apps; claims nothing."""
    if not keys:
        return {}
    if len(keys) == 1:
        stored = await _look(db, store_id, *keys[0])
        return {} if stored is None else {keys[0]: stored}
    found = await STORED.all(db, store_id, json_rows([WantedKey(*key) for key in keys]))
    return {(each.app_id, each.key): each for each in found}


class NewResponse(msgspec.Struct, frozen=True):
    """A response to store under the key of an app. `subject` is the person whose erasure must find it."""

    app_id: int
    key: str
    fingerprint: bytes
    response: Response
    subject: Subject | None


async def keep_responses(db: Executor, store_id: int, new: Sequence[NewResponse]) -> list[KeyInUse]:
    """Store the responses of writes at the end of their transaction; returns the keys that others use."""
    if len(new) == 1:
        return await _keep_response(db, store_id, new[0])
    rows = [
        KeptResponse(
            each.app_id,
            each.key,
            hex_bytes(each.fingerprint),
            each.response.status,
            _text(each.response.headers),
            place,
            len(each.response.body) >= LARGE_BYTES,
            *_columns(each.subject),
        )
        for place, each in enumerate(new, start=1)
    ]
    return await KEEP_ALL.all(db, store_id, json_rows(rows), [each.response.body for each in new])


async def _keep_response(db: Executor, store_id: int, new: NewResponse) -> list[KeyInUse]:
    response, (body, event_id) = new.response, await _body(db, store_id, new.response)
    row = (response.status, _text(response.headers), body, event_id, *_columns(new.subject))
    try:
        if await KEEP.one(db, store_id, new.app_id, new.key, new.fingerprint, *row):
            return []
    except PostgresError as error:
        if sqlstate(error) != LOCK_TIMEOUT:
            raise
        return [KeyInUse(new.app_id, new.key, in_flight=True)]
    return [KeyInUse(new.app_id, new.key, in_flight=False)]


def encrypted(response: Response, encryption: Encryption, store_id: int, app_id: int, key: str) -> Response:
    """A response that contains a secret, as it is stored: encrypted, and bound to its key."""
    body = encryption.encrypt(response.body.decode(), "idempotency_keys", f"body/{key}", store_id, app_id)
    return msgspec.structs.replace(response, body=body)


def decrypted(response: Response, encryption: Encryption, store_id: int, app_id: int, key: str) -> Response:
    body = encryption.decrypt(response.body, "idempotency_keys", f"body/{key}", store_id, app_id)
    return msgspec.structs.replace(response, body=body.encode())
