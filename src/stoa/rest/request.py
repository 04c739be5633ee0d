"""A request as the dispatcher and the handler see it, and how its headers and query string are read."""

import re
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import parse_qsl

import msgspec

from stoa import money
from stoa.db.query import Executor
from stoa.ids import new_id
from stoa.rest.filters import LARGEST_SET, InvalidValue
from stoa.rest.limits import Allowance
from stoa.rest.problems import (
    Fault,
    HeadersTooLarge,
    InvalidParameter,
    InvalidToken,
    MissingToken,
    UnknownParameter,
    VersionConflict,
    counted,
    did_you_mean,
    printable,
)
from stoa.settings import Settings

if TYPE_CHECKING:
    from stoa.rest.endpoint import Endpoint

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MOST_HEADERS, MOST_HEADER_BYTES, MOST_TAG_BYTES = 100, 16 * 1024, 4096
_MOST_PARAMETERS, _MOST_NAMED = 50, 5
_SETTINGS = Settings()


class ClientGone(Exception):
    """The client closed the connection before it got a response."""


class Upload(msgspec.Struct):
    """A large body, received into a file that exists as long as the request."""

    file: Path
    media: str
    size: int
    digest: bytes


class Request:
    """A request on its way through the dispatcher."""

    __slots__ = ("allowance", "call", "caller", "code", "endpoint", "error", "fault", "headers", "method", "origin", "path", "query",
                 "receive", "request_id", "store", "sub_path")  # fmt: skip

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
        self.endpoint: Endpoint | None = None
        self.allowance: Allowance | None = None
        self.call: Call | None = None  # set once the handler runs
        self.code = ""
        self.error: BaseException | None = None
        self.fault: Fault | None = None

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

    def may(self, scope: str) -> bool:
        """Whether the app has the scope; `write` includes `read` of the same noun."""
        return scope in self.scopes or (scope.endswith(":read") and f"{scope[:-5]}:write" in self.scopes)


class Access(Protocol):
    """Finds the store and the caller of a request; passed to the dispatcher."""

    async def store(self, *, handle: str = "", host: str = "") -> Store | None: ...

    async def caller(self, store: Store, token: str) -> Caller: ...


class Subject(msgspec.Struct, frozen=True):
    """The person whose data a response contains: a customer, the buyer of an order, or a contact stored nowhere else."""

    type: Literal["customer", "order", "contact"]
    id: int | None = None


class Call:
    """One request as its handler sees it."""

    __slots__ = ("accepted", "autocommit", "base", "caller", "db", "echoed", "expected", "fields", "headers",
                 "include", "parameters", "patch", "request_id", "settings", "store", "subject", "waited_s")  # fmt: skip

    def __init__(self, db: Executor, store: Store, caller: Caller, request_id: str, base: str) -> None:
        self.db = db
        self.autocommit = db  # runs single statements outside the transaction; never waits for `db`
        self.settings = _SETTINGS
        self.store = store
        self.caller = caller
        self.request_id = request_id
        self.base = base
        self.expected: frozenset[int] | None = None  # the versions that If-Match allows
        self.echoed: dict[str, Any] = {}  # the read-only fields of a merge patch
        self.patch: dict[str, Any] = {}  # the other fields of a merge patch, after validation
        self.include: frozenset[str] = frozenset()
        self.parameters: dict[str, Any] = {}  # the query parameters of an endpoint that is not a list
        self.accepted = ""  # the media type of the response, if the endpoint offers several
        self.headers: Mapping[bytes, bytes] = {}
        self.fields: frozenset[str] | None = None
        self.subject: Subject | None = None  # whose personal data the response contains, so that erasure finds it
        self.waited_s = 0.0  # time spent waiting at the caller's request

    @property
    def store_id(self) -> int:
        return self.store.id

    @property
    def actor(self) -> str:
        """The caller as recorded in the audit log."""
        return f"app:{self.caller.app_id}"

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Exclude a wait that the caller asked for from the measured response time."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.waited_s += time.perf_counter() - started

    def check_version(self, current: int) -> None:
        """Refuse the request if If-Match does not name the current version."""
        if self.expected is not None and current not in self.expected:
            raise VersionConflict(f"The current version is {current}.", current_version=current)


# --- headers ---------------------------------------------------------------------------------------------------------


def check_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Index the header fields by name. Too many, or too large ones, are refused."""
    if len(headers) > MOST_HEADERS:
        raise HeadersTooLarge(f"A request may have at most {MOST_HEADERS} header fields.")
    fields = dict(headers)
    if sum([len(name) + len(value) for name, value in headers]) > MOST_HEADER_BYTES:
        raise HeadersTooLarge(f"The header fields of a request may have at most {MOST_HEADER_BYTES} bytes in total.")
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
    """The offered media type that the Accept header prefers, or None if it accepts none of them."""
    if accept is None or accept in (b"*/*", offered[0]):
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


_VERSION = re.compile(rb'(?:"(\d{1,9})[^"]*"|(\d{1,9}))\Z')


def tags(headers: Mapping[bytes, bytes], name: bytes) -> bytes | None:
    """A header field that lists entity tags. A longer one than the OpenAPI description allows is refused."""
    header = headers.get(name)
    if header is not None and len(header) > MOST_TAG_BYTES:
        raise HeadersTooLarge(f"{name.decode().title()} may have at most {MOST_TAG_BYTES} bytes.")
    return header


def versions_allowed(headers: Mapping[bytes, bytes]) -> frozenset[int] | None:
    """The versions that If-Match allows, with or without quotes. A tag that is no version matches nothing."""
    header = tags(headers, b"if-match")
    if header is None or header.strip() == b"*":
        return None
    return frozenset(
        int(match[1] or match[2]) for part in header.split(b",") if (match := _VERSION.match(part.strip()))
    )


# --- query string ----------------------------------------------------------------------------------------------------


def query_parameters(query_string: bytes, sets: Collection[str] = ()) -> dict[str, str]:
    """Parse the query string. A repeated name is refused, except for `sets`, whose values are joined by commas."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS + LARGEST_SET,
        )
    except ValueError as error:
        raise InvalidParameter("The query string must be percent-encoded UTF-8 with fewer parameters.") from error
    given: dict[str, str] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise InvalidParameter("Parameters must not contain NUL characters.")
        if name not in given:
            given[name] = value
        elif name in sets:
            given[name] += f",{value}"
        else:
            raise InvalidParameter(f"The parameter {printable(name)} is given more than once.")
    if len(given) > _MOST_PARAMETERS:
        raise InvalidParameter(f"A query string may have at most {_MOST_PARAMETERS} parameters.")
    return given


def read_parameters(request: Request, endpoint: "Endpoint", call: Call) -> None:
    """Read `fields`, `include` and the endpoint's own parameters, for an endpoint that is not a list."""
    if not request.query:
        return
    shaping = [*(["fields"] if endpoint.shows_fields else []), *(["include"] if endpoint.includes else [])]
    sets = [*shaping, *(name for name, kind in endpoint.parameters.items() if kind.several)]
    known = [*shaping, *endpoint.parameters]
    given = query_parameters(request.query, sets)
    if unknown := [name for name in given if name not in known]:
        raise unknown_parameters("endpoint", unknown, dict.fromkeys(known, ()))
    faults: list[Fault] = []
    for name, kind in endpoint.parameters.items():
        if name in given:
            try:
                call.parameters[name] = kind.read(given[name], call.store)
            except InvalidValue as error:
                faults.append(Fault(name, "invalid_parameter", str(error)))
    fields = [field.encode_name for field in msgspec.structs.fields(endpoint.resource)] if endpoint.resource else []
    call.fields = subset("fields", given.get("fields"), fields, faults)
    call.include = subset("include", given.get("include"), endpoint.includes, faults) or frozenset()
    if faults:
        raise InvalidParameter(f"{counted(len(faults), 'parameter')} cannot be read.", faults=faults)
    if call.fields is not None:
        call.include |= call.fields & frozenset(endpoint.includes)
        call.fields |= call.include


def subset(name: str, text: str | None, allowed: Sequence[str], faults: list[Fault]) -> frozenset[str] | None:
    """Comma-separated names, each of which must be allowed."""
    if text is None:
        return None
    chosen = frozenset(names := text.split(","))
    if len(names) > LARGEST_SET:
        faults.append(Fault(name, "invalid_parameter", f"may have at most {LARGEST_SET} names"))
    elif not chosen <= frozenset(allowed):
        wrong = printable(", ".join(sorted(chosen - frozenset(allowed))))
        message = f"has no {wrong}; allowed: {', '.join(allowed) or 'none'}"
        faults.append(Fault(name, "invalid_parameter", message))
        return None
    return chosen


def unknown_parameters(where: str, names: Sequence[str], known: Mapping[str, Sequence[str]]) -> UnknownParameter:
    """The refusal of unknown parameters: the known ones, and a suggestion for each unknown one.

    `known` maps each parameter to the operators that it takes in brackets.
    """
    named = [printable(name) for name in names[:_MOST_NAMED]]
    return UnknownParameter(
        f"This {where} has no parameter {', '.join(named)}.",
        faults=[_unknown(name, known) for name in names[:_MOST_NAMED]],
        parameters=named,
        available=sorted(known),
    )


def _unknown(name: str, known: Mapping[str, Sequence[str]]) -> Fault:
    base, bracket, _ = name.partition("[")
    if not bracket or base not in known:
        message, meta = "is not a parameter of this endpoint", did_you_mean(name, known)
    elif operators := list(known[base]):
        message = f"is not an operator of {base}; use {', '.join(f'{base}[{each}]' for each in operators)}"
        meta = {"operators": operators}
    else:
        message, meta = f"is not a parameter of this endpoint: {base} takes no brackets", {"did_you_mean": base}
    return Fault(printable(name), UnknownParameter.code, message, meta)
