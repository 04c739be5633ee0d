"""The life of a request: route, admit, decode, carry out in at most one transaction, respond."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec

from stoa.db.errors import PostgresError, StoreElsewhere, Unavailable, WaitedTooLong
from stoa.db.pool import Database, arrive
from stoa.db.replica import Replica
from stoa.db.shards import Shards
from stoa.db.waiting import clock_stopped
from stoa.ids import new_id
from stoa.rest import idempotency
from stoa.rest.backends import Backend, Backends, Committed
from stoa.rest.body import BodyParts, decode, is_last, read_body
from stoa.rest.call import Call, Caller, Store
from stoa.rest.checks import validation_failed
from stoa.rest.endpoint import JSON_BODY_BYTES, Endpoint
from stoa.rest.group_commit import GroupedCall
from stoa.rest.headers import (
    STREAMS,
    acceptable,
    accepts_gzip,
    bearer_token,
    check_headers,
    has_body,
    method_label,
    versions_allowed,
)
from stoa.rest.limits import LargeWrites
from stoa.rest.lists import read_list
from stoa.rest.metadata import NO_DEFINITIONS
from stoa.rest.parameters import read_parameters
from stoa.rest.problems import (
    InsufficientScope,
    InternalError,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Overloaded,
    Refusal,
    ServiceUnavailable,
    TooManyInFlight,
    ValidationFailed,
    printable,
)
from stoa.rest.request import Access, Observed, Receive, Request, Scope, Send
from stoa.rest.response import SAFE_HEADERS, Response, deprecation_headers, refused, render, send_response
from stoa.rest.streams import Streams
from stoa.rest.unsent import UnsentResponses
from stoa.rest.uploads import UploadSpace, receive_upload, upload_type
from stoa.rest.writes import Write
from stoa.settings import Settings

PREFIX = "/api/v3/app"
_LONGEST_ID = 18
_CLOSE = (b"connection", b"close")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}\Z")


class Router:
    """The endpoints below the API's prefix."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._literal: dict[str, dict[str, Endpoint]] = {}
        self._patterns: dict[int, list[tuple[list[str], dict[str, Endpoint]]]] = {}
        for endpoint in endpoints:
            self._methods_at(endpoint.path)[endpoint.method] = endpoint
        for patterns in self._patterns.values():
            # A literal segment matches before a placeholder, regardless of the order of declaration.
            patterns.sort(key=lambda pattern: [segment.startswith("{") for segment in pattern[0]])

    def _methods_at(self, path: str) -> dict[str, Endpoint]:
        if "{" not in path:
            return self._literal.setdefault(path, {})
        segments = path.split("/")
        patterns = self._patterns.setdefault(len(segments), [])
        for known, methods in patterns:
            if known == segments:
                return methods
        patterns.append((segments, {}))
        return patterns[-1][1]

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, Any]]:
        """The endpoint and its path parameters; GET endpoints also handle HEAD."""
        found = self._at(path)
        if found is None:
            if path.endswith("/") and self._at(path[:-1]) is not None:
                raise NotFound(f"There is no such path. Use {printable(path[:-1])}, without the trailing slash.")
            raise NotFound("There is no such path.")
        methods, values = found
        return self._pick(methods, "GET" if method == "HEAD" else method), values

    def _at(self, path: str) -> tuple[dict[str, Endpoint], dict[str, Any]] | None:
        methods = self._literal.get(path)
        if methods is not None:
            return methods, {}
        segments = path.split("/")
        for pattern, methods in self._patterns.get(len(segments), ()):
            if all(want == got or want[:1] == "{" for want, got in zip(pattern, segments, strict=True)):
                values = _values(next(iter(methods.values())), pattern, segments)
                if values is not None:
                    return methods, values
        return None

    def _pick(self, methods: dict[str, Endpoint], method: str) -> Endpoint:
        endpoint = methods.get(method)
        if endpoint is None:
            allowed = sorted([*methods, "HEAD"] if "GET" in methods else methods)
            raise MethodNotAllowed(
                f"This path supports {', '.join(allowed)}.", headers=[(b"allow", ", ".join(allowed).encode())]
            )
        return endpoint


def _values(endpoint: Endpoint, pattern: list[str], segments: list[str]) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for want, got in zip(pattern, segments, strict=True):
        if not want.startswith("{"):
            continue
        name = want[1:-1]
        if endpoint.path_parameters[name] is int:
            if not (got.isascii() and got.isdigit() and len(got) <= _LONGEST_ID):
                return None
            values[name] = int(got)
        elif got and "\x00" not in got:
            values[name] = got
        else:
            return None
    return values


class Dispatcher:
    """Runs every endpoint the same way, so that handlers contain only their own logic."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        *,
        database: Database,
        access: Access,
        unsent: UnsentResponses,
        uploads: UploadSpace,
        replica: Replica | None = None,
        shards: Shards | None = None,
        public_url: str = "",
        settings: Settings | None = None,
        encryption: idempotency.Encryption | None = None,
        app_concurrency: int = 20,
        max_in_flight: int = 1_000,
        observe: Callable[[Observed], None] = lambda _: None,
        committed: Callable[[Database], Committed] = lambda _: lambda _: None,
    ) -> None:
        self._router = Router(endpoints)
        self._database = database
        self._access = access
        self._unsent = unsent
        self._uploads = uploads
        self._large_writes = LargeWrites()
        directory = Backend(database, encryption, committed(database), replica)
        # With a replica, the request's own token tells which position of the log its reads must see.
        self._limiter = directory.limiter if replica is None else None
        self._backends = Backends(directory, access, shards, encryption, committed)
        self.streams = Streams(self._backends, access, app_concurrency)
        self._public_url = public_url.rstrip("/")
        self._settings = settings or Settings()
        self._app_concurrency = app_concurrency
        self._max_in_flight = max_in_flight
        self._observe = observe
        self._in_flight: dict[tuple[int, int], int] = {}
        self._busy = 0

    @property
    def in_flight(self) -> int:
        """The number of requests that are not answered yet."""
        return self._busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, sub_path: str, handle: str = "") -> None:
        """Answer one request. `sub_path` is the path after the prefix; `handle` is the store if the path names it."""
        started = time.perf_counter()
        arrive()
        path = scope["path"]
        base = path.removesuffix(sub_path)
        body = BodyParts(receive)
        request = Request(scope["method"], path, scope["query_string"], body, sub_path, base, new_id("req"), handle)
        self._busy += 1
        try:
            response = await self._respond(request, scope)
        finally:
            self._busy -= 1  # before the response is sent: clients that read slowly count by their unsent bytes
        left = body.unread and has_body(request.headers) and _CLOSE not in response.headers
        if left and is_last(request.headers):
            response.headers.append(_CLOSE)
        compress = accepts_gzip(request.headers)
        head = request.method == "HEAD"
        answered_at = await send_response(send, response, self._unsent, scope["peer"], head=head, compress=compress)
        self._observe(
            Observed(
                request.request_id,
                method_label(request.method),
                request.operation,
                response.status,
                request.code,
                answered_at - started - (request.call.waited_s if request.call else 0.0),
                request.store.id if request.store else None,
                request.caller.app_id if request.caller else request.refused_app_id,
                request.error,
                request.faults,
                shed=request.shed,
                path=request.sub_path,
                shard=request.store.shard if request.store else "",
            )
        )
        if left and b"expect" not in request.headers:
            await body.discard()

    async def _respond(self, request: Request, scope: Scope) -> Response:
        try:
            response = await self._admit(request, scope)
        except Refusal as refusal:
            response = refused(request, refusal)
        except WaitedTooLong:
            response = refused(request, overloaded("database"))
        except Unavailable as error:
            request.error = error
            response = refused(request, ServiceUnavailable(headers=[(b"retry-after", b"1")]))
        except Exception as error:  # noqa: BLE001 - the last resort: the caller gets only the request id
            request.error = error
            response = refused(request, InternalError())
        response.headers += SAFE_HEADERS
        response.headers.append((b"x-request-id", request.request_id.encode()))
        if request.allowance is not None:
            response.headers += request.allowance.headers()
        response.headers += request.notices
        return response

    async def _admit(self, request: Request, scope: Scope) -> Response:
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        for name, value in raw:
            if name == b"x-request-id" and _REQUEST_ID.match(value):
                request.request_id = value.decode()
                break
        headers = request.headers = check_headers(scope)
        host = request.host = headers.get(b"host", b"").decode("latin-1")
        # Links use the public URL, or the host of the request if the host names the store.
        request.origin = (request.handle and self._public_url) or f"{scope['scheme']}://{host}"
        # Shed load before doing any work, so that admitted requests can finish.
        unsent = self._unsent
        if self._busy > self._max_in_flight:
            raise overloaded("in_flight")
        if self._database.saturated and not self._database.fenced:
            raise overloaded("database")
        if unsent.at_most > unsent.check_above and unsent.exceeded():
            raise overloaded("unsent")
        store = await self._access.store(handle=request.handle, host=host, headers=headers, limiter=self._limiter)
        if store is None:
            raise NotFound("There is no store at this address.")
        if not store.shard and not self._database.fenced:
            return await self._serve(request, store, self._backends.directory)
        try:
            return await self._serve(request, store, await self._backends.of(store))
        except StoreElsewhere:  # it has moved since the store was cached
            if request.received:
                raise
        return await self._serve(request, *await self._backends.locate(request, store))

    async def _serve(self, request: Request, store: Store, backend: Backend) -> Response:
        headers = request.headers
        if backend.database.fenced and backend.database.saturated:
            raise overloaded("database")
        request.store = store
        try:
            endpoint, values = self._router.find(request.method, request.sub_path)
        except Refusal as refusal:
            refusal.app_id = await self._app_of(store, headers, backend)
            raise
        request.operation = endpoint.name
        if endpoint.deprecation is not None:
            request.notices = deprecation_headers(endpoint)
        try:
            caller = request.caller = await self._access.caller(store, bearer_token(headers))
        except Refusal:
            # What a move left behind refuses nobody.
            if backend.database.fenced and not await backend.holds(store.id):
                raise StoreElsewhere from None
            raise
        allowance = await backend.limiter.take(store.id, caller.app_id, 1, caller.burst, caller.refill)
        request.allowance = allowance
        allowance.check()
        if not caller.may(endpoint.scope):
            raise InsufficientScope(
                f"This endpoint requires the scope {endpoint.scope}.", required_scope=endpoint.scope
            )
        key = (store.id, caller.app_id)
        running = self._in_flight.get(key, 0)
        if running >= self._app_concurrency:
            raise TooManyInFlight(
                f"An app may have at most {self._app_concurrency} requests in flight at the same time.",
                headers=[(b"retry-after", b"1")],
            )
        self._in_flight[key] = running + 1
        try:
            return await self._run(request, endpoint, values, backend)
        finally:
            left = self._in_flight[key] - 1
            if left:
                self._in_flight[key] = left
            else:
                del self._in_flight[key]

    async def _app_of(self, store: Store, headers: dict[bytes, bytes], backend: Backend) -> int | None:
        """The app that requests an unknown route, for its request log. The response is the same for every caller."""
        if self._database.full or backend.database.full:  # a line in a log is not worth a wait for a connection
            return None
        try:
            return (await self._access.caller(store, bearer_token(headers))).app_id
        except Refusal as refusal:
            return refusal.app_id
        except (PostgresError, Unavailable):
            return None

    async def _run(self, request: Request, endpoint: Endpoint, values: dict[str, Any], backend: Backend) -> Response:
        headers = request.headers
        store, caller = request.store, request.caller
        if store is None or caller is None:
            raise InternalError
        accepted = acceptable(headers.get(b"accept"), endpoint.offers)
        if accepted is None:
            raise NotAcceptable(f"This endpoint produces {', '.join(endpoint.produces)}.")
        if caller.definitions is not NO_DEFINITIONS:
            store = msgspec.structs.replace(store, definitions=caller.definitions)
        database = backend.database
        call = request.call = Call(database, store, caller, request.request_id, request.base)
        call.accepted, call.headers = accepted.decode(), headers
        call.autocommit, call.settings = database.autocommit, self._settings
        if endpoint.lists is not None:
            query = read_list(endpoint.lists, request.query, store, request.sub_path)
            values["query"] = query
            call.fields, call.include = query.fields, query.include
        elif request.query:
            read_parameters(request, endpoint, call)
        if endpoint.lists is not None and call.accepted in STREAMS:
            return await self.streams.open(request, endpoint, call, values, backend)
        if endpoint.method == "GET":
            if backend.replica is not None and not endpoint.primary:
                call.db = await backend.replica.reader(request.allowance.fence if request.allowance else None)
            if database.fenced:
                call.db = await backend.reading(store.id, call.db, one_by_one=endpoint.primary)
            result = await endpoint.handler(call, **values)
            return render(request, endpoint, call, result)
        call.expected = versions_allowed(headers)
        # A transaction enters its store. What is done outside one must not begin where the store has left.
        alone = not endpoint.transaction or endpoint.before is not None
        if alone and database.fenced and not await backend.holds(store.id):
            raise StoreElsewhere
        request.received = True
        if endpoint.uploads:
            media = upload_type(headers, endpoint.uploads)
            owner = f"app:{caller.app_id}"
            async with receive_upload(request.receive, headers, media, self._uploads, owner) as values["body"]:
                arrive()  # however long the file took
                return await self._write(request, endpoint, call, values, values["body"].digest, backend)
        if endpoint.body_bytes == JSON_BODY_BYTES:
            raw = await read_body(request.receive, headers)
            return await self._write_body(request, endpoint, call, values, raw, backend)
        with self._uploads.reserving(f"app:{caller.app_id}") as reserve:
            raw = await read_body(request.receive, headers, endpoint.body_bytes, reserve)
            return await self._write_body(request, endpoint, call, values, raw, backend)

    async def _write_body(
        self,
        request: Request,
        endpoint: Endpoint,
        call: Call,
        values: dict[str, Any],
        raw: bytes,
        backend: Backend,
    ) -> Response:
        headers, caller = request.headers, call.caller
        if endpoint.body is not None:
            body = decode(raw, headers, endpoint, call)
            if body is not None:
                values["body"] = body
                await self._charge_items(request, caller, body, len(call.refused_items), backend)
        response = await self._write(request, endpoint, call, values, raw, backend)
        if call.document_cost:
            self._large_writes.note(call.store_id, caller.app_id, call.document_cost)
            await self._charge_documents(request, caller, call, backend)
        return response

    async def _charge_documents(self, request: Request, caller: Caller, call: Call, backend: Backend) -> None:
        """Charge a write for the large documents that it wrote, to its event, its tables and its stored response."""
        with suppress(PostgresError, Unavailable):  # the write is committed, and its response must not say otherwise
            charged = await backend.limiter.charge(
                call.store_id, caller.app_id, call.document_cost, caller.burst, caller.refill
            )
            request.allowance = charged or request.allowance

    async def _charge_items(self, request: Request, caller: Caller, body: Any, refused: int, backend: Backend) -> None:
        """Charge a batch one more request for every 50 items, `refused` ones included, but no more than a full bucket has left."""
        items: Any = getattr(body, "items", None)
        extra = (len(cast("list[Any]", items)) + refused) // 50 if isinstance(items, list) else 0
        extra = min(extra, caller.burst - 1)
        if extra and request.store is not None:
            taken = await backend.limiter.take(request.store.id, caller.app_id, extra, caller.burst, caller.refill)
            if not taken.allowed:  # the next try costs a request again, which is refilled in a second at most
                taken = msgspec.structs.replace(taken, retry_in_s=taken.retry_in_s + 1)
            request.allowance = taken
            request.allowance.check()

    async def _write(
        self,
        request: Request,
        endpoint: Endpoint,
        call: Call,
        values: dict[str, Any],
        raw: bytes,
        backend: Backend,
    ) -> Response:
        key = idempotency.read_key(request.headers.get(b"idempotency-key"))
        named = (request.method, request.path, request.query, raw, call.caller.installation)
        fingerprint = b""
        if key and len(raw) > JSON_BODY_BYTES:
            fingerprint = await asyncio.to_thread(idempotency.fingerprint, *named)
        elif key:
            fingerprint = idempotency.fingerprint(*named)
        turn = self._large_writes.turn(call.store_id, call.caller.app_id)
        write = Write(request, endpoint, call, values, key, fingerprint, turn)
        if not endpoint.transaction:
            return await backend.writes.outside_transaction(write)
        try:
            return await _carry_out(write, len(raw), backend)
        except StoreElsewhere:  # it has moved since the request arrived, and nothing that counts was written
            _, backend = await self._backends.locate(request, call.store)
            call.autocommit = backend.database.autocommit
            return await _carry_out(write, len(raw), backend)


async def _carry_out(write: Write, size: int, backend: Backend) -> Response:
    """Carry out a write where the store is. What comes before its transaction is repeated if the store has moved meanwhile."""
    endpoint, call = write.endpoint, write.call
    if endpoint.before is not None:
        try:
            with clock_stopped():
                await endpoint.before(call, **write.values)
        except ValidationFailed as refusal:
            raise validation_failed([*call.faults, *refusal.faults]) from refusal
    if endpoint.grouped is not None and not call.faults:
        values = tuple(write.values.values())
        name = (call.caller.app_id, write.key) if write.key is not None else None
        grouped = GroupedCall(write.request, call, values, size, name, write.fingerprint)
        async with write.turn:
            return await backend.group_commit.submit(endpoint, grouped)
    return await backend.writes.in_transaction(write)


def overloaded(reason: Literal["in_flight", "database", "unsent"]) -> Refusal:
    """The refusal of a request that is shed, because too many run, wait for a connection too long, or are not taken."""
    refusal = Overloaded(headers=[(b"retry-after", b"1")])
    refusal.shed = reason
    return refusal
