"""What happens to a token after it was issued: introspection, revocation; and how programs find all of it."""

import httpx
import pytest

from stoa.access.admission import Admission
from stoa.access.apps import suspend_app
from stoa.access.contract import SCOPES
from stoa.access.credentials import new_access_token, new_client_secret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.access.queries import FORGET_OLD_TOKENS
from stoa.access.stores import suspend_store
from stoa.db.pool import Database
from stoa.rest.problems import InvalidToken
from stoa.settings import Settings
from tests.access.tenants import ASKED, Tenant, ask, open_tenant, token_of

INACTIVE = {"active": False}


async def introspect(desk: httpx.AsyncClient, tenant: Tenant, token: str) -> dict[str, object]:
    answer = await ask(desk, "/oauth/introspect", auth=tenant.basic, token=token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def test_an_app_learns_all_about_its_own_token(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    found = await introspect(desk, tenant, await token_of(desk, tenant))
    issued, expires = found.pop("iat"), found.pop("exp")
    assert isinstance(issued, int)
    assert expires == issued + 3600
    assert found == {
        "active": True,
        "token_type": "Bearer",
        "client_id": tenant.app,
        "sub": tenant.app,
        "scope": " ".join(ASKED),
        "iss": "http://service.test",
    }


async def test_a_bound_token_says_where_it_serves(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    found = await introspect(desk, tenant, await token_of(desk, tenant, resource=resource))
    assert found["aud"] == f"http://service.test/stores/{tenant.handle}/api/v3/app"


async def test_a_token_shows_the_scopes_in_force_now(
    desk: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    token = await token_of(desk, tenant, resource=resource, scope="orders:write")
    assert (await introspect(desk, tenant, token))["scope"] == "orders:write"
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    assert (await introspect(desk, tenant, token))["scope"] == "orders:read"


async def test_a_foreign_token_is_inactive(desk: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    other = await open_tenant(operator)
    assert await introspect(desk, other, await token_of(desk, tenant)) == INACTIVE


async def test_an_unknown_token_is_inactive(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    for text in (new_access_token(), "nonsense", "x" * 5_000, "\x00"):
        assert await introspect(desk, tenant, text) == INACTIVE


async def test_a_token_that_would_be_refused_is_inactive(
    desk: httpx.AsyncClient, operator: Operator, db: Database, tenant: Tenant
) -> None:
    bound = await token_of(desk, tenant, resource=f"http://{tenant.handle}.localhost/api/v3/app")
    free = await token_of(desk, tenant)
    await suspend_store(operator, tenant.handle)
    assert await introspect(desk, tenant, bound) == INACTIVE
    await uninstall(operator, tenant.app, tenant.handle)
    assert await introspect(desk, tenant, bound) == INACTIVE
    assert (await introspect(desk, tenant, free))["active"] is True
    await suspend_app(operator, tenant.app)
    assert await introspect(desk, tenant, free) == INACTIVE
    await db.execute("UPDATE tokens SET expires_at = now() WHERE app_id = $1", tenant.secret.app_id)
    assert await introspect(desk, tenant, free) == INACTIVE


async def test_an_app_revokes_its_own_token(
    desk: httpx.AsyncClient, db: Database, settings: Settings, tenant: Tenant
) -> None:
    token = await token_of(desk, tenant)
    for hint in ("access_token", "refresh_token", "nonsense"):
        answer = await ask(desk, "/oauth/revoke", auth=tenant.basic, token=token, token_type_hint=hint)
        assert (answer.status_code, answer.content) == (200, b"")
    assert await introspect(desk, tenant, token) == INACTIVE
    with pytest.raises(InvalidToken):
        await Admission(db, settings).caller(tenant.store, token)


async def test_an_app_cannot_revoke_anothers_token(desk: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    token = await token_of(desk, tenant)
    other = await open_tenant(operator)
    assert (await ask(desk, "/oauth/revoke", auth=other.basic, token=token)).status_code == 200
    assert (await introspect(desk, tenant, token))["active"] is True


async def test_revoking_what_is_no_token_is_no_error(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    for text in (new_access_token(), "nonsense"):
        assert (await ask(desk, "/oauth/revoke", auth=tenant.basic, token=text)).status_code == 200


@pytest.mark.parametrize("path", ["/oauth/introspect", "/oauth/revoke"])
async def test_both_need_credentials_and_a_token(desk: httpx.AsyncClient, tenant: Tenant, path: str) -> None:
    missing = await ask(desk, path, auth=tenant.basic)
    assert (missing.status_code, missing.json()["error"]) == (400, "invalid_request")
    for auth in (None, (tenant.app, new_client_secret())):
        answer = await ask(desk, path, auth=auth, token="x")
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_tokens_are_forgotten_a_day_after_their_end(
    desk: httpx.AsyncClient, db: Database, tenant: Tenant
) -> None:
    await token_of(desk, tenant)
    for age, left in (("23 hours", 1), ("25 hours", 0)):
        await db.execute(
            f"UPDATE tokens SET expires_at = now() - interval '{age}' WHERE app_id = $1", tenant.secret.app_id
        )
        await FORGET_OLD_TOKENS.run(db)
        rows = await db.fetch("SELECT 1 FROM tokens WHERE app_id = $1", tenant.secret.app_id)
        assert len(rows) == left


# --- metadata ------------------------------------------------------------------------------------------------------


async def test_the_authorization_server_describes_itself(desk: httpx.AsyncClient) -> None:
    answer = await desk.get("/.well-known/oauth-authorization-server")
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["issuer"] == "http://service.test"
    assert found["token_endpoint"] == "http://service.test/oauth/token"
    assert found["introspection_endpoint"] == "http://service.test/oauth/introspect"
    assert found["revocation_endpoint"] == "http://service.test/oauth/revoke"
    assert found["grant_types_supported"] == ["client_credentials"]
    assert found["response_types_supported"] == []
    assert found["scopes_supported"] == list(SCOPES)
    assert found["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post"]


async def test_every_address_in_the_metadata_answers(desk: httpx.AsyncClient) -> None:
    found = (await desk.get("/.well-known/oauth-authorization-server")).json()
    for name in ("token_endpoint", "introspection_endpoint", "revocation_endpoint"):
        assert (await desk.post(found[name])).status_code == 400


async def test_a_store_describes_itself_as_a_resource(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    path = f"/stores/{tenant.handle}/api/v3/app"
    found = (await desk.get(f"/.well-known/oauth-protected-resource{path}")).json()
    assert found["resource"] == f"http://service.test{path}"
    assert found["authorization_servers"] == ["http://service.test"]
    assert found["bearer_methods_supported"] == ["header"]
    assert found["resource_name"] == "A store"
    below = (await desk.get(f"/stores/{tenant.handle}/.well-known/oauth-protected-resource")).json()
    assert below == found


async def test_a_stores_host_describes_it_too(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    desk.base_url = httpx.URL(f"http://{tenant.handle}.localhost")
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/v3/app"):
        found = (await desk.get(path)).json()
        assert found["resource"] == f"http://{tenant.handle}.localhost/api/v3/app"


async def test_a_resource_that_the_metadata_names_can_be_asked_for(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    path = f"/.well-known/oauth-protected-resource/stores/{tenant.handle}/api/v3/app"
    resource = (await desk.get(path)).json()["resource"]
    assert (await ask(desk, auth=tenant.basic, resource=resource)).json()["resource"] == resource


async def test_no_store_has_no_resource_metadata(desk: httpx.AsyncClient) -> None:
    base = "/.well-known/oauth-protected-resource"
    assert (await desk.get(f"{base}/stores/no-such-store/api/v3/app")).status_code == 404
    assert (await desk.get(f"{base}/api/v3/app")).status_code == 404
    assert (await desk.get(base)).json()["resource"] == "http://service.test"
