"""Tokens bound to one store, by the URL of the token endpoint or by a resource indicator."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from stoa.access.admission import Admission
from stoa.access.apps import suspend_app
from stoa.access.grants import install, uninstall
from stoa.access.oauth import routes
from stoa.access.operator import Operator
from stoa.access.stores import suspend_store
from stoa.db.pool import Database
from stoa.settings import Settings, load
from tests.access.tenants import Tenant, new_handle, open_store, post, refused

FORM = {"content-type": "application/x-www-form-urlencoded"}


async def test_a_resource_binds_the_token_in_either_form(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for resource in (
        f"http://service.test/stores/{tenant.handle}/api/v3/app",
        f"http://{tenant.handle}.localhost/api/v3/app",
        f"https://{tenant.handle}.localhost:8443/api/v3/app",
    ):
        answer = await post(oauth, auth=tenant.basic, resource=resource)
        assert answer.json()["resource"] == resource


async def test_a_custom_host_is_a_valid_resource(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    host = f"{new_handle()}.example.org"
    store = await open_store(operator, [host])
    await install(operator, tenant.app, store.handle)
    answer = await post(oauth, auth=tenant.basic, resource=f"https://{host}/api/v3/app")
    assert answer.json()["resource"] == f"https://{host}/api/v3/app"


async def test_the_path_implies_the_store(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic)
    assert answer.json()["resource"] == f"http://service.test/stores/{tenant.handle}/api/v3/app"


async def test_a_stores_host_implies_the_store(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    oauth.base_url = httpx.URL(f"http://{tenant.handle}.localhost:8000")
    assert (await post(oauth, auth=tenant.basic)).json()[
        "resource"
    ] == f"http://{tenant.handle}.localhost:8000/api/v3/app"


async def test_an_unknown_host_implies_no_store(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    oauth.base_url = httpx.URL("http://no-such-store.localhost")
    assert "resource" not in (await post(oauth, auth=tenant.basic)).json()


async def test_the_url_and_the_resource_may_name_the_same_store(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic, resource=resource)
    assert answer.json()["resource"] == resource


async def test_a_url_and_a_resource_of_different_stores_are_refused(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    other = await open_store(operator)
    await install(operator, tenant.app, other.handle)
    resource = f"http://{other.handle}.localhost/api/v3/app"
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic, resource=resource)
    refused(answer, 400, "invalid_target")


@pytest.mark.parametrize(
    "resource",
    [
        "http://service.test/stores/no-such-store/api/v3/app",
        "http://no-such-store.localhost/api/v3/app",
        "http://elsewhere.test/stores/{handle}/api/v3/app",
        "http://service.test/stores/{handle}",
        "{handle}",
    ],
)
async def test_a_resource_that_is_not_a_store_of_this_service_is_refused(
    oauth: httpx.AsyncClient, tenant: Tenant, resource: str
) -> None:
    answer = await post(oauth, auth=tenant.basic, resource=resource.replace("{handle}", tenant.handle))
    refused(answer, 400, "invalid_target")


async def test_a_path_of_an_unknown_store_is_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for handle in ("no-such-store", "%00", "NO"):
        refused(await post(oauth, f"/stores/{handle}/oauth/token", auth=tenant.basic), 400, "invalid_target")


async def test_two_resources_are_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    one = f"http://{tenant.handle}.localhost/api/v3/app"
    body = f"grant_type=client_credentials&resource={one}&resource={one}"
    refused(await oauth.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic), 400, "invalid_target")


async def test_an_app_gets_no_token_for_a_store_on_which_it_is_not_installed(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    await uninstall(operator, tenant.app, tenant.handle)
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic)
    assert "not installed" in refused(answer, 400, "unauthorized_client")


async def test_no_token_is_bound_to_a_suspended_store(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    await suspend_store(operator, tenant.handle)
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic)
    assert "suspended" in refused(answer, 400, "unauthorized_client")


async def test_a_suspended_app_gets_no_token(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    await suspend_app(operator, tenant.app)
    assert "suspended" in refused(await post(oauth, auth=tenant.basic), 400, "unauthorized_client")


async def test_path_resources_start_with_the_public_url(db: Database, settings: Settings, tenant: Tenant) -> None:
    public = load({}, secret_key=settings.secret_key, public_url="https://api.example.com")
    tokens = routes(db, Admission(db, public), public)
    app = Starlette(routes=[*tokens, Mount("/stores/{handle}", routes=tokens)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://10.0.0.1") as oauth:
        resource = f"https://api.example.com/stores/{tenant.handle}/api/v3/app"
        assert (await post(oauth, auth=tenant.basic, resource=resource)).json()["resource"] == resource
        implied = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic)
        assert implied.json()["resource"] == resource
