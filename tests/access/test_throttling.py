"""Guessing of secrets is throttled, without locking out a client that is attacked from another address."""

import asyncio

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from stoa.access import audit
from stoa.access.admission import Admission
from stoa.access.authentication import MANY_EVERYWHERE, address_of
from stoa.access.credentials import new_client_id, new_client_secret
from stoa.access.oauth import routes
from stoa.access.queries import COUNT_FAILURE, DELETE_OLD_ATTEMPTS
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import Tenant, post


def oauth_at(app: Starlette, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=(address, 40_000))
    return httpx.AsyncClient(transport=transport, base_url="http://service.test")


def other_address(peer: str) -> str:
    return peer.replace("10.", "11.", 1)


async def guess(oauth: httpx.AsyncClient, client_id: str) -> int:
    return (await post(oauth, auth=(client_id, new_client_secret()))).status_code


async def age_by_a_minute(db: Database, *words: str) -> None:
    for word in words:
        await db.execute(
            "UPDATE failed_attempts SET first_at = first_at - interval '61 seconds' WHERE subject LIKE $1", f"%{word}%"
        )


async def test_after_ten_wrong_secrets_even_the_correct_one_is_refused(
    oauth: httpx.AsyncClient, tenant: Tenant
) -> None:
    assert [await guess(oauth, tenant.app) for _ in range(11)] == [401] * 10 + [429]
    answer = await post(oauth, auth=tenant.basic)
    assert answer.status_code == 429
    assert answer.json()["error"] == "slow_down"
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["content-type"] == "application/json"


async def test_every_worker_counts_the_same_failures(
    oauth: httpx.AsyncClient, peer: str, settings: Settings, tenant: Tenant
) -> None:
    for _ in range(10):
        await guess(oauth, tenant.app)
    other = Database(settings.database_url)
    worker = Starlette(routes=routes(other, Admission(other, settings), settings))
    async with oauth_at(worker, peer) as second:
        assert (await post(second, auth=tenant.basic)).status_code == 429
    await other.close()


async def test_concurrent_guesses_get_at_most_ten_answers(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    statuses = await asyncio.gather(*(guess(oauth, tenant.app) for _ in range(30)))
    assert statuses.count(401) == 10
    assert statuses.count(429) == 20


async def test_an_attacker_at_another_address_does_not_lock_a_client_out(
    oauth: httpx.AsyncClient, token_app: Starlette, peer: str, tenant: Tenant
) -> None:
    for _ in range(11):
        await guess(oauth, tenant.app)
    async with oauth_at(token_app, other_address(peer)) as home:
        assert (await post(home, auth=tenant.basic)).status_code == 200


@pytest.mark.parametrize(
    "sent", [["{client}, 192.0.2.1"], ["{client}", "192.0.2.1"], ["192.0.2.9", "{client}", "192.0.2.1"]]
)
async def test_clients_behind_two_proxies_are_told_apart(settings: Settings, peer: str, sent: list[str]) -> None:
    application, client_id = Application(msgspec.structs.replace(settings, proxies=2)), new_client_id()

    def oauth_of(client: str) -> httpx.AsyncClient:
        headers = [("x-forwarded-for", each.format(client=client)) for each in sent]
        transport = httpx.ASGITransport(application, client=("192.0.2.2", 40_000))
        return httpx.AsyncClient(transport=transport, base_url="http://service.test", headers=headers)

    async with oauth_of(peer) as attacker, oauth_of(other_address(peer)) as home:
        assert [await guess(attacker, client_id) for _ in range(11)] == [401] * 10 + [429]
        assert await guess(home, client_id) == 401
    await application.close()


async def test_a_client_under_distributed_attack_is_served_and_new_addresses_get_one_attempt(
    token_app: Starlette, db: Database, peer: str, tenant: Tenant
) -> None:
    for _ in range(MANY_EVERYWHERE):
        await COUNT_FAILURE.all(db, [f"{tenant.app} anywhere"])
    async with oauth_at(token_app, peer) as home:
        assert (await post(home, auth=tenant.basic)).status_code == 200
    async with oauth_at(token_app, other_address(peer)) as newcomer:
        assert [await guess(newcomer, tenant.app) for _ in range(3)] == [401, 429, 429]


async def test_an_address_that_tries_many_clients_is_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    assert [await guess(oauth, new_client_id()) for _ in range(50)] == [401] * 50
    assert await guess(oauth, new_client_id()) == 429
    assert (await post(oauth, auth=tenant.basic)).status_code == 429


async def test_a_success_does_not_reset_the_count(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for _ in range(9):
        await guess(oauth, tenant.app)
    assert (await post(oauth, auth=tenant.basic)).status_code == 200
    assert await guess(oauth, tenant.app) == 401
    assert (await post(oauth, auth=tenant.basic)).status_code == 429


async def test_after_a_minute_the_client_may_try_again(
    oauth: httpx.AsyncClient, db: Database, peer: str, tenant: Tenant
) -> None:
    for _ in range(11):
        await guess(oauth, tenant.app)
    await age_by_a_minute(db, peer, tenant.app)
    assert await guess(oauth, tenant.app) == 401
    assert (await post(oauth, auth=tenant.basic)).status_code == 200


async def test_introspection_and_revocation_are_throttled_too(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for path in ("/oauth/introspect", "/oauth/revoke") * 5:
        assert (await post(oauth, path, auth=(tenant.app, "wrong"), token="x")).status_code == 401
    assert (await post(oauth, "/oauth/introspect", auth=tenant.basic, token="x")).status_code == 429


async def test_reaching_the_limit_is_recorded_once(
    oauth: httpx.AsyncClient, db: Database, peer: str, tenant: Tenant
) -> None:
    for _ in range(15):
        await guess(oauth, tenant.app)
    entries = [
        entry
        for entry in await audit.newest(db, audit.SERVICE, 10_000)
        if entry.action == "access.throttled" and entry.subject == f"client:{tenant.app}"
    ]
    assert [entry.actor for entry in entries] == [f"address:{peer}"]
    assert await audit.verify(db, audit.SERVICE) is None


async def test_requests_without_credentials_do_not_count_as_failures(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for _ in range(12):
        await post(oauth, client_id=tenant.app)
    assert (await post(oauth, auth=tenant.basic)).status_code == 200


async def test_hostile_client_ids_are_counted_together(oauth: httpx.AsyncClient) -> None:
    statuses = [(await post(oauth, client_id=f"\x00{n}" + "x" * 500, client_secret="s")).status_code for n in range(11)]
    assert statuses == [401] * 10 + [429]


async def test_old_failures_are_deleted(oauth: httpx.AsyncClient, db: Database, peer: str, tenant: Tenant) -> None:
    await guess(oauth, tenant.app)
    await age_by_a_minute(db, peer)
    await DELETE_OLD_ATTEMPTS.run(db)
    rows = await db.fetch("SELECT subject FROM failed_attempts WHERE subject LIKE $1", f"%at {peer}")
    assert rows == []


def test_ipv6_callers_are_counted_by_their_network() -> None:
    assert address_of("2001:db8:1:2:3::1") == address_of("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert address_of("2001:db8:1:3::1") != address_of("2001:db8:1:2::1")
    assert address_of("fe80::1%eth0") == "fe80::/64"
    assert address_of("::ffff:10.0.0.1") == address_of("10.0.0.1") == "10.0.0.1"
    assert address_of("") == address_of("nonsense") == "unknown"
