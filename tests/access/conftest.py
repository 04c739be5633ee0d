"""Stores, apps and OAuth endpoints for each test."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from stoa.access.admission import Admission
from stoa.access.oauth import routes
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import Tenant, open_tenant
from tests.support.databases import directory_of, sharded_runs
from tests.support.people import new_peer
from tests.support.shops import operator_of


@pytest.fixture
def operator(db: Database, settings: Settings) -> Operator:
    return operator_of(db, settings, actor="operator:maria", request_id="req_access_tests")


@pytest.fixture
def peer() -> str:
    """A client address that no other test uses, so that other tests' failed attempts do not count."""
    return new_peer()


@pytest.fixture
def token_app(db: Database, settings: Settings) -> Starlette:
    """Only the OAuth endpoints, at the root of the service and under each store."""
    directory, shards = directory_of(db), sharded_runs.get(db.url)
    tokens = routes(directory, Admission(directory, settings, shards), settings, shards)
    return Starlette(routes=[*tokens, Mount("/stores/{handle}", routes=tokens)])


@pytest.fixture
async def oauth(token_app: Starlette, peer: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(token_app, client=(peer, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        yield client


@pytest.fixture
async def tenant(operator: Operator) -> Tenant:
    """A store with an app that may read and write products and orders."""
    return await open_tenant(operator)
