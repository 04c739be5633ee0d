"""Endpoints: each declared as one decorated function."""

import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from stoa.rest.batch import Batch
from stoa.rest.csv_files import columns_of_resource
from stoa.rest.filters import Filter
from stoa.rest.headers import JSON, STREAMS
from stoa.rest.lists import ListOf, ListQuery, Page
from stoa.rest.problems import Refusal
from stoa.rest.scopes import FieldScopes, field_scopes

JSON_BODY_BYTES = 1024 * 1024

T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


class Upload(msgspec.Struct):
    """A large body, received into a file that exists as long as the request."""

    file: Path
    media: str
    size: int
    digest: bytes


class WithMeta(msgspec.Struct, kw_only=True):
    """The `meta` object of a response, as JSON."""

    meta: bytes = b"{}"
    own: str = ""  # a digest of what only the caller's app sees, as a part of the ETag


class One(WithMeta, Generic[T]):
    """One resource as its stored document."""

    doc: bytes
    version: int


class Created(One[T], Generic[T]):
    """A new resource and its path below the API's prefix."""

    path: str = ""


class Accepted(Created[T], Generic[T]):
    """Work that continues after the response. `settled` runs after the commit and may wait for the work to finish."""

    settled: Callable[[], Awaitable[One[Any] | None]] | None = None


class Stream(msgspec.Struct):
    """A response in another media type than JSON, produced while it is sent."""

    media: str
    parts: AsyncGenerator[bytes]


class NoContent(msgspec.Struct):
    """A success without a body."""


class Deprecation(msgspec.Struct, frozen=True):
    """The dates of a deprecated endpoint, and the URL of the guide that names its replacement."""

    since: date
    sunset: date
    guide: str


class Task(msgspec.Struct, frozen=True):
    """What callers do with an operation that does several things; the documentation has a page for each."""

    name: str  # such as `refund_order`, unique among tasks and operations
    summary: str
    description: str
    example: Mapping[str, Any]


class Endpoint(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One operation of the API, as declared."""

    method: str
    path: str
    scope: str
    handler: Callable[..., Awaitable[Any]]
    name: str
    summary: str
    description: str
    group: str
    path_parameters: Mapping[str, type]
    returns: type[Any]  # the class that the handler returns, such as One or Page
    resource: type[Any] | None
    body: type[Any] | None
    body_required: bool
    lists: ListOf | None
    includes: tuple[str, ...]
    errors: tuple[type[Refusal], ...]
    example: Any
    deprecation: Deprecation | None
    parameters: Mapping[str, Filter]
    uploads: tuple[str, ...]  # media types of a body that is streamed to a file
    rows: type[Any] | None  # what a row of the uploaded file describes
    produces: tuple[str, ...]  # media types of the response, the default first
    transaction: bool = True  # False for a handler that waits for other services and must not hold a connection
    before: Callable[..., Awaitable[None]] | None = None  # slow work, done before the transaction begins
    body_bytes: int = JSON_BODY_BYTES  # more than the default only for long values, which are not parsed
    secret: bool = False  # the response contains a secret, so its stored copy is encrypted
    grouped: Callable[..., Awaitable[Sequence[Any]]] | None = None  # handles several calls in one transaction
    primary: bool = (
        False  # never read from a replica: the data changes without waiting for the log, or the call waits for it
    )
    longest_wait_s: int = 0  # how long `Prefer: wait` may defer the response to accepted work, which is then 200
    repeats: bool = False  # the same request sent again with another idempotency key has a further effect
    tasks: tuple[Task, ...] = ()
    bodies: Mapping[str, type[Any]] = {}  # other bodies, each by the member that marks it; `items` marks a batch

    @cached_property
    def batch(self) -> type[Any] | None:
        """The type of a body with many items."""
        return self.body if issubclass(self.returns, Batch) else self.bodies.get("items")

    @cached_property
    def status(self) -> int:
        return {Created: 201, Accepted: 202, NoContent: 204}.get(self.returns, 200)

    @cached_property
    def offers(self) -> tuple[bytes, ...]:
        """The media types of the response, as header values."""
        return tuple(media.encode() for media in self.produces)

    @cached_property
    def field_scopes(self) -> FieldScopes:
        """The body fields, or fields of uploaded rows, that need a further scope."""
        sent = [self.rows] if self.uploads else [self.body, *self.bodies.values()]
        return tuple(dict.fromkeys(each for type_ in sent if type_ is not None for each in field_scopes(type_)))

    @cached_property
    def shows_fields(self) -> bool:
        """Whether the response is one resource, so that `fields` can select from it."""
        return self.resource is not None and issubclass(self.returns, One)

    @cached_property
    def read_only(self) -> frozenset[str]:
        """Fields that a merge patch may repeat but not change."""
        return self._not_in_body() if self.method == "PATCH" else frozenset()

    @cached_property
    def response_only(self) -> Mapping[Any, frozenset[str]]:
        """For each body, the fields that the response to a creation has but the body does not."""
        creates = self.resource if issubclass(self.returns, Created) else None
        return {
            body: _not_in_body(creates, body) if creates else frozenset() for body in (self.body, *self.bodies.values())
        }

    def _not_in_body(self) -> frozenset[str]:
        return _not_in_body(self.resource, self.body) if self.resource is not None else frozenset()


@cache
def _not_in_body(resource: type[Any], body: type[Any] | None) -> frozenset[str]:
    """Fields of a resource that its body lacks; none if the body is an object with arbitrary keys."""
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
        rows: type[Any] | None = None,
        produces: Sequence[str] = (JSON,),
        transaction: bool = True,
        before: Callable[..., Awaitable[None]] | None = None,
        body_bytes: int = JSON_BODY_BYTES,
        secret: bool = False,
        grouped: Callable[..., Awaitable[Sequence[Any]]] | None = None,
        primary: bool = False,
        longest_wait_s: int = 0,
        repeats: bool = False,
        bodies: Mapping[str, type[Any]] | None = None,
        tasks: Sequence[Task] = (),
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            signature = inspect.signature(handler)
            returned = hints["return"]
            resource = get_args(returned)[0] if get_args(returned) else None
            text = inspect.getdoc(handler) or ""
            summary, _, description = text.partition("\n")
            if (hints.get("query") is ListQuery) != (lists is not None):
                raise TypeError(f"{handler.__name__}: `lists` and the argument `query: ListQuery` require each other")
            list_spec = lists
            if lists and resource:
                columns = lists.columns or columns_of_resource(resource)
                list_spec = msgspec.structs.replace(lists, fields=_field_names(resource), columns=columns)
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
                    returns=get_origin(returned) or returned,
                    resource=resource,
                    body=None if uploads else hints.get("body"),
                    body_required="body" in hints and signature.parameters["body"].default is inspect.Parameter.empty,
                    lists=list_spec,
                    includes=lists.includes if lists else tuple(includes),
                    errors=tuple(errors),
                    example=example,
                    deprecation=deprecation,
                    parameters=parameters or {},
                    uploads=tuple(uploads),
                    rows=rows,
                    produces=(JSON, *STREAMS) if lists else tuple(produces),
                    transaction=transaction,
                    before=before,
                    body_bytes=body_bytes,
                    secret=secret,
                    grouped=grouped,
                    primary=primary,
                    longest_wait_s=longest_wait_s,
                    repeats=repeats or method == "POST",
                    tasks=tuple(tasks),
                    bodies=bodies or {},
                )
            )
            return handler

        return declare


__all__ = [
    "Accepted",
    "Created",
    "Deprecation",
    "Endpoint",
    "NoContent",
    "One",
    "Page",
    "Routes",
    "Stream",
    "Upload",
]
