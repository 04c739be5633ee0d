"""Stores, apps and a token endpoint of each test's own."""

import itertools
import os
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

_peers = itertools.count(1)


@pytest.fixture
def operator(db: Database, settings: Settings) -> Operator:
    return Operator(db, settings, actor="operator:maria", request_id="req_access_tests")


@pytest.fixture
def peer() -> str:
    """An address that no other test calls from, so that nobody else's failed tries count here."""
    number = next(_peers)
    return f"10.{os.getpid() % 250}.{number // 250}.{number % 250}"


@pytest.fixture
def token_app(db: Database, settings: Settings) -> Starlette:
    """The token endpoints at the service's root and below each store, and nothing else."""
    tokens = routes(db, Admission(db, settings), settings)
    return Starlette(routes=[*tokens, Mount("/stores/{handle}", routes=tokens)])


@pytest.fixture
async def desk(token_app: Starlette, peer: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(token_app, client=(peer, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        yield client


@pytest.fixture
async def tenant(operator: Operator) -> Tenant:
    """A store with an app on it that may read and write products and orders."""
    return await open_tenant(operator)
