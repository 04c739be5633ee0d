"""Which app is asking: its credentials read and checked, and guessing slowed down on every worker alike."""

import base64
import binascii
import math
from collections.abc import Mapping
from ipaddress import IPv4Address, ip_address, ip_network
from urllib.parse import unquote_plus

import msgspec

from stoa.access import audit
from stoa.access.addresses import NOWHERE, Place
from stoa.access.contract import InvalidClient, InvalidRequest, TooManyTries
from stoa.access.credentials import is_client_id, keyed_hash, same
from stoa.access.queries import CLIENT, COUNT_FAILURE, Client, Tries
from stoa.db.pool import Database

# Failed tries in a minute. A guesser stops only itself: a client is counted apart at each address.
MOST_AT_ONE_ADDRESS = 10
MOST_OF_AN_ADDRESS = 50
# A client that is guessed at from everywhere leaves a newcomer one try; who fails none is never refused.
MANY_EVERYWHERE = 100
MOST_WHEN_GUESSED_AT = 1

_NOBODY = bytes(32)  # compared with where there is no secret, so that time tells nothing


class Credentials(msgspec.Struct, frozen=True):
    client_id: str
    client_secret: str


class Try(msgspec.Struct, frozen=True):
    """One attempt to authenticate, and where it came from."""

    client_id: str
    address: str
    kind: str = "client"

    @property
    def subjects(self) -> list[str]:
        return [f"{self.client_id} at {self.address}", f"at {self.address}", f"{self.client_id} anywhere"]


def read_credentials(authorization: str | None, form: Mapping[str, str]) -> Credentials:
    """The client's credentials, from HTTP Basic or from the body, and from exactly one of them."""
    if authorization is None:
        if "client_id" not in form or "client_secret" not in form:
            raise InvalidClient
        return Credentials(form["client_id"], form["client_secret"])
    if "client_secret" in form:
        raise InvalidRequest("Authenticate by HTTP Basic or in the body, not by both.")
    given = _read_basic(authorization)
    if form.get("client_id", given.client_id) != given.client_id:
        raise InvalidRequest("The body names another client than the Authorization header.")
    return given


def _read_basic(authorization: str) -> Credentials:
    """RFC 6749: both halves are form-encoded before they are joined; what cannot be read is nobody's."""
    kind, _, encoded = authorization.partition(" ")
    if kind.lower() != "basic":
        return Credentials("", "")
    try:
        client_id, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        return Credentials(unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict"))
    except (binascii.Error, ValueError):
        return Credentials("", "")


def address_of(host: str) -> str:
    """The address that failures are counted by; one caller holds a whole /64 of IPv6."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


async def authenticate(
    db: Database,
    key: bytes,
    given: Credentials,
    *,
    peer: str,
    request_id: str,
    here: Place = NOWHERE,
    there: Place = NOWHERE,
) -> tuple[int, Client]:
    """The id of the app that these credentials prove, with all that was read about it, in one round trip."""
    client_id = given.client_id if is_client_id(given.client_id) else "malformed"
    attempt = Try(client_id, address_of(peer))
    client = await CLIENT.one(db, client_id, here.handle, here.host, there.handle, there.host, attempt.subjects)
    refuse_guessing(client)
    digest = keyed_hash(key, given.client_secret)
    # Both places are always compared, whether they hold two secrets, one, or none.
    matches = [same(stored, digest) for stored in [*client.secrets, _NOBODY, _NOBODY][:2]]
    if client.app_id is None or not any(matches):
        await count_failure(db, attempt, request_id)
        raise InvalidClient
    return client.app_id, client


def refuse_guessing(client: Client | Tries) -> None:
    """Refused before the secret is looked at: a right one must not answer differently from a wrong one."""
    at_one_address, of_address, everywhere = client.failures
    most = MOST_WHEN_GUESSED_AT if everywhere >= MANY_EVERYWHERE else MOST_AT_ONE_ADDRESS
    wait_s = client.seconds_left[0] if at_one_address >= most else 0
    if of_address >= MOST_OF_AN_ADDRESS:
        wait_s = max(wait_s, client.seconds_left[1])
    if wait_s > 0:
        raise TooManyTries(math.ceil(wait_s))


async def count_failure(db: Database, attempt: Try, request_id: str) -> None:
    counts = {row.subject: row.failures for row in await COUNT_FAILURE.all(db, sorted(attempt.subjects))}
    at_one_address, of_address, _ = (counts[subject] for subject in attempt.subjects)
    reached = at_one_address == MOST_AT_ONE_ADDRESS or of_address == MOST_OF_AN_ADDRESS
    if reached:
        # One entry when the door closes, not one for each knock: a guesser must not fill the log.
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
    # Racing tries may all have begun before the door closed.
    if at_one_address > MOST_AT_ONE_ADDRESS or of_address > MOST_OF_AN_ADDRESS:
        raise TooManyTries(60)
