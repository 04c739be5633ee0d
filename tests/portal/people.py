"""People for tests: accounts made the way the service makes them, each with a browser of its own."""

import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import httpx

from stoa.access.operator import Operator
from stoa.accounts.contract import Account
from stoa.accounts.passwords import hashed
from stoa.accounts.queries import CREATE_ACCOUNT, GET_ACCOUNT
from stoa.accounts.sessions import find_session, open_session
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings

PASSWORD = "a walk in the painted porch"
HOST = "http://testserver"
FROM_HERE = {"origin": HOST, "sec-fetch-site": "same-origin"}
_numbers = itertools.count(1)
_hashes: list[str] = []
_TOKEN = re.compile(r'name="_token" value="([^"]+)"')
_FAULT = re.compile(r'<p class="fault" [^>]*data-field="([^"]+)">.*?</svg>(.*?)</p>', re.DOTALL)
_BANNER = re.compile(r'<div class="notice bad" role="alert">.*?<p>(.*?)</p>', re.DOTALL)
_NOTICE = re.compile(r'<div role="status"><div class="notice (\w*)">.*?<p>(.*?)</p>', re.DOTALL)


def new_email() -> str:
    return f"person-{os.getpid()}-{next(_numbers)}@example.com"


def new_peer() -> str:
    """An address that nobody else calls from, so that nobody else's failed tries count."""
    number = next(_numbers)
    return f"10.{os.getpid() % 250}.{number // 250 % 250}.{number % 250}"


def as_operator(db: Database, settings: Settings) -> Operator:
    return Operator(db, settings, actor="operator:tests", request_id="req_tests")


def browser(application: Application, *, peer: str = "") -> httpx.AsyncClient:
    """A browser without script: it keeps cookies and says where its forms come from."""
    transport = httpx.ASGITransport(application, raise_app_exceptions=True, client=(peer or new_peer(), 40_000))
    return httpx.AsyncClient(transport=transport, base_url=HOST, headers={"accept-encoding": "identity"})


@dataclass
class Visitor:
    """A browser, and what was last seen in it."""

    client: httpx.AsyncClient
    seen: httpx.Response = field(default_factory=lambda: httpx.Response(200))

    async def open(self, path: str) -> httpx.Response:
        self.seen = await self.client.get(path, follow_redirects=True)
        return self.seen

    @property
    def text(self) -> str:
        return unescape(self.seen.text)

    @property
    def path(self) -> str:
        return self.seen.url.path

    @property
    def token(self) -> str:
        found = _TOKEN.search(self.seen.text)
        assert found, "the page has no form"
        return unescape(found[1])

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong, by field, as the page says it."""
        found = {name: words.strip() for name, words in _FAULT.findall(self.text)}
        banner = _BANNER.search(self.text)
        return found | ({"": banner[1].strip()} if banner else {})

    @property
    def notice(self) -> str:
        found = _NOTICE.search(self.text)
        return found[2].strip() if found else ""

    @property
    def tone(self) -> str:
        """How the notice is said."""
        found = _NOTICE.search(self.text)
        return found[1] if found else ""

    async def send(self, path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """Send a form from the page that is open, as a browser does, and go where it leads."""
        data: dict[str, Any] = {"_token": self.token, **(fields or {}), **more}
        self.seen = await self.client.post(path, data=data, headers=FROM_HERE, follow_redirects=True)
        return self.seen


@dataclass
class Somebody:
    """A person with an account, signed in."""

    application: Application
    account: Account
    session_id: int
    visitor: Visitor

    @property
    def email(self) -> str:
        return self.account.email

    @property
    def client(self) -> httpx.AsyncClient:
        return self.visitor.client

    @property
    def seen(self) -> httpx.Response:
        return self.visitor.seen

    @property
    def text(self) -> str:
        return self.visitor.text

    @property
    def path(self) -> str:
        return self.visitor.path

    @property
    def faults(self) -> dict[str, str]:
        return self.visitor.faults

    @property
    def notice(self) -> str:
        return self.visitor.notice

    @property
    def tone(self) -> str:
        return self.visitor.tone

    async def open(self, path: str) -> httpx.Response:
        return await self.visitor.open(path)

    async def send(self, path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        return await self.visitor.send(path, fields, **more)


async def somebody(
    application: Application, db: Database, *, operator: bool = False, peer: str = "", name: str = "Maria Stone"
) -> Somebody:
    """A new account with a session; signing in by password has its own tests."""
    if not _hashes:
        _hashes.append(await hashed(PASSWORD))  # once for all: it is slow on purpose
    account_id = await CREATE_ACCOUNT.one(db, new_email(), name, _hashes[0], operator)
    account = await GET_ACCOUNT.one(db, account_id)
    return await signed_in(application, db, account, peer=peer)


async def signed_in(application: Application, db: Database, account: Account, *, peer: str = "") -> Somebody:
    """Another browser of the same person."""
    by = as_operator(db, application.settings)
    opened = await open_session(by, db, account.id, complete=True, peer="127.0.0.1", agent="Tests")
    found = await find_session(db, by.key, opened.token)
    assert found is not None
    client = browser(application, peer=peer)
    client.cookies.set("stoa_session", opened.token, domain="testserver.local")
    return Somebody(application, account, found.session_id, Visitor(client))
