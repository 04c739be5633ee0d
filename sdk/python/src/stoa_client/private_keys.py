"""Authentication with a private key (`private_key_jwt`, RFC 7523): signs an assertion for each token request."""

import base64
import hashlib
import json
import secrets
import time
from functools import cached_property
from typing import Any

import msgspec

_LIFETIME_S = 60
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class PrivateKey:
    """A private key as PEM, or as a JWK in JSON: EC with P-256, Ed25519, or RSA with at least 2048 bits.

    `key_id` is the id with which the public key is registered; by default that of the JWK, else its thumbprint.
    """

    def __init__(self, text: str, key_id: str = "") -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ImportError("a private key needs cryptography: pip install 'stoa-client[keys]'") from error
        jwk: dict[str, Any] = json.loads(text) if text.lstrip().startswith("{") else {}
        key = _from_jwk(jwk) if jwk else _from_pem(text)
        match key:
            case ec.EllipticCurvePrivateKey() if key.curve.name == "secp256r1":
                self.algorithm = "ES256"
            case ed25519.Ed25519PrivateKey():
                self.algorithm = "EdDSA"
            case rsa.RSAPrivateKey():
                self.algorithm = "RS256"
            case _:
                raise ValueError("a private key must be EC with P-256, Ed25519 or RSA")
        self._key: Any = key
        self.key_id = key_id or jwk.get("kid") or _thumbprint(self._members)

    def __repr__(self) -> str:
        return f"PrivateKey({self.algorithm}, {self.key_id!r})"

    @property
    def public_jwk(self) -> dict[str, str]:
        """The public key, to register in the portal or with `stoa app keys add`."""
        return {**self._members, "kid": self.key_id, "alg": self.algorithm, "use": "sig"}

    def assertion(self, client_id: str, audience: str) -> str:
        """A signed statement that this app asks for a token there, now and once."""
        now = int(time.time())
        header = {"alg": self.algorithm, "typ": "JWT", "kid": self.key_id}
        claims = {"iss": client_id, "sub": client_id, "aud": audience, "jti": secrets.token_urlsafe(24)}
        signed = b".".join(
            _encoded(msgspec.json.encode(each)) for each in (header, {**claims, "iat": now, "exp": now + _LIFETIME_S})
        )
        return b".".join((signed, _encoded(self._signature(signed)))).decode()

    def _signature(self, signed: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - an optional extra
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415

        if self.algorithm == "EdDSA":
            return self._key.sign(signed)
        if self.algorithm == "RS256":
            return self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        r, s = utils.decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)

    @cached_property
    def _members(self) -> dict[str, str]:
        """The public members of the JWK, in the order of its thumbprint (RFC 7638)."""
        public = self._key.public_key()
        if self.algorithm == "EdDSA":
            return {"crv": "Ed25519", "kty": "OKP", "x": _encoded(public.public_bytes_raw()).decode()}
        numbers = public.public_numbers()
        if self.algorithm == "RS256":
            return {"e": _number(numbers.e), "kty": "RSA", "n": _number(numbers.n)}
        return {"crv": "P-256", "kty": "EC", "x": _number(numbers.x, 32), "y": _number(numbers.y, 32)}


def _from_pem(text: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - an optional extra

    try:
        return load_pem_private_key(text.encode(), password=None)
    except (TypeError, ValueError) as error:  # TypeError: it is encrypted
        raise ValueError("a private key must be PEM without a password, or a JWK in JSON") from error


def _from_jwk(jwk: dict[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415 - an optional extra

    try:
        match jwk:
            case {"kty": "OKP", "crv": "Ed25519", "d": d}:
                return ed25519.Ed25519PrivateKey.from_private_bytes(_bytes(d))
            case {"kty": "EC", "crv": "P-256", "d": d}:
                return ec.derive_private_key(_integer(d), ec.SECP256R1())
            case {"kty": "RSA", "n": n, "e": e, "d": d}:
                p, q = rsa.rsa_recover_prime_factors(_integer(n), _integer(e), _integer(d))
                derived = (rsa.rsa_crt_dmp1(_integer(d), p), rsa.rsa_crt_dmq1(_integer(d), q), rsa.rsa_crt_iqmp(p, q))
                public = rsa.RSAPublicNumbers(_integer(e), _integer(n))
                return rsa.RSAPrivateNumbers(p, q, _integer(d), *derived, public).private_key()
            case _:
                pass
    except (TypeError, ValueError) as error:
        raise ValueError("the private key is not a valid JWK") from error
    raise ValueError(
        "a private key must be a JWK with kty EC and P-256, OKP and Ed25519, or RSA, and its private part d"
    )


def _thumbprint(members: dict[str, str]) -> str:
    return _encoded(hashlib.sha256(msgspec.json.encode(members, order="sorted")).digest()).decode()


def _encoded(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def _number(value: int, length: int = 0) -> str:
    return _encoded(value.to_bytes(length or (value.bit_length() + 7) // 8)).decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _integer(text: str) -> int:
    return int.from_bytes(_bytes(text))
