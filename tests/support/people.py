"""Portal users for tests: accounts with sessions, each with its own browser, and fixtures for them."""

import itertools
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import httpx
import msgspec
import pytest

from stoa.access.operator import Operator
from stoa.accounts.contract import Account
from stoa.accounts.passwords import hash_password
from stoa.accounts.queries import CREATE_ACCOUNT, GET_ACCOUNT
from stoa.accounts.sessions import find_session, open_session
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.databases import directory_of, migrated_database
from tests.support.shops import operator_of

PASSWORD = "a walk in the painted porch"
HOST = "http://testserver"
SAME_ORIGIN = {"origin": HOST, "sec-fetch-site": "same-origin"}
_numbers = itertools.count(1)
_hashes: list[str] = []
_TOKEN = re.compile(r'name="_token" value="([^"]+)"')
_VERBATIM = re.compile(r"(<pre\b.*?</pre>|<textarea\b.*?</textarea>)", re.DOTALL)
_BLOCK = re.compile(
    r" ?(</?(?:d[dlt]|div|form|h[1-6]|header|li|main|nav|option|p|section|t[dhr]|tbody|thead|table|[ou]l)\b[^>]*>) ?"
)
_FAULT = re.compile(r'<p class="fault" [^>]*data-field="([^"]+)"[^>]*>.*?</svg>(.*?)</p>', re.DOTALL)
_FORM_FAULT = re.compile(r'<div class="notice bad" role="alert">.*?<p>(.*?)</p>', re.DOTALL)
_NOTICE = re.compile(r'<div role="status"><div class="notice (\w*)">.*?<p>(.*?)</p>', re.DOTALL)


def new_email() -> str:
    return f"person-{os.getpid()}-{next(_numbers)}@example.com"


def new_peer() -> str:
    """Return an unused IP address, so that failed attempts of other tests do not count."""
    number = next(_numbers)
    return f"10.{os.getpid() % 250}.{number // 250 % 250}.{number % 250}"


def as_operator(db: Database, settings: Settings) -> Operator:
    return operator_of(db, settings)


def browser(application: Application, *, peer: str = "") -> httpx.AsyncClient:
    """Return a client that behaves like a browser without JavaScript."""
    transport = httpx.ASGITransport(application, raise_app_exceptions=True, client=(peer or new_peer(), 40_000))
    return httpx.AsyncClient(transport=transport, base_url=HOST, headers={"accept-encoding": "identity"})


def compact(html: str) -> str:
    return _BLOCK.sub(r"\1", re.sub(r"\s+>", ">", re.sub(r"\s+", " ", html)))


@dataclass
class Visitor:
    """A browser and its latest response."""

    client: httpx.AsyncClient
    response: httpx.Response = field(default_factory=lambda: httpx.Response(200))

    async def open(self, path: str) -> httpx.Response:
        self.response = await self.client.get(path, follow_redirects=True)
        return self.response

    async def submit(self, path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """Submit a form of the open page as a browser does, and follow the redirect."""
        data: dict[str, Any] = {"_token": self.token, **(fields or {}), **more}
        self.response = await self.client.post(path, data=data, headers=SAME_ORIGIN, follow_redirects=True)
        return self.response

    @property
    def text(self) -> str:
        """The page without the white space that browsers ignore: between blocks, and in tags; more than one space."""
        parts = _VERBATIM.split(self.response.text)
        return unescape("".join(part if part.startswith(("<pre", "<textarea")) else compact(part) for part in parts))

    @property
    def path(self) -> str:
        return self.response.url.path

    @property
    def token(self) -> str:
        found = _TOKEN.search(self.response.text)
        assert found, "the page has no form"
        return unescape(found[1])

    @property
    def faults(self) -> dict[str, str]:
        """The messages beside fields, by field name; the empty name means the form as a whole."""
        found = {name: message.strip() for name, message in _FAULT.findall(self.text)}
        form_fault = _FORM_FAULT.search(self.text)
        return found | ({"": form_fault[1].strip()} if form_fault else {})

    @property
    def notice(self) -> str:
        found = _NOTICE.search(self.text)
        return found[2].strip() if found else ""

    @property
    def tone(self) -> str:
        """The tone of the notice."""
        found = _NOTICE.search(self.text)
        return found[1] if found else ""


@dataclass(kw_only=True)
class User(Visitor):
    """The browser of a signed-in account."""

    application: Application
    account: Account
    session_id: int

    @property
    def email(self) -> str:
        return self.account.email


async def create_user(
    application: Application, db: Database, *, operator: bool = False, peer: str = "", name: str = "Maria Stone"
) -> User:
    """Create an account with a session; sign-in with a password has its own tests."""
    if not _hashes:
        _hashes.append(await hash_password(PASSWORD))  # hashing is slow, so all users share one hash
    db = directory_of(db)
    account_id = await CREATE_ACCOUNT.one(db, new_email(), name, _hashes[0], operator)
    account = await GET_ACCOUNT.one(db, account_id)
    return await signed_in_browser(application, db, account, peer=peer)


async def signed_in_browser(application: Application, db: Database, account: Account, *, peer: str = "") -> User:
    """Open another session of an account, in its own browser."""
    db, by = directory_of(db), as_operator(db, application.settings)
    session = await open_session(by, db, account.id, complete=True, peer="127.0.0.1", agent="Tests")
    found = await find_session(db, by.key, session.token)
    assert found is not None
    client = browser(application, peer=peer)
    client.cookies.set("stoa_session", session.token, domain="testserver.local")
    return User(client, application=application, account=account, session_id=found.session_id)


@pytest.fixture
def operator(db: Database, settings: Settings) -> Operator:
    return as_operator(db, settings)


@pytest.fixture
async def visitor(application: Application) -> AsyncIterator[Visitor]:
    """A browser that is not signed in."""
    async with browser(application) as client:
        yield Visitor(client)


@pytest.fixture
async def maria(application: Application, db: Database) -> AsyncIterator[User]:
    """A signed-in user who owns nothing yet."""
    user = await create_user(application, db)
    yield user
    await user.client.aclose()


@pytest.fixture
async def zeno(application: Application, db: Database) -> AsyncIterator[User]:
    """Another signed-in user, who has no access to Maria's stores and apps."""
    user = await create_user(application, db, name="Zeno")
    yield user
    await user.client.aclose()


@pytest.fixture
async def without_accounts(settings: Settings, worker_id: str) -> Settings:
    """The settings of a service without accounts."""
    url = await migrated_database(f"set_up_{worker_id}_{os.getpid()}_{next(_numbers)}")
    return msgspec.structs.replace(settings, database_url=url)
