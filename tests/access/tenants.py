"""Stores with an installed app, under names that no other test uses."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from stoa.access import audit
from stoa.access.apps import create_app
from stoa.access.contract import NewSecret, StoreRow
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.db.pool import Database
from stoa.rest.call import Store
from tests.support.databases import sharded_runs
from tests.support.sharded import NAME

REQUESTED = ["products:read", "products:write", "orders:read", "orders:write"]
_numbers = itertools.count(1)


@dataclass
class Tenant:
    """A store and an app with its credentials."""

    row: StoreRow
    secret: NewSecret

    @property
    def handle(self) -> str:
        return self.row.handle

    @property
    def store(self) -> Store:
        return Store(self.row.id, self.row.handle, self.row.name, self.row.currency, self.row.status)

    @property
    def app(self) -> str:
        return self.secret.client_id

    @property
    def basic(self) -> tuple[str, str]:
        return self.secret.client_id, self.secret.client_secret


def new_handle() -> str:
    return f"tenant-{os.getpid()}-{next(_numbers)}"


async def open_store(operator: Operator, hosts: Sequence[str] = ()) -> StoreRow:
    return await create_store(operator, new_handle(), "A store", "EUR", hosts, shard=NAME if sharded_runs else "")


async def open_tenant(operator: Operator, scopes: Sequence[str] = REQUESTED) -> Tenant:
    row = await open_store(operator)
    secret = await create_app(operator, "An app", scopes)
    await install(operator, secret.client_id, row.handle)
    return Tenant(row, secret)


async def post(
    oauth: httpx.AsyncClient, path: str = "/oauth/token", *, auth: tuple[str, str] | None = None, **form: str
) -> httpx.Response:
    """Send a form to an OAuth endpoint, by default a valid token request."""
    fields = {"grant_type": "client_credentials", **form} if path.endswith("/token") else form
    return await oauth.post(path, data=fields, auth=auth or httpx.USE_CLIENT_DEFAULT)


async def token_of(oauth: httpx.AsyncClient, tenant: Tenant, **form: str) -> str:
    answer = await post(oauth, auth=tenant.basic, **form)
    assert answer.status_code == 200, answer.text
    return answer.json()["access_token"]


def refused(answer: httpx.Response, status: int, error: str) -> str:
    """Check an error response as defined in RFC 6749; returns its description."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert set(body) == {"error", "error_description"}
    assert body["error"] == error
    return body["error_description"]


async def actions(db: Database, store_id: int) -> list[str]:
    """The actions in a store's audit chain, oldest first."""
    return [entry.action for entry in reversed(await audit.newest(db, store_id, 1_000))]


async def about_app(db: Database, tenant: Tenant) -> list[str]:
    """The actions on one app in the service's audit chain, oldest first."""
    entries = reversed(await audit.newest(db, audit.SERVICE, 10_000))
    return [entry.action for entry in entries if entry.subject == f"app:{tenant.secret.app_id}"]
