"""How an endpoint is declared: one decorated function from which routing, checks and documentation follow."""

import inspect
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cache
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from stoa import money
from stoa.db.query import Executor
from stoa.rest.filters import Filter
from stoa.rest.lists import ListOf, ListQuery, Page
from stoa.rest.problems import Refusal, VersionConflict
from stoa.rest.request import Upload
from stoa.settings import Settings

T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


_SETTINGS = Settings()


class Store(msgspec.Struct, frozen=True):
    """The store that a request's address names."""

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
    """The app behind a token, with what this store lets it do."""

    app_id: int
    app_name: str
    scopes: frozenset[str]
    burst: int
    refill: int

    def may(self, scope: str) -> bool:
        """`write` includes `read` of the same noun."""
        return scope in self.scopes or (scope.endswith(":read") and f"{scope[:-5]}:write" in self.scopes)


class Access(Protocol):
    """Who may do what; the service hands its own to the dispatcher."""

    async def store(self, *, handle: str = "", host: str = "") -> Store | None: ...

    async def caller(self, store: Store, token: str) -> Caller: ...


class Subject(msgspec.Struct, frozen=True):
    """The person that a response is about: a customer, the buyer of an order, or a contact known only by the response."""

    type: Literal["customer", "order", "contact"]
    id: int | None = None


class Call:
    """One request in the hands of its handler."""

    __slots__ = (
        "accepted",
        "autocommit",
        "base",
        "caller",
        "db",
        "echoed",
        "expected",
        "fields",
        "headers",
        "include",
        "parameters",
        "patch",
        "request_id",
        "settings",
        "store",
        "subject",
        "waited_s",
    )

    def __init__(self, db: Executor, store: Store, caller: Caller, request_id: str, base: str) -> None:
        self.db = db
        self.autocommit = db  # runs single statements outside the transaction; never waits for `db`
        self.settings = _SETTINGS
        self.store = store
        self.caller = caller
        self.request_id = request_id
        self.base = base
        self.expected: frozenset[int] | None = None  # versions that If-Match allows
        self.echoed: dict[str, Any] = {}  # read-only fields that a merge patch sent back
        self.patch: dict[str, Any] = {}  # the merge patch as sent, once found right
        self.include: frozenset[str] = frozenset()
        self.parameters: dict[str, Any] = {}  # what an endpoint that is no list takes in its query
        self.accepted = ""  # the media type to answer in, where there is a choice
        self.headers: Mapping[bytes, bytes] = {}
        self.fields: frozenset[str] | None = None
        self.subject: Subject | None = None  # whose personal data the response carries, so that erasure finds it
        self.waited_s = 0.0  # because the caller asked to wait

    @property
    def store_id(self) -> int:
        return self.store.id

    @property
    def actor(self) -> str:
        """Who acts, as the audit log names them."""
        return f"app:{self.caller.app_id}"

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Around what the caller asked to wait for: that time is not counted as time that the answer took."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waited_s += time.perf_counter() - began

    def check_version(self, current: int) -> None:
        """Refuse when If-Match names other versions than the current one."""
        if self.expected is not None and current not in self.expected:
            raise VersionConflict(f"The current version is {current}.", current_version=current)


class Beside(msgspec.Struct, kw_only=True):
    """What an answer says beside its resource."""

    meta: bytes = b"{}"


class One(Beside, Generic[T]):
    """One resource as its stored document."""

    doc: bytes
    version: int


class Created(One[T], Generic[T]):
    """A new resource and where it now lives, below the API's prefix."""

    path: str = ""


class Accepted(Created[T], Generic[T]):
    """Work that goes on after the answer; `settled` may wait for its end, once what was written is committed."""

    settled: Callable[[], Awaitable[One[Any] | None]] | None = None


class Stream(msgspec.Struct):
    """An answer in another form than JSON, made while it is sent."""

    media: str
    parts: AsyncIterator[bytes]


class NoContent(msgspec.Struct):
    """Done, and nothing to show."""


class Deprecation(msgspec.Struct, frozen=True):
    """An endpoint that will go: since when, until when, and where to read what to use instead."""

    since: date
    sunset: date
    guide: str


class Endpoint(msgspec.Struct, frozen=True, eq=False):
    """One operation of the API, whole."""

    method: str
    path: str
    scope: str
    handler: Callable[..., Awaitable[Any]]
    name: str
    summary: str
    description: str
    group: str
    path_parameters: Mapping[str, type]
    answer: type[Any]  # One, Created, Page or NoContent
    resource: type[Any] | None
    body: type[Any] | None
    body_required: bool
    lists: ListOf | None
    includes: tuple[str, ...]
    errors: tuple[type[Refusal], ...]
    example: Any
    deprecation: Deprecation | None
    parameters: Mapping[str, Filter]
    uploads: tuple[str, ...]  # media types of a body that is streamed into a file
    produces: tuple[str, ...]  # media types that may be asked for, the usual one first
    transaction: bool = True  # False for a handler that waits for others, and must hold no connection meanwhile
    before: Callable[..., Awaitable[None]] | None = None  # what takes its time, done before the transaction begins
    secret: bool = False  # whether the answer shows a secret: what is remembered of it is sealed
    grouped: Callable[..., Awaitable[Sequence[Any]]] | None = (
        None  # carries out several calls at once, as far as it can
    )

    @property
    def status(self) -> int:
        return {Created: 201, Accepted: 202, NoContent: 204}.get(self.answer, 200)

    @property
    def shows_fields(self) -> bool:
        """Whether `fields` may narrow the answer: it is one resource."""
        return self.resource is not None and issubclass(self.answer, One)

    @property
    def read_only(self) -> frozenset[str]:
        """Fields that callers see but a merge patch of them is ignored or refused."""
        return self._not_sent() if self.method == "PATCH" else frozenset()

    @property
    def answered(self) -> frozenset[str]:
        """Fields that the answer to what is created shows, and that nobody can send."""
        return self._not_sent() if issubclass(self.answer, Created) else frozenset()

    def _not_sent(self) -> frozenset[str]:
        return _only_shown(self.resource, self.body) if self.resource is not None else frozenset()


@cache
def _only_shown(resource: type[Any], body: type[Any] | None) -> frozenset[str]:
    """Fields of a resource that its body has not; an object of free keys may hold all."""
    if not (isinstance(body, type) and issubclass(body, msgspec.Struct)):
        return frozenset()
    return frozenset(_field_names(resource)) - frozenset(_field_names(body))


@cache
def _field_names(type_: type) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(type_))


_PLACEHOLDER = re.compile(r"{(\w+)}")


class Routes:
    """The endpoints of one group, in documentation order."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.endpoints: list[Endpoint] = []

    def get(self, path: str, **given: Any) -> Callable[[Handler], Handler]:
        return self._declare("GET", path, **given)

    def post(self, path: str, **given: Any) -> Callable[[Handler], Handler]:
        return self._declare("POST", path, **given)

    def put(self, path: str, **given: Any) -> Callable[[Handler], Handler]:
        return self._declare("PUT", path, **given)

    def patch(self, path: str, **given: Any) -> Callable[[Handler], Handler]:
        return self._declare("PATCH", path, **given)

    def delete(self, path: str, **given: Any) -> Callable[[Handler], Handler]:
        return self._declare("DELETE", path, **given)

    def _declare(
        self,
        method: str,
        path: str,
        *,
        scope: str,
        lists: ListOf | None = None,
        includes: Sequence[str] = (),
        errors: Sequence[type[Refusal]] = (),
        example: Any = None,
        deprecation: Deprecation | None = None,
        parameters: Mapping[str, Filter] | None = None,
        uploads: Sequence[str] = (),
        produces: Sequence[str] = ("application/json",),
        transaction: bool = True,
        before: Callable[..., Awaitable[None]] | None = None,
        secret: bool = False,
        grouped: Callable[..., Awaitable[Sequence[Any]]] | None = None,
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            signature = inspect.signature(handler)
            answer = hints["return"]
            resource = get_args(answer)[0] if get_args(answer) else None
            text = inspect.getdoc(handler) or ""
            summary, _, description = text.partition("\n")
            if (hints.get("query") is ListQuery) != (lists is not None):
                raise TypeError(f"{handler.__name__}: a list takes `query: ListQuery`, and only a list does")
            shown = msgspec.structs.replace(lists, fields=_field_names(resource)) if lists and resource else lists
            self.endpoints.append(
                Endpoint(
                    method=method,
                    path=path,
                    scope=scope,
                    handler=handler,
                    name=handler.__name__,
                    summary=summary.rstrip("."),
                    description=description.strip(),
                    group=self.group,
                    path_parameters={name: hints[name] for name in _PLACEHOLDER.findall(path)},
                    answer=get_origin(answer) or answer,
                    resource=resource,
                    body=None if uploads else hints.get("body"),
                    body_required="body" in hints and signature.parameters["body"].default is inspect.Parameter.empty,
                    lists=shown,
                    includes=lists.includes if lists else tuple(includes),
                    errors=tuple(errors),
                    example=example,
                    deprecation=deprecation,
                    parameters=parameters or {},
                    uploads=tuple(uploads),
                    produces=tuple(produces),
                    transaction=transaction,
                    before=before,
                    secret=secret,
                    grouped=grouped,
                )
            )
            return handler

        return declare


__all__ = [
    "Accepted",
    "Access",
    "Call",
    "Caller",
    "Created",
    "Deprecation",
    "Endpoint",
    "NoContent",
    "One",
    "Page",
    "Routes",
    "Store",
    "Stream",
    "Upload",
]
