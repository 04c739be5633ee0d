"""A request as the dispatcher and the handler see it, and how its headers are read."""

import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stoa import money
from stoa.db.query import Executor, OutsideTransaction
from stoa.ids import new_id
from stoa.rest.limits import DOCUMENT_BYTES, Allowance
from stoa.rest.problems import (
    Fault,
    HeadersTooLarge,
    InvalidToken,
    MalformedRequest,
    MissingToken,
    Refusal,
    UrlTooLong,
    VersionConflict,
)
from stoa.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Peer = tuple[str, int]  # the address and port at the other end of a connection: of a client, or of a proxy

MOST_HEADERS, MOST_HEADER_BYTES, MOST_TAG_BYTES = 100, 16 * 1024, 4096
MOST_URL_BYTES = 32 * 1024  # below the 64 KiB from which the server itself answers 414
_WITHOUT_HOST = ("1", "1.0")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SINGLE = (b"authorization", b"idempotency-key", b"content-type", b"content-encoding")
_SETTINGS = Settings()


class Upload(msgspec.Struct):
    """A large body, received into a file that exists as long as the request."""

    file: Path
    media: str
    size: int
    digest: bytes


class Request:
    """A request on its way through the dispatcher."""

    __slots__ = ("allowance", "call", "caller", "code", "error", "faults", "headers", "method", "notices", "operation", "origin", "path", "query",
                 "receive", "refused_app_id", "request_id", "shed", "store", "sub_path")  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, sub_path: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.receive = receive
        self.sub_path = sub_path
        self.request_id = new_id("req")
        self.origin = ""
        self.headers: dict[bytes, bytes] = {}
        self.store: Store | None = None
        self.caller: Caller | None = None
        self.operation = ""  # the name of its endpoint
        self.notices: Headers = []  # headers of every response of the endpoint
        self.allowance: Allowance | None = None
        self.call: Call | None = None  # set once the handler runs
        self.code = ""
        self.error: BaseException | None = None
        self.faults: Sequence[Fault] = ()
        self.shed = ""
        self.refused_app_id: int | None = None  # the app behind a token that is refused

    @property
    def base(self) -> str:
        """The path up to and including the API's prefix."""
        return self.path.removesuffix(self.sub_path)


class Store(msgspec.Struct, frozen=True):
    """The store in the request's URL."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    prices_include_tax: bool = False
    timezone: str = "UTC"
    locale: str = "en-US"

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


class Access(Protocol):
    """Finds the store and the caller of a request; passed to the dispatcher."""

    async def store(self, *, handle: str = "", host: str = "") -> Store | None: ...

    async def caller(self, store: Store, token: str) -> Caller: ...


class Subject(msgspec.Struct, frozen=True):
    """The person whose data a response contains, by the type and id of the row through which an erasure finds them."""

    type: str
    id: int | None = None


class Call:
    """One request as its handler sees it."""

    __slots__ = ("_autocommit", "accepted", "base", "by", "db", "document_cost", "echoed", "expected", "faults", "fields",
                 "headers", "include", "parameters", "patch", "refused_items", "request_id", "settings", "store", "subject",
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


# --- headers ---------------------------------------------------------------------------------------------------------


def check_headers(scope: Scope) -> dict[bytes, bytes]:
    """Index the header fields by name.

    Too many, too large ones, and a missing or repeated Host are refused, as are a long URL and a second field of a name that
    has one value: a proxy may have checked the other one.
    """
    headers: Headers = scope["headers"]
    if len(scope["path"]) + len(scope["query_string"]) > MOST_URL_BYTES:
        raise UrlTooLong(f"The path and the query of a URL may have at most {MOST_URL_BYTES} bytes in total.")
    if len(headers) > MOST_HEADERS:
        raise HeadersTooLarge(f"A request may have at most {MOST_HEADERS} header fields.")
    fields = dict(headers)
    if sum([len(name) + len(value) for name, value in headers]) > MOST_HEADER_BYTES:
        raise HeadersTooLarge(f"The header fields of a request may have at most {MOST_HEADER_BYTES} bytes in total.")
    hosts = [value for name, value in headers if name == b"host"]
    # Granian adds an empty Host if there is none. HTTP/1.0 has no Host header, and simple health checks speak it.
    if len(hosts) > 1 or (not (hosts and hosts[0]) and scope["http_version"] not in _WITHOUT_HOST):
        raise MalformedRequest("Send exactly one Host header.", headers=[(b"connection", b"close")])
    if len(fields) < len(headers):
        names = [name for name, _ in headers]
        for name in _SINGLE:
            if names.count(name) > 1:
                raise MalformedRequest(f"Send at most one {name.decode().title()} header.")
    return fields


def trust_proxies(scope: Scope, proxies: int) -> None:
    """Take the client's address and scheme from the outermost trusted proxy. A client can forge entries before it."""
    fields = dict(scope["headers"])
    addresses = fields.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
    if len(addresses) >= proxies and (address := addresses[-proxies].strip()):
        scope["client"] = (address, 0)
    scheme = fields.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[-1].strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme


def address_of(host: str) -> str:
    """The address by which a client is counted; an IPv6 client usually has a whole /64."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def method_label(method: str) -> str:
    """The method for metrics and logs: callers can send any word, so unknown methods count as one."""
    return method if method in _METHODS else "other"


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    value = headers.get(b"authorization")
    if value is None:
        raise MissingToken("Send Authorization: Bearer <token>.")
    kind, _, token = value.partition(b" ")
    if kind.lower() != b"bearer":
        raise MissingToken("Send Authorization: Bearer <token>.")
    try:
        return token.strip().decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidToken from error


def accepts_gzip(headers: dict[bytes, bytes]) -> bool:
    accept = headers.get(b"accept-encoding")
    if accept is None or b"gzip" not in accept:
        return False
    for part in accept.lower().split(b","):
        coding, _, q = part.partition(b";")
        if coding.strip() == b"gzip":
            return q.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def acceptable(accept: bytes | None, offered: Sequence[bytes]) -> bytes | None:
    """The offered media type that the Accept header prefers, or None if it accepts none of them. An empty one accepts any."""
    if not accept or accept in (b"*/*", offered[0]) or not accept.strip(b" \t,"):
        return offered[0]
    best: tuple[float, bytes] | None = None
    for media in offered:
        kind = media.split(b"/")[0]
        quality, strength = 0.0, 0
        for part in accept.lower().split(b","):
            name, *parameters = [piece.strip() for piece in part.split(b";")]
            match = {media: 3, kind + b"/*": 2, b"*/*": 1}.get(name, 0)
            if match > strength:
                strength, quality = match, _quality(parameters)
        if quality > 0 and (best is None or quality > best[0]):
            best = (quality, media)
    return best[1] if best else None


def _quality(parameters: Sequence[bytes]) -> float:
    for parameter in parameters:
        if parameter.startswith(b"q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


_VERSION = re.compile(rb'(?:"(\d{1,9})(?:\.([0-9a-f]{8}))?[^"]*"|(\d{1,9}))\Z')


def tags(headers: Mapping[bytes, bytes], name: bytes) -> bytes | None:
    """A header field that lists entity tags. A longer one than the OpenAPI description allows is refused."""
    header = headers.get(name)
    if header is not None and len(header) > MOST_TAG_BYTES:
        raise HeadersTooLarge(f"{name.decode().title()} may have at most {MOST_TAG_BYTES} bytes.")
    return header


def versions_allowed(headers: Mapping[bytes, bytes]) -> frozenset[tuple[int, str | None]] | None:
    """The versions that If-Match allows, with or without quotes. A tag that is no version matches nothing.

    An entity tag may contain a digest of what only the caller's app sees.
    """
    header = tags(headers, b"if-match")
    if header is None or header.strip() == b"*":
        return None
    return frozenset(
        (int(match[1] or match[3]), match[2].decode() if match[2] else None)
        for part in header.split(b",")
        if (match := _VERSION.match(part.strip()))
    )
