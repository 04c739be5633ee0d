"""A call as its handler sees it: the store, who calls, and what the request asks for."""

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from stoa import money
from stoa.db.query import Executor, OutsideTransaction
from stoa.rest.limits import DOCUMENT_BYTES
from stoa.rest.metadata import NO_DEFINITIONS, Definitions
from stoa.rest.problems import Fault, Refusal, VersionConflict
from stoa.settings import Settings

_SETTINGS = Settings()


class Writable(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to a writer of a store, beside the columns of its row."""

    definitions: Definitions = NO_DEFINITIONS  # of metadata
    pictures: Mapping[str, Any] = {}  # that the request may show, by what names them in it


class Store(Writable, frozen=True):
    """The store in the request's URL."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    prices_include_tax: bool = False
    timezone: str = "UTC"
    locale: str = "en-US"
    shard: str = ""  # the database that holds its rows; empty for the directory's own

    @property
    def store_id(self) -> int:
        return self.id

    @property
    def digits(self) -> int:
        return money.digits(self.currency)


class Caller(msgspec.Struct, frozen=True):
    """The app that owns the access token, with the scopes and rate limit that the store grants it."""

    app_id: int
    app_name: str
    scopes: frozenset[str]
    burst: int
    refill: int
    installation: str = ""  # distinguishes a reinstallation from the installation before
    narrowed: bool = False  # the token was requested with fewer scopes, and does not follow the installation
    definitions: Definitions = NO_DEFINITIONS  # of metadata, which the app must follow on the store

    def may(self, scope: str) -> bool:
        """Whether the app has the scope; `write` includes `read` of the same noun."""
        return scope in self.scopes or (scope.endswith(":read") and f"{scope[:-5]}:write" in self.scopes)


class NamedOperator(msgspec.Struct, frozen=True):
    """An operator who runs a handler without an app, for example to write sample data; the name is for people."""

    name: str


class NamedPerson(msgspec.Struct, frozen=True):
    """A person who runs a handler on a page of the store, signed in with an account; timelines show the name."""

    account_id: int
    name: str


class Subject(msgspec.Struct, frozen=True):
    """The person whose data a response contains, by the type and id of the row through which an erasure finds them."""

    type: str
    id: int | None = None


class Call:
    """One request as its handler sees it."""

    __slots__ = ("_autocommit", "accepted", "base", "by", "db", "document_cost", "echoed", "expected", "faults", "fields",
                 "headers", "include", "lifted", "parameters", "patch", "refused_items", "request_id", "settings", "store", "subject",
                 "waited_s")  # fmt: skip

    def __init__(
        self, db: Executor, store: Store, by: Caller | NamedOperator | NamedPerson, request_id: str, base: str
    ) -> None:
        self.db = db
        self._autocommit = db
        self.settings = _SETTINGS
        self.store = store
        self.by = by
        self.request_id = request_id
        self.base = base
        # The versions that If-Match allows, each with the digest of what only this app sees, if its tag has one.
        self.expected: frozenset[tuple[int, str | None]] | None = None
        self.echoed: dict[str, Any] = {}  # the read-only fields of a merge patch
        self.patch: dict[str, Any] = {}  # the other fields of a merge patch, after validation
        self.faults: list[Fault] = []  # of the body, reported together with those that the handler finds
        self.refused_items: dict[int, Refusal] = {}  # the items of a batch that do not have the declared type, by index
        self.include: frozenset[str] = frozenset()
        self.lifted: list[memoryview] = []  # the long values of a large body, which was parsed without them
        self.parameters: dict[str, Any] = {}  # the query parameters of an endpoint that is not a list
        self.accepted = ""  # the media type of the response, if the endpoint offers several
        self.headers: Mapping[bytes, bytes] = {}
        self.fields: frozenset[str] | None = None
        self.subject: Subject | None = None  # whose personal data the response contains, so that erasure finds it
        self.document_cost = 0  # further requests that a write costs, by the size of the documents that it writes
        self.waited_s = 0.0  # time spent waiting at the caller's request

    @property
    def autocommit(self) -> Executor:
        """Runs single statements outside the transaction, or inside it if the server grants no second connection."""
        return self.db if self._autocommit is self.db else OutsideTransaction(self._autocommit, self.db)

    @autocommit.setter
    def autocommit(self, db: Executor) -> None:
        self._autocommit = db

    def costs_documents(self, sizes: Iterable[int]) -> None:
        """Record the sizes of the documents that the call writes, in bytes; of several records, the largest counts."""
        self.document_cost = max(self.document_cost, sum(size // DOCUMENT_BYTES for size in sizes))

    @property
    def store_id(self) -> int:
        return self.store.id

    @property
    def caller(self) -> Caller:
        """The app that makes the call. A call by an operator or a person has none."""
        if not isinstance(self.by, Caller):
            raise TypeError(f"{self.by.name} is an operator or a person; this handler needs an app")
        return self.by

    @property
    def app_id(self) -> int | None:
        """The app that makes the call, or None if an operator or a person makes it."""
        return self.by.app_id if isinstance(self.by, Caller) else None

    @property
    def person_id(self) -> int | None:
        """The account of the person who makes the call, or None."""
        return self.by.account_id if isinstance(self.by, NamedPerson) else None

    @property
    def kind(self) -> str:
        """Who makes the call, as events and timelines name it."""
        return "app" if isinstance(self.by, Caller) else "operator" if isinstance(self.by, NamedOperator) else "account"

    @property
    def author(self) -> str:
        """The name of the app, operator or person that makes the call."""
        return self.by.app_name if isinstance(self.by, Caller) else self.by.name

    def may(self, scope: str) -> bool:
        """Whether the call may use the scope. An operator may use every scope, and so may a person whose role allows
        the page."""
        return not isinstance(self.by, Caller) or self.by.may(scope)

    @property
    def actor(self) -> str:
        """The caller as recorded in the audit log."""
        return f"account:{self.by.account_id}" if isinstance(self.by, NamedPerson) else f"app:{self.caller.app_id}"

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Exclude a wait that the caller asked for from the measured response time."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.waited_s += time.perf_counter() - started

    def check_version(self, current: int, own: str | None = None) -> None:
        """Refuse the request if If-Match does not name the current version.

        `own` is the digest of what only this app sees; a tag that contains a digest must agree with it.
        """
        if self.expected is None or any(
            version == current and (own is None or digest is None or digest == own) for version, digest in self.expected
        ):
            return
        raise VersionConflict(f"The current version is {current}.", current_version=current)
