"""Client authentication: reads and checks an app's credentials, and throttles guessing across all workers."""

import base64
import binascii
import math
import time
from collections.abc import Mapping, Sequence
from urllib.parse import unquote_plus

import msgspec

from stoa.access import audit
from stoa.access.addresses import NO_STORE, StoreAddress
from stoa.access.assertions import ASSERTION_TYPE, UNREADABLE, Assertion, InvalidAssertion, check, read_assertion
from stoa.access.contract import InvalidClient, InvalidRequest, TooManyAttempts
from stoa.access.credentials import is_client_id, keyed_hashes, same
from stoa.access.public_keys import stored_key
from stoa.access.queries import CLIENT, COUNT_FAILURE, USE_ASSERTION, Client, FailedAttempts
from stoa.db.pool import Database
from stoa.rest.headers import address_of
from stoa.secret_keys import Keys

# Failed attempts a minute. An attacker blocks only itself: failures of a client are counted per address.
MOST_AT_ONE_ADDRESS = 10
MOST_OF_AN_ADDRESS = 50
# While a client is attacked from many addresses, a new address gets one attempt; one without failures is never refused.
MANY_EVERYWHERE = 100
MOST_WHEN_GUESSED_AT = 1

_WRONG_ASSERTION = "The client id or the client assertion is incorrect."
_NO_SECRET = bytes(32)  # compared where there is no secret, so that timing reveals nothing


class Credentials(msgspec.Struct, frozen=True):
    """A client id with a secret, or with an assertion that names it."""

    client_id: str
    client_secret: str = ""
    assertion: Assertion | None = None


class Audiences(msgspec.Struct, frozen=True):
    """The values of `aud` with which an assertion is meant for this endpoint."""

    service: tuple[str, ...]
    # Counts only if the URL names a store: a Host header alone names whatever server its sender has in mind.
    store: str

    def of(self, client: Client) -> tuple[str, ...]:
        return (*self.service, self.store) if client.url_store_id is not None else self.service


NOBODY = Audiences((), "")


class Attempt(msgspec.Struct, frozen=True):
    """One attempt to authenticate, and the address it came from."""

    client_id: str
    address: str
    kind: str = "client"

    @property
    def subjects(self) -> list[str]:
        return [f"{self.client_id} at {self.address}", f"at {self.address}", f"{self.client_id} anywhere"]


def read_credentials(authorization: str | None, form: Mapping[str, str]) -> Credentials:
    """The client's credentials: from HTTP Basic, from the body, or from a client assertion, but only one of them."""
    methods = (authorization is not None, "client_secret" in form, "client_assertion" in form)
    if sum(methods) > 1:
        raise InvalidRequest("Authenticate by HTTP Basic, client_secret or client_assertion, and only by one of them.")
    if "client_assertion" in form:
        given = _read_assertion(form)
    elif authorization is not None:
        given = _read_basic(authorization)
    elif "client_id" in form and "client_secret" in form:
        given = Credentials(form["client_id"], form["client_secret"])
    else:
        raise InvalidClient
    if form.get("client_id", given.client_id) != given.client_id:
        raise InvalidRequest("client_id in the body differs from the one that authenticates.")
    return given


def _read_assertion(form: Mapping[str, str]) -> Credentials:
    if form.get("client_assertion_type") != ASSERTION_TYPE:
        raise InvalidRequest(f"client_assertion_type must be {ASSERTION_TYPE}.")
    try:
        assertion = read_assertion(form["client_assertion"])
    except InvalidAssertion:
        return Credentials(form.get("client_id", ""), assertion=UNREADABLE)  # counted like any other attempt
    return Credentials(assertion.client_id, assertion=assertion)


def _read_basic(authorization: str) -> Credentials:
    """RFC 6749: both halves are form-encoded before they are joined; unreadable credentials match no client."""
    kind, _, encoded = authorization.partition(" ")
    if kind.lower() != "basic":
        return Credentials("", "")
    try:
        client_id, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        return Credentials(unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict"))
    except (binascii.Error, ValueError):
        return Credentials("", "")


async def authenticate(
    db: Database,
    keys: Keys,
    given: Credentials,
    *,
    peer: str,
    request_id: str,
    audiences: Audiences = NOBODY,
    url_store: StoreAddress = NO_STORE,
    resource_store: StoreAddress = NO_STORE,
    token_hash: bytes | None = None,
    token_seconds: float = 0,
) -> tuple[int, Client]:
    """The id of the authenticated app, with everything read about it in one round trip, on no node but the coordinator.

    A token for every store, of which the hash is given, is stored with it if the secret is right and no store is named.
    """
    client_id = given.client_id if is_client_id(given.client_id) else "malformed"
    attempt = Attempt(client_id, address_of(peer))
    stores = (url_store.handle, url_store.host, resource_store.handle, resource_store.host)
    digests = [] if given.assertion else keyed_hashes(keys, given.client_secret)
    checked = [] if token_hash is None else digests
    proof = (given.assertion is not None, checked, token_hash, token_seconds)
    client = await CLIENT.one(db, client_id, *stores, attempt.subjects, *proof)
    refuse_guessing(client)
    try:
        if given.assertion is None:
            _check_secret(digests, client)
        else:
            await _check_assertion(db, given.assertion, client, audiences)
    except InvalidClient:
        await count_failure(db, attempt, request_id)
        raise
    if client.app_id is None:  # unreachable: nothing above accepts the credentials of no app
        raise InvalidClient
    return client.app_id, client


def _check_secret(digests: Sequence[bytes], client: Client) -> None:
    # Always two comparisons for each key, whether the app has two secrets, one, or none.
    stored = [*(client.secrets or ()), _NO_SECRET, _NO_SECRET][:2]
    matches = [same(secret, digest) for secret in stored for digest in digests]
    if client.app_id is None or not any(matches):
        raise InvalidClient


async def _check_assertion(db: Database, given: Assertion, client: Client, audiences: Audiences) -> None:
    try:
        keys = [stored_key(*msgspec.json.decode(row, type=tuple[str, str, str])) for row in client.keys or ()]
        proof = check(given, keys, audiences.of(client), time.time())
    except InvalidAssertion as refusal:
        raise InvalidClient(refusal.explained or _WRONG_ASSERTION) from refusal
    if await USE_ASSERTION.maybe(db, client.app_id, proof.jti_hash, proof.expires_at) is None:
        raise InvalidClient("This assertion was used before. Sign a new one, with a new jti, for each request.")


def refuse_guessing(client: Client | FailedAttempts) -> None:
    """Refuse before comparing the secret: a correct one must get the same response as a wrong one."""
    at_one_address, of_address, everywhere = client.failures
    most = MOST_WHEN_GUESSED_AT if everywhere >= MANY_EVERYWHERE else MOST_AT_ONE_ADDRESS
    wait_s = client.seconds_left[0] if at_one_address >= most else 0
    if of_address >= MOST_OF_AN_ADDRESS:
        wait_s = max(wait_s, client.seconds_left[1])
    if wait_s > 0:
        raise TooManyAttempts(math.ceil(wait_s))


async def count_failure(db: Database, attempt: Attempt, request_id: str) -> None:
    counts = {row.subject: row.failures for row in await COUNT_FAILURE.all(db, sorted(attempt.subjects))}
    at_one_address, of_address, _ = (counts[subject] for subject in attempt.subjects)
    reached = at_one_address == MOST_AT_ONE_ADDRESS or of_address == MOST_OF_AN_ADDRESS
    if reached:
        # One entry when the limit is reached, not one per attempt: an attacker must not fill the log.
        async with db.transaction() as transaction:
            detail = {"failures_with_this_client": at_one_address, "failures_of_this_address": of_address}
            await audit.record(
                transaction,
                audit.SERVICE,
                "access.throttled",
                actor=f"address:{attempt.address}",
                subject=f"{attempt.kind}:{attempt.client_id}",
                detail=detail,
                request_id=request_id,
            )
    # Concurrent attempts may all have started before the limit was reached.
    if at_one_address > MOST_AT_ONE_ADDRESS or of_address > MOST_OF_AN_ADDRESS:
        raise TooManyAttempts(60)
