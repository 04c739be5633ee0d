"""Introspection, revocation and expiry of tokens, and the discovery metadata."""

import httpx
import msgspec
import pytest

from stoa.access.admission import Admission
from stoa.access.apps import suspend_app
from stoa.access.contract import SCOPES
from stoa.access.credentials import new_access_token, new_client_secret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.access.queries import DELETE_EXPIRED_TOKENS
from stoa.access.stores import suspend_store
from stoa.app import Application
from stoa.db.pool import Database
from stoa.rest.problems import InvalidToken
from stoa.settings import Settings
from tests.access.tenants import REQUESTED, Tenant, open_tenant, post, token_of
from tests.support.shops import Shop

INACTIVE = {"active": False}


async def introspect(oauth: httpx.AsyncClient, tenant: Tenant, token: str) -> dict[str, object]:
    answer = await post(oauth, "/oauth/introspect", auth=tenant.basic, token=token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def test_an_app_can_introspect_its_own_token(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    found = await introspect(oauth, tenant, await token_of(oauth, tenant))
    issued, expires = found.pop("iat"), found.pop("exp")
    assert isinstance(issued, int)
    assert expires == issued + 3600
    assert found == {
        "active": True,
        "token_type": "Bearer",
        "client_id": tenant.app,
        "sub": tenant.app,
        "scope": " ".join(REQUESTED),
        "iss": "http://service.test",
    }


async def test_a_bound_token_names_its_store(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    found = await introspect(oauth, tenant, await token_of(oauth, tenant, resource=resource))
    assert found["aud"] == f"http://service.test/stores/{tenant.handle}/api/v3/app"


async def test_a_token_shows_the_scopes_in_force_now(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    token = await token_of(oauth, tenant, resource=resource, scope="orders:write")
    assert (await introspect(oauth, tenant, token))["scope"] == "orders:write"
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    assert (await introspect(oauth, tenant, token))["scope"] == "orders:read"


async def test_a_foreign_token_is_inactive(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    other = await open_tenant(operator)
    assert await introspect(oauth, other, await token_of(oauth, tenant)) == INACTIVE


async def test_an_unknown_token_is_inactive(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for text in (new_access_token(), "nonsense", "x" * 5_000, "\x00"):
        assert await introspect(oauth, tenant, text) == INACTIVE


async def test_a_token_that_would_be_refused_is_inactive(
    oauth: httpx.AsyncClient, operator: Operator, db: Database, tenant: Tenant
) -> None:
    bound = await token_of(oauth, tenant, resource=f"http://{tenant.handle}.localhost/api/v3/app")
    free = await token_of(oauth, tenant)
    await suspend_store(operator, tenant.handle)
    assert await introspect(oauth, tenant, bound) == INACTIVE
    await uninstall(operator, tenant.app, tenant.handle)
    assert await introspect(oauth, tenant, bound) == INACTIVE
    assert (await introspect(oauth, tenant, free))["active"] is True
    await suspend_app(operator, tenant.app)
    assert await introspect(oauth, tenant, free) == INACTIVE
    await db.execute("UPDATE tokens SET expires_at = now() WHERE app_id = $1", tenant.secret.app_id)
    assert await introspect(oauth, tenant, free) == INACTIVE


async def test_a_token_of_a_store_is_inactive_after_the_app_was_uninstalled(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    bound = await token_of(oauth, tenant, resource=f"http://{tenant.handle}.localhost/api/v3/app")
    await uninstall(operator, tenant.app, tenant.handle)
    assert await introspect(oauth, tenant, bound) == INACTIVE
    await install(operator, tenant.app, tenant.handle)
    assert await introspect(oauth, tenant, bound) == INACTIVE


async def test_a_token_of_a_missing_store_or_app_is_refused(
    oauth: httpx.AsyncClient, db: Database, settings: Settings, tenant: Tenant
) -> None:
    """Tokens have no foreign keys, because on a cluster they live on the coordinator alone."""
    bound = await token_of(oauth, tenant, resource=f"http://{tenant.handle}.localhost/api/v3/app")
    for change in ("store_id = 0", "store_id = NULL, app_id = 0"):
        await db.execute(f"UPDATE tokens SET {change} WHERE store_id IN (0, $1)", tenant.store.id)
        assert await introspect(oauth, tenant, bound) == INACTIVE
        with pytest.raises(InvalidToken):
            await Admission(db, settings).caller(tenant.store, bound)


async def test_an_app_revokes_its_own_token(
    oauth: httpx.AsyncClient, db: Database, settings: Settings, tenant: Tenant
) -> None:
    token = await token_of(oauth, tenant)
    for hint in ("access_token", "refresh_token", "nonsense"):
        answer = await post(oauth, "/oauth/revoke", auth=tenant.basic, token=token, token_type_hint=hint)
        assert (answer.status_code, answer.content) == (200, b"")
    assert await introspect(oauth, tenant, token) == INACTIVE
    with pytest.raises(InvalidToken):
        await Admission(db, settings).caller(tenant.store, token)


async def test_an_app_cannot_revoke_anothers_token(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    token = await token_of(oauth, tenant)
    other = await open_tenant(operator)
    assert (await post(oauth, "/oauth/revoke", auth=other.basic, token=token)).status_code == 200
    assert (await introspect(oauth, tenant, token))["active"] is True


async def test_revoking_an_unknown_token_is_no_error(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for text in (new_access_token(), "nonsense"):
        assert (await post(oauth, "/oauth/revoke", auth=tenant.basic, token=text)).status_code == 200


@pytest.mark.parametrize("path", ["/oauth/introspect", "/oauth/revoke"])
async def test_both_need_credentials_and_a_token(oauth: httpx.AsyncClient, tenant: Tenant, path: str) -> None:
    missing = await post(oauth, path, auth=tenant.basic)
    assert (missing.status_code, missing.json()["error"]) == (400, "invalid_request")
    for auth in (None, (tenant.app, new_client_secret())):
        answer = await post(oauth, path, auth=auth, token="x")
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_tokens_are_deleted_a_day_after_they_expire(
    oauth: httpx.AsyncClient, db: Database, tenant: Tenant
) -> None:
    await token_of(oauth, tenant)
    for age, left in (("23 hours", 1), ("25 hours", 0)):
        await db.execute(
            f"UPDATE tokens SET expires_at = now() - interval '{age}' WHERE app_id = $1", tenant.secret.app_id
        )
        await DELETE_EXPIRED_TOKENS.run(db)
        rows = await db.fetch("SELECT 1 FROM tokens WHERE app_id = $1", tenant.secret.app_id)
        assert len(rows) == left


# --- metadata ------------------------------------------------------------------------------------------------------


async def test_the_authorization_server_describes_itself(oauth: httpx.AsyncClient) -> None:
    answer = await oauth.get("/.well-known/oauth-authorization-server")
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["issuer"] == "http://service.test"
    assert found["token_endpoint"] == "http://service.test/oauth/token"
    assert found["introspection_endpoint"] == "http://service.test/oauth/introspect"
    assert found["revocation_endpoint"] == "http://service.test/oauth/revoke"
    assert found["grant_types_supported"] == ["client_credentials"]
    assert found["scopes_supported"] == list(SCOPES)
    assert found["token_endpoint_auth_methods_supported"] == [
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
    ]


async def test_the_metadata_satisfies_a_strict_client(oauth: httpx.AsyncClient) -> None:
    found = (await oauth.get("/.well-known/oauth-authorization-server")).json()
    required = {"issuer", "response_types_supported", "token_endpoint"}
    assert required <= found.keys(), "RFC 8414, section 2"
    assert not [name for name, value in found.items() if value in ([], "", None)], "RFC 8414, section 3.2"
    assert found["response_types_supported"] == ["none"]
    assert "authorization_endpoint" not in found
    assert not {"authorization_code", "implicit"} & set(found["grant_types_supported"]), "they would need that endpoint"


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/stores/{handle}/api/v3/app",
    ],
)
async def test_metadata_that_names_the_host_of_the_request_is_not_cached(
    oauth: httpx.AsyncClient, tenant: Tenant, path: str
) -> None:
    answer = await oauth.get(path.format(handle=tenant.handle), headers={"host": "evil.example"})
    assert "evil.example" in answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_metadata_of_the_public_url_can_be_cached(shop: Shop) -> None:
    settings = msgspec.structs.replace(shop.application.settings, public_url="https://stoa.example")
    application = Application(settings)
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        base, store = "/.well-known/oauth-protected-resource", f"/stores/{shop.store.handle}/api/v3/app"
        for path in ("/.well-known/oauth-authorization-server", base + store):
            answer = await client.get(path)
            assert "evil.example" not in answer.text
            assert answer.headers["cache-control"] == "public, max-age=300"
        assert (await client.get(base)).headers["cache-control"] == "no-store"  # depends on the host
    await application.close()


async def test_every_url_in_the_metadata_responds(oauth: httpx.AsyncClient) -> None:
    found = (await oauth.get("/.well-known/oauth-authorization-server")).json()
    for name in ("token_endpoint", "introspection_endpoint", "revocation_endpoint"):
        assert (await oauth.post(found[name])).status_code == 400


async def test_a_store_describes_itself_as_a_resource(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    path = f"/stores/{tenant.handle}/api/v3/app"
    found = (await oauth.get(f"/.well-known/oauth-protected-resource{path}")).json()
    assert found["resource"] == f"http://service.test{path}"
    assert found["authorization_servers"] == ["http://service.test"]
    assert found["bearer_methods_supported"] == ["header"]
    assert found["resource_name"] == "A store"
    below = (await oauth.get(f"/stores/{tenant.handle}/.well-known/oauth-protected-resource")).json()
    assert below == found


async def test_the_host_of_a_store_serves_its_metadata(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    oauth.base_url = httpx.URL(f"http://{tenant.handle}.localhost")
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/v3/app"):
        found = (await oauth.get(path)).json()
        assert found["resource"] == f"http://{tenant.handle}.localhost/api/v3/app"


async def test_the_resource_in_the_metadata_can_be_requested(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    path = f"/.well-known/oauth-protected-resource/stores/{tenant.handle}/api/v3/app"
    resource = (await oauth.get(path)).json()["resource"]
    assert (await post(oauth, auth=tenant.basic, resource=resource)).json()["resource"] == resource


async def test_an_unknown_store_has_no_resource_metadata(oauth: httpx.AsyncClient) -> None:
    base = "/.well-known/oauth-protected-resource"
    assert (await oauth.get(f"{base}/stores/no-such-store/api/v3/app")).status_code == 404
    assert (await oauth.get(f"{base}/api/v3/app")).status_code == 404
    assert (await oauth.get(base)).json()["resource"] == "http://service.test"
