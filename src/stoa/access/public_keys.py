"""Public keys of apps: read from a JWK (RFC 7517), named by their thumbprint (RFC 7638), and used to verify a signature."""

import base64
import binascii
import hashlib
import re
from typing import Any, Literal, cast

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from stoa.access.contract import AccessRefused

Algorithm = Literal["ES256", "RS256", "EdDSA"]
# The name of a signature in a JWT, and the kind of key that makes it. RFC 9864 renames EdDSA with this curve to Ed25519.
ALGORITHMS: dict[str, Algorithm] = {"ES256": "ES256", "RS256": "RS256", "EdDSA": "EdDSA", "Ed25519": "EdDSA"}
SMALLEST_RSA_BITS, LARGEST_RSA_BITS = 2048, 4096
MOST_CHARACTERS = 4_096
_RSA_EXPONENT = 65537
_MEMBERS: dict[Algorithm, tuple[str, ...]] = {
    "ES256": ("crv", "kty", "x", "y"),
    "RS256": ("e", "kty", "n"),
    "EdDSA": ("crv", "kty", "x"),
}
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_KID = re.compile(r"[A-Za-z0-9._~:-]{1,128}", re.ASCII)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class InvalidKey(AccessRefused):
    def __init__(self, reason: str) -> None:
        super().__init__(f"this is not a public key that Stoa accepts: {reason}")


class PublicKey(msgspec.Struct, frozen=True):
    """A public key: the members of its JWK that define it, and the id by which an assertion names it."""

    kid: str
    algorithm: Algorithm
    members: dict[str, str]

    @property
    def jwk(self) -> str:
        return msgspec.json.encode(self.members, order="sorted").decode()


def read_key(text: str) -> PublicKey:
    """The key of a JWK, or of a key set with one key. A private key is refused, so that nobody hands one out."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidKey(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        document = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidKey("send a JSON Web Key, which is a JSON object") from error
    if "keys" in document:
        document = _only(document["keys"])
    if _PRIVATE & set(document):
        raise InvalidKey("it is a private key; send only the public part, and replace the key if others saw it")
    algorithm = _algorithm(document)
    members = {name: _text(document, name) for name in _MEMBERS[algorithm]}
    _loaded(algorithm, members)
    kid = document.get("kid") or thumbprint(members)
    if not isinstance(kid, str) or not _KID.fullmatch(kid):
        raise InvalidKey("its kid must have 1 to 128 letters, digits and . _ ~ : -")
    return PublicKey(kid, algorithm, members)


def stored_key(kid: str, algorithm: str, jwk: str) -> PublicKey:
    return PublicKey(kid, ALGORITHMS[algorithm], msgspec.json.decode(jwk, type=dict[str, str]))


def thumbprint(members: dict[str, str]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(members, order="sorted")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def verifies(key: PublicKey, signed: bytes, signature: bytes) -> bool:
    """Whether the signature of these bytes was made with the private key; the key decides on the algorithm."""
    loaded = _loaded(key.algorithm, key.members)
    try:
        match loaded:
            case ec.EllipticCurvePublicKey():
                if len(signature) != 64:
                    return False
                r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
                loaded.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPublicKey():
                loaded.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
            case _:
                loaded.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def from_base64url(text: str) -> bytes:
    """Strict: one spelling for each value, without padding. Raises ValueError."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    try:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != text:
        raise ValueError("not base64url")
    return found


def _only(keys: Any) -> dict[str, Any]:
    found = cast("list[Any]", keys) if isinstance(keys, list) else []
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InvalidKey("send one key at a time")
    return cast("dict[str, Any]", found[0])


def _algorithm(document: dict[str, Any]) -> Algorithm:
    kinds: dict[tuple[Any, Any], Algorithm] = {
        ("EC", "P-256"): "ES256",
        ("RSA", None): "RS256",
        ("OKP", "Ed25519"): "EdDSA",
    }
    kty, crv = document.get("kty"), document.get("crv")
    algorithm = kinds.get((kty, crv)) if isinstance(kty, str) and isinstance(crv, str | None) else None
    if algorithm is None:
        raise InvalidKey("use EC with the curve P-256, RSA, or OKP with the curve Ed25519")
    if document.get("alg") is not None and ALGORITHMS.get(str(document["alg"])) != algorithm:
        raise InvalidKey(f"its alg must be {algorithm}")
    if document.get("use") not in (None, "sig"):
        raise InvalidKey("its use must be sig")
    return algorithm


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise InvalidKey(f"{name} is missing")
    return value


def _loaded(
    algorithm: Algorithm, members: dict[str, str]
) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey:
    try:
        values = {name: from_base64url(value) for name, value in members.items() if name not in ("kty", "crv")}
        if algorithm == "RS256":
            return _loaded_rsa(int.from_bytes(values["n"]), int.from_bytes(values["e"]))
        if algorithm == "EdDSA":
            return ed25519.Ed25519PublicKey.from_public_bytes(values["x"])
        if (len(values["x"]), len(values["y"])) != (32, 32):
            raise InvalidKey("x and y must have 32 bytes each")
        point = ec.EllipticCurvePublicNumbers(int.from_bytes(values["x"]), int.from_bytes(values["y"]), ec.SECP256R1())
        return point.public_key()
    except ValueError as error:
        raise InvalidKey("its numbers do not form a key") from error


def _loaded_rsa(n: int, e: int) -> rsa.RSAPublicKey:
    if not SMALLEST_RSA_BITS <= n.bit_length() <= LARGEST_RSA_BITS:
        raise InvalidKey(f"an RSA key must have {SMALLEST_RSA_BITS} to {LARGEST_RSA_BITS} bits")
    if e != _RSA_EXPONENT:
        raise InvalidKey(f"the exponent of an RSA key must be {_RSA_EXPONENT}")
    return rsa.RSAPublicNumbers(e, n).public_key()
