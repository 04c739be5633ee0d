"""While a worker is away, tokens are issued, introspected, revoked and used, except for the stores of that worker."""

from typing import Any

import httpx
import pytest
from tests.cluster.conftest import Cluster, needs_cluster
from tests.support.shops import Shop, api_client

from stoa.access.credentials import new_client_secret


async def post(shop: Shop, path: str, secret: str = "", **form: str) -> httpx.Response:
    """Send a form to a token endpoint as the app of this shop."""
    return await shop.service.post(path, data=form, auth=(shop.client_id, secret or shop.client_secret))


async def issue(shop: Shop, *, bound: bool, secret: str = "") -> httpx.Response:
    resource = {"resource": f"http://testserver/stores/{shop.store.handle}/api/v3/app"} if bound else {}
    return await post(shop, "/oauth/token", secret, grant_type="client_credentials", **resource)


async def introspect(shop: Shop, token: str) -> Any:
    answer = await post(shop, "/oauth/introspect", token=token)
    return answer.json().get("active", answer.status_code)


async def status(shop: Shop, token: str) -> int:
    """The status of a request to the store of this shop, by a client that has asked for nothing before."""
    async with api_client(shop.application, shop.store.handle, token) as client:
        return (await client.get("/products")).status_code


@needs_cluster
@pytest.mark.timeout(300)
async def test_a_node_that_is_away_costs_no_tokens_but_those_of_its_own_stores(cluster: Cluster) -> None:
    near, far = [await cluster.shop_on(worker) for worker in cluster.workers]
    before = (await issue(far, bound=True)).json()["access_token"]
    await cluster.proxy.shut()
    for bound in (False, True):
        answer = await issue(near, bound=bound)
        assert answer.status_code == 200, answer.text
        token = answer.json()["access_token"]
        assert await status(near, token) == 200
        assert await introspect(near, token) is True
        assert (await post(near, "/oauth/revoke", token=token)).status_code == 200
        assert await introspect(near, token) is False

    free = await issue(far, bound=False)
    assert free.status_code == 200, free.text
    assert await introspect(far, free.json()["access_token"]) is True
    assert await status(far, free.json()["access_token"]) == 503
    refused = await issue(far, bound=True)
    assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")
    assert await introspect(far, before) == 503
    assert (await issue(far, bound=True, secret=new_client_secret())).status_code == 401
    [[failures]] = await cluster.db.fetch(
        "SELECT sum(failures)::bigint FROM failed_attempts WHERE subject = $1", f"{far.client_id} anywhere"
    )
    assert failures == 1
    assert (await post(far, "/oauth/revoke", token=before)).status_code == 200
    assert await introspect(far, before) is False
