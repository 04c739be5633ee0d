"""The SDK authenticates with a private key instead of a secret."""

import base64
import json
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from stoa_client import AsyncClient, Client, PrivateKey, TokenRefused, installations
from tests.client.conftest import base_url
from tests.support.service import Account

PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def new_key() -> str:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(*PEM).decode()


def register(account: Account, key: PrivateKey, folder: Path) -> None:
    file = folder / "public.jwk.json"
    file.write_text(json.dumps(key.public_jwk))
    done = account.service.run("app", "keys", "add", account.client_id, str(file))
    assert done.returncode == 0, done.stderr


async def test_a_client_with_a_private_key_reads_a_store(account: Account, tmp_path: Path) -> None:
    key = PrivateKey(new_key())
    register(account, key, tmp_path)
    with Client(base_url(account), client_id=account.client_id, private_key=key) as client:
        assert list(client.products.list()) == []
    auth_url = f"{account.service.url}/oauth/token"
    async with AsyncClient(base_url(account), client_id=account.client_id, private_key=key, auth_url=auth_url) as other:
        assert [each async for each in other.at(base_url(account)).products.list()] == []
    [listed] = installations(auth_url, account.client_id, private_key=key)
    assert listed.store.handle == account.handle
    with (
        Client(
            base_url(account), client_id=account.client_id, private_key=PrivateKey(new_key(), key.key_id)
        ) as stranger,
        pytest.raises(TokenRefused, match="client assertion is incorrect"),
    ):
        list(stranger.products.list())


def test_a_retry_has_an_assertion_of_its_own(account: Account, tmp_path: Path) -> None:
    """The first response is lost, so its assertion is used, although the client has no token."""
    key = PrivateKey(new_key())
    register(account, key, tmp_path)
    lost = 0

    class Losing(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal lost
            response = super().handle_request(request)
            if request.url.path.endswith("/oauth/token") and not lost:
                lost += 1
                raise httpx.ReadError("lost")
            return response

    with (
        httpx.Client(transport=Losing()) as http,
        Client(base_url(account), http=http, client_id=account.client_id, private_key=key) as client,
    ):
        assert list(client.products.list()) == []
    assert lost == 1


def test_keys_are_read_from_pem_and_from_jwks() -> None:
    for made, name in [
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        (rsa.generate_private_key(65537, 2048), "RS256"),
    ]:
        key = PrivateKey(made.private_bytes(*PEM).decode())
        assert key.algorithm == name
        private = _number(made)
        again = PrivateKey(json.dumps({**key.public_jwk, "d": private}))
        assert (again.public_jwk, again.key_id) == (key.public_jwk, key.key_id)
        assert PrivateKey(json.dumps({**key.public_jwk, "d": private, "kid": "mine"})).key_id == "mine"
        assert private not in repr(key)


def _number(made: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> str:
    match made:
        case ed25519.Ed25519PrivateKey():
            raw = made.private_bytes_raw()
        case ec.EllipticCurvePrivateKey():
            raw = made.private_numbers().private_value.to_bytes(32)
        case _:
            raw = made.private_numbers().d.to_bytes(256)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text", ["", "key", '{"kty": "oct", "k": "AA"}', '{"kty": "EC", "crv": "P-256", "x": "A", "y": "A"}']
)
def test_what_is_not_a_private_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key"):
        PrivateKey(text)


def test_a_key_excludes_a_secret_and_a_token() -> None:
    key = PrivateKey(new_key())
    for options in ({"client_secret": "s", "client_id": "c"}, {}, {"client_id": "c", "token": "t"}):
        with pytest.raises(ValueError, match="either client_id and client_secret"):
            Client("https://shop.example.com", private_key=key, **options)  # pyright: ignore[reportArgumentType]
