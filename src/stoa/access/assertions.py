"""Client assertions (RFC 7523): JWTs that an app signs with its private key to authenticate."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec

from stoa.access.public_keys import ALGORITHMS, Algorithm, PublicKey, from_base64url, stored_key, verifies

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LONGEST_LIFETIME_S = 300
CLOCK_SKEW_S = 30
MOST_CHARACTERS = 8_192
_LONGEST_JTI = 255
# Verified where there is no key, so that timing does not reveal whether an app exists or has this key.
_NOBODYS_KEYS: dict[Algorithm, str] = {
    "ES256": '{"crv":"P-256","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}',
    "RS256": '{"e":"AQAB","kty":"RSA","n":"'
    "2mvEVFSv7l0x1jxHqrCU-PBNpvxgDiLDUB5DlMF5xC0Zcf2h9JxjsgoiN0hHrTlDMeCR99MjkpkfUgRWzfPtQasx4X5pqIE2ScNa"
    "9rRMc3hs6kJheKG7iRUun3XMgghff5V19vvPePehJqsPVxlyIQuOHBjULr2rEMahRJRjW8bcHQTKagNSf4N6Ks6EzvUFIcbc_uQM"
    "2HlQO8WZfRALpspdBStvSQaJWo4UbwdS9jmLGub9uS9BdtVUnsavOPfqzppNLECl2Sot2h5kBv1phI7o1ePuK0UcENTnFLbSlFfX"
    "8YGj7c_3sfZhNMG32VIljdnC3TC8ZdSADHJf60mmcQ"
    '"}',
    "EdDSA": '{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}',
}


class InvalidAssertion(Exception):
    """The assertion is refused. `explained` says why to a caller that proved to hold the key, else it is empty."""

    def __init__(self, explained: str = "") -> None:
        super().__init__(explained)
        self.explained = explained


class Assertion(msgspec.Struct, frozen=True):
    """A decoded assertion whose signature is not checked yet."""

    client_id: str
    algorithm: Algorithm
    kid: str | None
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


UNREADABLE = Assertion("", "ES256", None, {}, b"", b"")  # its signature matches no key


class Proof(msgspec.Struct, frozen=True):
    """What remains of a valid assertion: its id, which is used once, and when it expires."""

    jti_hash: bytes
    expires_at: float


def read_assertion(text: str) -> Assertion:
    """Decode an assertion; no key is needed, and nothing in it is trusted."""
    parts = text.split(".")
    if len(text) > MOST_CHARACTERS or len(parts) != 3:
        raise InvalidAssertion
    try:
        header: dict[str, Any] = msgspec.json.decode(from_base64url(parts[0]), type=dict[str, Any])
        claims: dict[str, Any] = msgspec.json.decode(from_base64url(parts[1]), type=dict[str, Any])
        signature = from_base64url(parts[2])
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidAssertion from error
    algorithm = ALGORITHMS.get(str(header.get("alg")))
    kid, subject = header.get("kid"), claims.get("sub")
    # An extension that must be understood is not; `none` and symmetric algorithms are not among the known ones.
    if algorithm is None or "crit" in header or not isinstance(kid, str | None) or not isinstance(subject, str):
        raise InvalidAssertion
    return Assertion(subject, algorithm, kid, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def check(given: Assertion, keys: Sequence[PublicKey], audiences: Collection[str], now: float) -> Proof:
    """Verify the signature, exactly once whatever the keys are, and then the claims."""
    key = _named(given, keys)
    nobodys = stored_key("", given.algorithm, _NOBODYS_KEYS[given.algorithm])
    if not verifies(key or nobodys, given.signed, given.signature) or key is None:
        raise InvalidAssertion
    claims = given.claims
    if claims.get("iss") != given.client_id:
        raise InvalidAssertion("iss and sub must both be the client id.")
    aud: Any = claims.get("aud")
    named = cast("list[Any]", aud) if isinstance(aud, list) else [aud]
    # An assertion for several servers could be used by one of them at another.
    if not named or any(not isinstance(each, str) or each not in audiences for each in named):
        raise InvalidAssertion("aud must be the issuer or the URL of the token endpoint, and nothing else.")
    return _timely(claims, now)


def _timely(claims: dict[str, Any], now: float) -> Proof:
    expires, issued, starts = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None or expires <= now - CLOCK_SKEW_S:
        raise InvalidAssertion("exp is required, and must be in the future. Check the clock.")
    if expires - (now if issued is None else issued) > LONGEST_LIFETIME_S + (CLOCK_SKEW_S if issued is None else 0):
        raise InvalidAssertion(f"An assertion is valid for at most {LONGEST_LIFETIME_S} seconds.")
    if any(each is not None and each > now + CLOCK_SKEW_S for each in (issued, starts)):
        raise InvalidAssertion("iat and nbf must not be in the future. Check the clock.")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti) <= _LONGEST_JTI:
        raise InvalidAssertion(f"jti is required: a new text for each assertion, up to {_LONGEST_JTI} characters.")
    return Proof(hashlib.sha256(jti.encode("utf-8", "surrogatepass")).digest(), expires + CLOCK_SKEW_S)


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value: Any = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise InvalidAssertion(f"{name} must be a time in seconds since 1970.")
    return float(value)


def _named(given: Assertion, keys: Sequence[PublicKey]) -> PublicKey | None:
    """The key of the app that the assertion names: by its id, or because there is only one of this algorithm."""
    found = [each for each in keys if each.algorithm == given.algorithm and given.kid in (None, each.kid)]
    return found[0] if len(found) == 1 else None
