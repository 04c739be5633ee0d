"""A request to a store that a worker has not been asked for lately: its store, its caller and its rate limit in one statement."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

import httpx
import pytest

from stoa.access.admission import TTL_S, Admission
from stoa.access.credentials import new_access_token
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.rest.limits import RateLimiter
from stoa.rest.problems import AppNotInstalled, InvalidToken, Refusal
from stoa.settings import Settings
from tests.access.tenants import Tenant, new_handle, open_store, open_tenant, token_of
from tests.access.test_admission import REVOCATIONS
from tests.support.databases import PATIENCE_S

pytestmark = pytest.mark.not_in_shard("with shards, the store, the token and the grant are looked up one by one")


class CountingDatabase(Database):
    """A database that counts its statements."""

    statements = 0

    async def fetch(self, sql: str, *args: object):  # noqa: ANN201 - as the parent
        self.statements += 1
        return await super().fetch(sql, *args)


class Worker:
    """What a worker process keeps in its memory."""

    def __init__(self, settings: Settings) -> None:
        self.db = CountingDatabase(settings.database_url)
        self.admission = Admission(self.db, settings)
        self.limiter = RateLimiter(self.db)

    async def arrive(self, token: str, *, handle: str = "", host: str = ""):  # noqa: ANN201 - as Admission.store
        headers = {b"authorization": f"Bearer {token}".encode()}
        return await self.admission.store(handle=handle, host=host, headers=headers, limiter=self.limiter)


@pytest.fixture
async def worker(settings: Settings) -> AsyncIterator[Worker]:
    made = Worker(settings)
    yield made
    await made.db.close()


@pytest.fixture
async def token(oauth: httpx.AsyncClient, tenant: Tenant) -> str:
    return await token_of(oauth, tenant)


async def tokens_left(db: Database, tenant: Tenant) -> float | None:
    """What the rate limit has left; None if nothing was taken from it."""
    rows = await db.fetch("SELECT tokens FROM rate_buckets WHERE store_id = $1", tenant.row.id)
    return rows[0][0] if rows else None


@pytest.mark.parametrize("by_host", [False, True])
async def test_one_statement_finds_the_store_the_caller_and_a_token_of_the_rate_limit(
    by_host: bool, worker: Worker, settings: Settings, db: Database, tenant: Tenant, token: str
) -> None:
    handle, host = ("", f"{tenant.handle}.localhost:8000") if by_host else (tenant.handle, "")
    store = await worker.arrive(token, handle=handle, host=host)
    assert store is not None
    caller = await worker.admission.caller(store, token)
    allowance = await worker.limiter.take(store.id, caller.app_id, 1, caller.burst, caller.refill)
    assert allowance.allowed
    assert allowance.remaining == settings.rate_burst - 1
    assert worker.db.statements == 1
    assert await worker.arrive(token, handle=handle, host=host) is store, "it is cached"
    other = Admission(db, settings)
    assert store == await other.store(handle=handle, host=host)
    assert caller == await other.caller(store, token)


async def test_requests_that_arrive_together_share_the_statement(
    worker: Worker, db: Database, settings: Settings, tenant: Tenant, token: str
) -> None:
    stores = await asyncio.gather(*(worker.arrive(token, handle=tenant.handle) for _ in range(8)))
    assert len({id(store) for store in stores}) == 1
    assert worker.db.statements == 1
    assert await tokens_left(db, tenant) == settings.rate_burst - 1


async def test_an_installation_with_its_own_limits_is_taken_from_by_them(
    worker: Worker, db: Database, operator: Operator, tenant: Tenant, token: str
) -> None:
    await install(operator, tenant.app, tenant.handle, rate_burst=7, rate_refill=3)
    store = await worker.arrive(token, handle=tenant.handle)
    assert store is not None
    assert await tokens_left(db, tenant) == 6
    caller = await worker.admission.caller(store, token)
    assert (await worker.limiter.take(store.id, caller.app_id, 1, 7, 3)).remaining == 6


async def test_an_empty_bucket_refuses_an_arrival(
    worker: Worker, db: Database, operator: Operator, tenant: Tenant, token: str
) -> None:
    await install(operator, tenant.app, tenant.handle, rate_burst=1, rate_refill=1)
    await db.execute(
        """INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at)
           VALUES ($1, $2, 'requests', 1, -100, now())""",
        tenant.row.id,
        tenant.secret.app_id,
    )
    store = await worker.arrive(token, handle=tenant.handle)
    assert store is not None
    assert not (await worker.limiter.take(store.id, tenant.secret.app_id, 1, 1, 1)).allowed


@pytest.mark.parametrize("revocation", REVOCATIONS)
async def test_a_refused_caller_takes_nothing_from_the_rate_limit(
    revocation: str, worker: Worker, db: Database, operator: Operator, tenant: Tenant, token: str
) -> None:
    revoke, expected = REVOCATIONS[revocation]
    await revoke(operator, tenant, token)
    store = await worker.arrive(token, handle=tenant.handle)
    assert store is not None
    with pytest.raises(Refusal) as caught:
        await worker.admission.caller(store, token)
    assert caught.type is expected
    assert await tokens_left(db, tenant) is None


@pytest.mark.parametrize("revocation", REVOCATIONS)
async def test_a_revocation_takes_effect_within_a_second_of_an_arrival(
    revocation: str, worker: Worker, operator: Operator, tenant: Tenant, token: str
) -> None:
    store = await worker.arrive(token, handle=tenant.handle)
    assert store is not None
    revoke, expected = REVOCATIONS[revocation]
    await revoke(operator, tenant, token)
    refused_by = monotonic() + TTL_S
    caught: type[Refusal] | None = None
    while caught is None and monotonic() < refused_by + PATIENCE_S:
        asked_at = monotonic()
        try:
            await worker.admission.caller(store, token)
            assert asked_at < refused_by, "it is still admitted"
        except Refusal as refusal:
            caught = type(refusal)
        await asyncio.sleep(0.01)
    assert caught is expected


async def test_the_token_of_an_app_that_is_not_installed_finds_the_store(
    worker: Worker, db: Database, operator: Operator, token: str
) -> None:
    other = await open_tenant(operator)
    store = await worker.arrive(token, handle=other.handle)
    assert store is not None
    with pytest.raises(AppNotInstalled):
        await worker.admission.caller(store, token)
    assert await tokens_left(db, other) is None


async def test_a_token_of_nobody_finds_the_store(worker: Worker, tenant: Tenant) -> None:
    nobody = new_access_token()
    store = await worker.arrive(nobody, handle=tenant.handle)
    assert store is not None
    with pytest.raises(InvalidToken):
        await worker.admission.caller(store, nobody)


async def test_a_token_finds_no_store_that_does_not_exist(worker: Worker, operator: Operator, token: str) -> None:
    handle = new_handle()
    assert await worker.arrive(token, handle=handle) is None
    assert await worker.arrive(token, handle="\x00") is None
    assert await worker.arrive(token, host="127.0.0.1:8000") is None
    assert await worker.arrive(token, handle=(await open_store(operator)).handle) is not None
