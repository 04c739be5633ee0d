"""Authentication with a private key: with Authlib as the client, with the SDK, and every way to forge an assertion."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from typing import Any

import httpx
import httpx2
import msgspec
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc.jwk import ECKey, OKPKey, RSAKey
from starlette.applications import Starlette

from stoa.access import app_keys, assertions, public_keys
from stoa.access.admission import Admission
from stoa.access.apps import delete_app
from stoa.access.contract import AppDeleted
from stoa.access.oauth import routes
from stoa.access.operator import Operator, find_app
from stoa.access.queries import DELETE_USED_ASSERTIONS
from stoa.access.stores import create_store
from stoa.db.pool import Database
from stoa.settings import Settings
from stoa_client import PrivateKey
from tests.access.tenants import REQUESTED, Tenant, about_app, new_handle, open_tenant, post, refused
from tests.support.people import new_peer

ISSUER = "http://service.test"
TOKEN_URL = f"{ISSUER}/oauth/token"
PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
KEYS = {
    "ES256": ec.generate_private_key(ec.SECP256R1()).private_bytes(*PEM).decode(),
    "EdDSA": ed25519.Ed25519PrivateKey.generate().private_bytes(*PEM).decode(),
    "RS256": rsa.generate_private_key(65537, 2048).private_bytes(*PEM).decode(),
}
WRONG = {
    "error": "invalid_client",
    "error_description": "The client id or the client assertion is incorrect.",
}
NESTED = b'{"a":' + b"[" * 2_000 + b"]" * 2_000 + b"}"  # more levels than Python follows
SMALL = rsa.generate_private_key(65537, 1024).private_bytes(*PEM).decode()  # noqa: S505 - to be refused


async def registered(operator: Operator, tenant: Tenant, algorithm: str = "ES256", key_id: str = "") -> PrivateKey:
    key = PrivateKey(KEYS[algorithm], key_id)
    await app_keys.add_key(operator, tenant.app, json.dumps(key.public_jwk))
    return key


class Later(int):
    """A time in so many seconds from the start of a test."""


async def ask(oauth: httpx.AsyncClient, assertion: str, url: str = "/oauth/token", **more: str) -> httpx.Response:
    form = {"client_assertion_type": assertions.ASSERTION_TYPE, "client_assertion": assertion}
    return await oauth.post(url, data={"grant_type": "client_credentials", **form, **more})


def encoded(part: Any) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(key: PrivateKey, client_id: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """An assertion with some claims replaced; None removes one."""
    now = int(time.time())
    usual = {"iss": client_id, "sub": client_id, "aud": ISSUER, "jti": str(uuid.uuid4()), "iat": now, "exp": now + 60}
    chosen = {name: now + value if isinstance(value, Later) else value for name, value in claims.items()}
    body = {name: value for name, value in {**usual, **chosen}.items() if value is not None}
    text = f"{encoded({'alg': key.algorithm, 'kid': key.key_id, **(header or {})})}.{encoded(body)}"
    return f"{text}.{encoded(key._signature(text.encode()))}"  # pyright: ignore[reportPrivateUsage]


# --- a token ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", KEYS)
async def test_authlib_gets_and_revokes_a_token(
    token_app: Starlette, peer: str, operator: Operator, tenant: Tenant, algorithm: str
) -> None:
    key = await registered(operator, tenant, algorithm)
    name = "Ed25519" if algorithm == "EdDSA" else algorithm  # Authlib uses the newer name

    def method() -> PrivateKeyJWT:
        # A new one for each request, because it keeps its jti; its own lifetime of an hour is too long.
        return PrivateKeyJWT(TOKEN_URL, {"exp": int(time.time()) + 120}, {"kid": key.key_id}, name)

    client: Any = AsyncOAuth2Client(
        tenant.app,
        {"ES256": ECKey, "EdDSA": OKPKey, "RS256": RSAKey}[algorithm].import_key(KEYS[algorithm]),
        token_endpoint_auth_method=method(),
        revocation_endpoint_auth_method=method(),
        transport=httpx2.ASGITransport(token_app, client=(peer, 40_000)),
    )
    async with client:
        token = await client.fetch_token(TOKEN_URL, grant_type="client_credentials")
        assert token["scope"].split() == REQUESTED
        revoked = await client.revoke_token(f"{ISSUER}/oauth/revoke", token=token["access_token"])
        assert revoked.status_code == 200, revoked.text


@pytest.mark.parametrize("algorithm", KEYS)
async def test_the_sdk_gets_a_token(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant, algorithm: str
) -> None:
    key = await registered(operator, tenant, algorithm)
    assert (await ask(oauth, key.assertion(tenant.app, TOKEN_URL))).status_code == 200
    assert (await ask(oauth, key.assertion(tenant.app, ISSUER), client_id=tenant.app)).status_code == 200
    answer = await ask(
        oauth,
        key.assertion(tenant.app, f"{ISSUER}/stores/{tenant.handle}/oauth/token"),
        url=f"/stores/{tenant.handle}/oauth/token",
    )
    assert answer.json()["resource"] == f"{ISSUER}/stores/{tenant.handle}/api/v3/app"
    token = answer.json()["access_token"]
    described = await ask(oauth, key.assertion(tenant.app, ISSUER), url="/oauth/introspect", token=token)
    assert described.json()["active"] is True
    await ask(oauth, key.assertion(tenant.app, ISSUER), url="/oauth/revoke", token=token)
    assert (await ask(oauth, key.assertion(tenant.app, ISSUER), url="/oauth/introspect", token=token)).json() == {
        "active": False
    }


async def test_the_secret_works_beside_the_keys(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    await registered(operator, tenant)
    assert (await post(oauth, auth=tenant.basic)).status_code == 200


async def test_a_key_id_is_needed_only_if_there_are_several_keys(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    key = await registered(operator, tenant)
    assert (await ask(oauth, signed(key, tenant.app, {"kid": None}))).status_code == 200
    other = PrivateKey(ec.generate_private_key(ec.SECP256R1()).private_bytes(*PEM).decode(), "other")
    await app_keys.add_key(operator, tenant.app, json.dumps(other.public_jwk))
    assert (await ask(oauth, signed(key, tenant.app, {"kid": None}))).status_code == 401
    assert (await ask(oauth, signed(key, tenant.app))).status_code == 200
    assert (await ask(oauth, signed(other, tenant.app))).status_code == 200


async def test_the_metadata_names_the_method(oauth: httpx.AsyncClient) -> None:
    document = (await oauth.get("/.well-known/oauth-authorization-server")).json()
    for endpoint in ("token", "revocation", "introspection"):
        assert "private_key_jwt" in document[f"{endpoint}_endpoint_auth_methods_supported"]
        found = document[f"{endpoint}_endpoint_auth_signing_alg_values_supported"]
        assert found == ["ES256", "RS256", "EdDSA", "Ed25519"]


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_an_assertion_is_used_once(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    key = await registered(operator, tenant)
    assertion = key.assertion(tenant.app, ISSUER)
    answers = await asyncio.gather(*(ask(oauth, assertion) for _ in range(5)))
    assert sorted(each.status_code for each in answers) == [200, 401, 401, 401, 401]
    refused = next(each for each in answers if each.status_code == 401)
    assert "used before" in refused.json()["error_description"]


async def test_two_apps_may_use_the_same_jti(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    other = await open_tenant(operator)
    for each in (tenant, other):
        key = await registered(operator, each)
        assert (await ask(oauth, signed(key, each.app, jti="the same"))).status_code == 200


@pytest.mark.parametrize(
    ("claims", "explained"),
    [
        ({"aud": "https://other.example"}, "aud must be"),
        ({"aud": [ISSUER, "https://other.example"]}, "aud must be"),
        ({"aud": []}, "aud must be"),
        ({"aud": None}, "aud must be"),
        ({"aud": [{"a": 1}]}, "aud must be"),
        ({"aud": {ISSUER: 1}}, "aud must be"),
        ({"iss": "stoa_ci_other"}, "iss and sub"),
        ({"iss": None}, "iss and sub"),
        ({"exp": None}, "exp is required"),
        ({"exp": Later(-60), "iat": Later(-120)}, "exp is required"),
        ({"exp": Later(+600)}, "at most 300 seconds"),
        ({"exp": Later(+600), "iat": None}, "at most 300 seconds"),
        ({"exp": Later(+600), "iat": Later(+500)}, "must not be in the future"),
        ({"nbf": Later(+500)}, "must not be in the future"),
        ({"exp": "soon"}, "seconds since 1970"),
        ({"exp": True}, "seconds since 1970"),
        ({"exp": 1e300}, "seconds since 1970"),
        ({"jti": None}, "jti is required"),
        ({"jti": ""}, "jti is required"),
        ({"jti": 7}, "jti is required"),
        ({"jti": "x" * 256}, "jti is required"),
    ],
)
async def test_a_wrong_claim_is_explained_to_the_holder_of_the_key(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant, claims: dict[str, Any], explained: str
) -> None:
    key = await registered(operator, tenant)
    answer = await ask(oauth, signed(key, tenant.app, **claims))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert explained in answer.json()["error_description"]


async def test_an_assertion_without_iat_is_valid_within_its_lifetime(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    key = await registered(operator, tenant)
    now = int(time.time())
    assert (await ask(oauth, signed(key, tenant.app, iat=None, exp=now + 300))).status_code == 200
    assert (await ask(oauth, signed(key, tenant.app, iat=now + 20, exp=now + 200))).status_code == 200
    assert (await ask(oauth, signed(key, tenant.app, iat=now - 100, exp=now - 5))).status_code == 200


def test_the_algorithm_of_the_header_does_not_choose_how_a_key_is_used() -> None:
    """Each of these decodes or fails; none reaches a check with another algorithm than that of the key."""
    key = PrivateKey(KEYS["RS256"])
    for algorithm in ("none", "None", "HS256", "RS384", "PS256", "ES384", "", None, ["RS256"]):
        with pytest.raises(assertions.InvalidAssertion):
            assertions.read_assertion(signed(key, "app", {"alg": algorithm}))


async def test_forged_assertions_get_the_answer_of_an_unknown_client(
    token_app: Starlette, operator: Operator, tenant: Tenant
) -> None:
    key = await registered(operator, tenant, "RS256")
    good = signed(key, tenant.app)
    head, body, signature = good.split(".")
    public = json.dumps(key.public_jwk).encode()
    confused = f"{encoded({'alg': 'HS256', 'kid': key.key_id})}.{body}"
    other = PrivateKey(rsa.generate_private_key(65537, 2048).private_bytes(*PEM).decode(), key.key_id)
    forged = [
        signed(other, tenant.app),
        signed(other, tenant.app, {"jwk": other.public_jwk}),
        signed(key, tenant.app, {"alg": "ES256"}),
        signed(key, tenant.app, {"kid": "unknown"}),
        signed(key, tenant.app, {"kid": 7}),
        signed(key, tenant.app, {"crit": ["exp"]}),
        signed(key, tenant.app, sub=None),
        f"{encoded(NESTED)}.{body}.{signature}",
        f"{head}.{encoded(NESTED)}.{signature}",
        signed(key, "stoa_ci_unknown"),
        f"{encoded({'alg': 'none'})}.{body}.",
        f"{confused}.{encoded(hmac.digest(public, confused.encode(), hashlib.sha256))}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{encoded({'sub': tenant.app})}.{signature}",
        f"{head}.{body}.{signature}=",
        f"{head}.{body}.{signature[:-2]}",
        f"{good}.{good}",
        "...",
        "x" * 9000,
        "é.é.é",
    ]
    for each in forged:
        async with elsewhere(token_app) as oauth:  # failures of one address are throttled
            answer = await ask(oauth, each)
        assert answer.status_code == 401, each
        assert answer.json() == WRONG, each
    async with elsewhere(token_app) as oauth:
        assert (await ask(oauth, good)).status_code == 200


def elsewhere(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(new_peer(), 40_000)), base_url=ISSUER)


async def test_failed_assertions_are_throttled(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    key = await registered(operator, tenant)
    other = PrivateKey(ec.generate_private_key(ec.SECP256R1()).private_bytes(*PEM).decode(), key.key_id)
    statuses = [(await ask(oauth, signed(other, tenant.app))).status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    assert (await ask(oauth, signed(key, tenant.app))).status_code == 429


async def test_unreadable_assertions_are_throttled(oauth: httpx.AsyncClient) -> None:
    statuses = [(await ask(oauth, f"{encoded(NESTED)}.x.x")).status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]


def test_one_signature_is_verified_whatever_the_keys_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that timing does not tell an app that exists, or has this key, from another."""
    key, calls = PrivateKey(KEYS["ES256"]), list[str]()
    stored = public_keys.read_key(json.dumps(key.public_jwk))
    given = assertions.read_assertion(signed(key, "app"))

    def counted(used: public_keys.PublicKey, *_: bytes) -> bool:
        calls.append(used.algorithm)
        return False

    monkeypatch.setattr(assertions, "verifies", counted)
    for keys in ([], [stored], [stored, stored]):
        with pytest.raises(assertions.InvalidAssertion):
            assertions.check(given, keys, [ISSUER], time.time())
    assert calls == ["ES256"] * 3


async def test_one_method_at_a_time(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    key = await registered(operator, tenant)
    form = {"client_assertion_type": assertions.ASSERTION_TYPE, "client_assertion": signed(key, tenant.app)}
    assert "only by one" in refused(
        await oauth.post("/oauth/token", data={"grant_type": "client_credentials", **form}, auth=tenant.basic),
        400,
        "invalid_request",
    )
    both = await ask(oauth, form["client_assertion"], client_secret="x")
    assert "only by one" in refused(both, 400, "invalid_request")
    wrong = await post(oauth, client_assertion="x", client_assertion_type="urn:other")
    assert "client_assertion_type must be" in refused(wrong, 400, "invalid_request")
    assert "differs" in refused(await ask(oauth, signed(key, tenant.app), client_id="other"), 400, "invalid_request")


async def test_a_host_header_does_not_choose_the_audience(
    db: Database, operator: Operator, settings: Settings, peer: str
) -> None:
    """An assertion for another server is refused, also if its sender names that server as the host."""
    host = f"shop-{new_handle()}.example.com"
    tenant = await open_tenant(operator)
    await create_store(operator, new_handle(), "A shop", "EUR", [host])
    key = await registered(operator, tenant)
    public = msgspec.structs.replace(settings, public_url="https://api.example.com")
    app = Starlette(routes=routes(db, Admission(db, public), public))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(peer, 1)), base_url=ISSUER) as client:
        for named, sent_to, status in [
            ("https://evil.example/oauth/token", "evil.example", 401),
            ("https://api.example.com/oauth/token", "api.example.com", 200),
            ("https://api.example.com", "evil.example", 200),
            (f"https://{host}/oauth/token", host, 400),  # authenticated; the app is not installed there
            (f"https://{host}/oauth/token", "api.example.com", 401),
        ]:
            answer = await client.post(
                "/oauth/token",
                data={
                    "grant_type": "client_credentials",
                    "client_assertion_type": assertions.ASSERTION_TYPE,
                    "client_assertion": key.assertion(tenant.app, named),
                },
                headers={"host": sent_to},
            )
            assert answer.status_code == status, (named, sent_to, answer.text)


# --- the keys of an app ----------------------------------------------------------------------------------------------


async def test_keys_are_added_once_listed_and_removed(
    oauth: httpx.AsyncClient, db: Database, operator: Operator, tenant: Tenant
) -> None:
    key = await registered(operator, tenant)
    assert await registered(operator, tenant)  # the same key again changes nothing
    [listed] = await app_keys.list_keys(operator, await find_app(db, tenant.app))
    assert (listed.kid, listed.algorithm) == (key.key_id, "ES256")
    assert set(json.loads(listed.jwk)) == {"crv", "kty", "x", "y"}
    await app_keys.remove_key(operator, tenant.app, key.key_id)
    assert (await ask(oauth, signed(key, tenant.app))).status_code == 401
    with pytest.raises(app_keys.NoSuchKey):
        await app_keys.remove_key(operator, tenant.app, key.key_id)
    assert await about_app(db, tenant) == ["app.created", "app.key_added", "app.key_removed"]


async def test_an_app_has_at_most_five_keys_with_ids_of_their_own(operator: Operator, tenant: Tenant) -> None:
    def new(key_id: str) -> str:
        made = PrivateKey(ed25519.Ed25519PrivateKey.generate().private_bytes(*PEM).decode(), key_id)
        return json.dumps(made.public_jwk)

    for number in range(app_keys.MOST_KEYS):
        await app_keys.add_key(operator, tenant.app, new(f"key-{number}"))
    with pytest.raises(app_keys.KeyTaken):
        await app_keys.add_key(operator, tenant.app, new("key-1"))
    with pytest.raises(app_keys.TooManyKeys):
        await app_keys.add_key(operator, tenant.app, new("another"))


async def test_a_deleted_app_has_no_keys(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    key = await registered(operator, tenant)
    await delete_app(operator, tenant.app)
    assert (await ask(oauth, signed(key, tenant.app))).status_code == 401
    with pytest.raises(AppDeleted):
        await registered(operator, tenant)


@pytest.mark.parametrize(
    ("jwk", "reason"),
    [
        ("not json", "JSON Web Key"),
        ("[]", "JSON Web Key"),
        ("{}", "use EC"),
        ('{"kty": ["EC"]}', "use EC"),
        ('{"kty": "oct", "k": "c2VjcmV0"}', "private key"),
        ('{"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}', "use EC"),
        ('{"kty": "EC", "crv": "P-256", "x": "AA"}', "y is missing"),
        ('{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}', "32 bytes"),
        (json.dumps({"kty": "EC", "crv": "P-256", "x": "A" * 43, "y": "A" * 43}), "do not form a key"),
        ('{"kty": "RSA", "n": "AQAB", "e": "AQAB"}', "2048"),
        ('{"kty": "OKP", "crv": "Ed25519", "x": "AA"}', "do not form a key"),
        ('{"kty": "OKP", "crv": "Ed25519", "x": "é"}', "do not form a key"),
        ('{"keys": []}', "one key"),
        ("{" + " " * 5_000 + "}", "characters"),
        (NESTED.decode(), "JSON Web Key"),
    ],
)
def test_what_is_not_a_public_key_is_refused(jwk: str, reason: str) -> None:
    with pytest.raises(public_keys.InvalidKey, match=reason):
        public_keys.read_key(jwk)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"alg": "RS256"}, "alg must be"),
        ({"use": "enc"}, "use must be"),
        ({"kid": "a b"}, "kid must"),
        ({"kid": 7}, "kid must"),
        ({"kid": "x" * 129}, "kid must"),
        ({"d": "AA"}, "private key"),
    ],
)
def test_members_that_contradict_the_key_are_refused(changes: dict[str, Any], reason: str) -> None:
    jwk = {**PrivateKey(KEYS["ES256"]).public_jwk, **changes}
    with pytest.raises(public_keys.InvalidKey, match=reason):
        public_keys.read_key(json.dumps(jwk))


def test_a_small_rsa_key_is_refused() -> None:
    with pytest.raises(public_keys.InvalidKey, match="2048 to 4096 bits"):
        public_keys.read_key(json.dumps(PrivateKey(SMALL).public_jwk))


def test_a_key_without_an_id_is_named_by_its_thumbprint() -> None:
    """The example of RFC 7638, and of RFC 8037 for Ed25519."""
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    ed25519_key = public_keys.read_key(json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]}))
    assert ed25519_key.kid == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    for text in KEYS.values():
        key = PrivateKey(text)
        without = {name: value for name, value in key.public_jwk.items() if name != "kid"}
        assert public_keys.read_key(json.dumps(without)).kid == key.key_id


async def test_used_assertions_are_forgotten_after_they_expire(
    oauth: httpx.AsyncClient, db: Database, operator: Operator, tenant: Tenant
) -> None:
    key = await registered(operator, tenant)
    assertion = signed(key, tenant.app)
    assert (await ask(oauth, assertion)).status_code == 200
    await DELETE_USED_ASSERTIONS.run(db)
    assert (await ask(oauth, assertion)).status_code == 401  # still valid, so still known
    await db.execute(
        "UPDATE used_assertions SET expires_at = now() - interval '1 second' WHERE app_id = $1", tenant.secret.app_id
    )
    await DELETE_USED_ASSERTIONS.run(db)
    left = await db.fetch("SELECT count(*) FROM used_assertions WHERE app_id = $1", tenant.secret.app_id)
    assert left[0][0] == 0
