"""The life of a request: found, admitted, decoded, carried out in at most one transaction, answered."""

import asyncio
import random
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.ids import new_id
from stoa.rest import idempotency
from stoa.rest.batch import Batch
from stoa.rest.body import convert, parse
from stoa.rest.endpoint import Accepted, Access, Call, Caller, Created, Endpoint, NoContent, One, Store, Stream
from stoa.rest.filters import InvalidValue
from stoa.rest.limits import Allowance, RateLimiter
from stoa.rest.lists import Page, no_parameters, read_list
from stoa.rest.problems import (
    Fault,
    InsufficientScope,
    InternalError,
    InvalidParameter,
    InvalidToken,
    MalformedJson,
    MissingToken,
    NotAcceptable,
    NotFound,
    RateLimited,
    Refusal,
    ServiceUnavailable,
    UnsupportedMediaType,
    ValidationFailed,
)
from stoa.rest.routing import Router
from stoa.rest.wire import (
    SAFE_HEADERS,
    ClientGone,
    Headers,
    Receive,
    Response,
    Scope,
    Send,
    acceptable,
    accepts_gzip,
    check_headers,
    read_body,
    receive_upload,
    send_response,
)

PREFIX = "/api/v3/app"
_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}\Z")
_TRIES = 4


class Observed(msgspec.Struct):
    """What is worth knowing of a request once it is answered."""

    request_id: str
    method: str
    operation: str
    status: int
    code: str
    seconds: float
    store_id: int | None
    app_id: int | None
    error: BaseException | None


class Request:
    """A request on its way through the dispatcher, and what is known of it so far."""

    __slots__ = ("allowance", "caller", "code", "endpoint", "error", "headers", "method", "origin", "path", "query",
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
        self.code = ""
        self.error: BaseException | None = None


class Dispatcher:
    """Runs every endpoint alike, so that an endpoint itself is only its story."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        *,
        database: Database,
        access: Access,
        public_url: str = "",
        app_concurrency: int = 20,
        max_in_flight: int = 1_000,
        observe: Callable[[Observed], None] = lambda _: None,
    ) -> None:
        self._router = Router(endpoints)
        self._database = database
        self._access = access
        self._limiter = RateLimiter(database)
        self._public_url = public_url
        self._app_concurrency = app_concurrency
        self._max_in_flight = max_in_flight
        self._observe = observe
        self._in_flight: dict[tuple[int, int], int] = {}
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, sub_path: str, handle: str = "") -> None:
        """Answer one request; `sub_path` is what follows the prefix, `handle` the store when the path names it."""
        started = time.perf_counter()
        request = Request(scope, receive, sub_path)
        self._busy += 1
        try:
            response = await self._respond(request, scope, handle)
            pack = accepts_gzip(request.headers)
            await send_response(send, response, head=request.method == "HEAD", pack=pack)
        except ClientGone:
            return
        finally:
            self._busy -= 1
        self._observe(
            Observed(
                request.request_id,
                request.method,
                request.endpoint.name if request.endpoint else "",
                response.status,
                request.code,
                time.perf_counter() - started,
                request.store.id if request.store else None,
                request.caller.app_id if request.caller else None,
                request.error,
            )
        )

    async def _respond(self, request: Request, scope: Scope, handle: str) -> Response:
        try:
            response = await self._admit(request, scope, handle)
        except Refusal as refusal:
            response = self._refused(request, refusal)
        except Unavailable as error:
            request.error = error
            response = self._refused(request, ServiceUnavailable(headers=[(b"retry-after", b"1")]))
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - the last line of defence: the caller learns only the id
            request.error = error
            response = self._refused(request, InternalError())
        response.headers += SAFE_HEADERS
        response.headers.append((b"x-request-id", request.request_id.encode()))
        if request.allowance is not None:
            response.headers += request.allowance.headers()
        if request.endpoint is not None and request.endpoint.deprecation is not None:
            response.headers += _deprecation_headers(request.endpoint)
        return response

    def _refused(self, request: Request, refusal: Refusal) -> Response:
        request.code = refusal.code
        headers = [_PROBLEM, *refusal.headers]
        if refusal.status == 401:
            headers.append((b"www-authenticate", self._challenge(request, refusal)))
        elif isinstance(refusal, InsufficientScope):
            scope = refusal.members.get("required_scope", "")
            headers.append(
                (
                    b"www-authenticate",
                    f'Bearer realm="stoa", error="insufficient_scope", scope="{scope}"'.encode(),
                )
            )
        body = refusal.body(origin=request.origin, instance=request.path, request_id=request.request_id)
        return Response(refusal.status, headers, body)

    def _challenge(self, request: Request, refusal: Refusal) -> bytes:
        base = request.path.removesuffix(request.sub_path)
        metadata = f'resource_metadata="{request.origin}/.well-known/oauth-protected-resource{base}"'
        if isinstance(refusal, MissingToken):
            return f'Bearer realm="stoa", {metadata}'.encode()
        return f'Bearer realm="stoa", error="invalid_token", error_description="{refusal.title}", {metadata}'.encode()

    async def _admit(self, request: Request, scope: Scope, handle: str) -> Response:
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        for name, value in raw:
            if name == b"x-request-id" and _REQUEST_ID.match(value):
                request.request_id = value.decode()
                break
        headers = request.headers = check_headers(raw)
        host = headers.get(b"host", b"").decode("latin-1")
        # The public address is the service's own; a store's host form is reached as the caller reached it.
        request.origin = (handle and self._public_url) or f"{scope['scheme']}://{host}"
        if self._busy > self._max_in_flight:
            raise ServiceUnavailable("Too many requests are being served.", headers=[(b"retry-after", b"1")])
        store = await (self._access.store(handle=handle) if handle else self._access.store(host=host))
        if store is None:
            raise NotFound("There is no store at this address.")
        request.store = store
        endpoint, values = self._router.find(request.method, request.sub_path)
        request.endpoint = endpoint
        caller = request.caller = await self._access.caller(store, _token(headers))
        allowance = await self._limiter.take(store.id, caller.app_id, 1, caller.burst, caller.refill)
        request.allowance = allowance
        _check_allowance(allowance)
        if not caller.may(endpoint.scope):
            raise InsufficientScope(f"This needs {endpoint.scope}.", required_scope=endpoint.scope)
        key = (store.id, caller.app_id)
        running = self._in_flight.get(key, 0)
        if running >= self._app_concurrency:
            raise RateLimited(
                f"At most {self._app_concurrency} requests may run at the same time.",
                headers=[(b"retry-after", b"1")],
            )
        self._in_flight[key] = running + 1
        try:
            return await self._run(request, endpoint, values)
        finally:
            left = self._in_flight[key] - 1
            if left:
                self._in_flight[key] = left
            else:
                del self._in_flight[key]

    async def _run(self, request: Request, endpoint: Endpoint, values: dict[str, Any]) -> Response:
        headers = request.headers
        store, caller = request.store, request.caller
        if store is None or caller is None:
            raise InternalError
        accepted = acceptable(headers.get(b"accept"), [media.encode() for media in endpoint.produces])
        if accepted is None:
            raise NotAcceptable(f"This endpoint answers {', '.join(endpoint.produces)}.")
        base = request.path.removesuffix(request.sub_path)
        call = Call(self._database, store, caller, request.request_id, base)
        call.accepted, call.headers = accepted.decode(), headers
        if endpoint.lists is not None:
            query = read_list(endpoint.lists, request.query, store)
            values["query"] = query
            call.fields, call.include = query.fields, query.include
        else:
            _single_parameters(request.query, endpoint, call, store)
        if endpoint.method == "GET":
            answer = await endpoint.handler(call, **values)
            return self._render(request, endpoint, call, answer)
        call.expected = _versions(headers.get(b"if-match"))
        if endpoint.uploads:
            media = _upload_type(headers, endpoint)
            async with receive_upload(request.receive, headers, media) as values["body"]:
                return await self._write(request, endpoint, call, values, values["body"].digest)
        raw = await read_body(request.receive, headers)
        if endpoint.body is not None:
            body = _decode(raw, headers, endpoint, call)
            if body is not None:
                values["body"] = body
                await self._charge(request, caller, body)
        return await self._write(request, endpoint, call, values, raw)

    async def _charge(self, request: Request, caller: Caller, body: Any) -> None:
        """A batch costs one more for every fifty items."""
        extra = len(getattr(body, "items", ())) // 50
        if extra and request.store is not None:
            request.allowance = await self._limiter.take(
                request.store.id, caller.app_id, extra, caller.burst, caller.refill
            )
            _check_allowance(request.allowance)

    async def _write(
        self, request: Request, endpoint: Endpoint, call: Call, values: dict[str, Any], raw: bytes
    ) -> Response:
        key = idempotency.read_key(request.headers.get(b"idempotency-key"))
        mark = idempotency.fingerprint(request.method, request.path, request.query, raw) if key else b""
        for left in reversed(range(_TRIES)):
            try:
                async with self._database.transaction() as db:
                    call.db = db
                    if key:
                        before = await idempotency.claim(db, call.store_id, call.caller.app_id, key, mark)
                        if before is not None:
                            return before
                    answer = await endpoint.handler(call, **values)
                    response = self._render(request, endpoint, call, answer)
                    if key:
                        await idempotency.remember(db, call.store_id, call.caller.app_id, key, response)
                if isinstance(answer, Accepted) and answer.settled is not None:
                    call.db = self._database
                    settled = await answer.settled()
                    return self._render(request, endpoint, call, settled, status=200) if settled else response
                return response
            except PostgresError as error:
                if sqlstate(error) not in RETRYABLE or not left:
                    raise
                await asyncio.sleep(random.uniform(0.005, 0.05) * (_TRIES - left))  # noqa: S311
        raise InternalError

    def _render(
        self, request: Request, endpoint: Endpoint, call: Call, answer: Any, status: int | None = None
    ) -> Response:
        if isinstance(answer, Page):
            return self._render_page(request, call, cast("Page[Any]", answer))
        if isinstance(answer, Batch):
            batch = cast("Batch[Any]", answer)
            return Response(207 if batch.failed else 200, [_JSON], batch.body())
        if isinstance(answer, Stream):
            return Response(200, [(b"content-type", answer.media.encode())], b"", answer.parts)
        if isinstance(answer, NoContent):
            return Response(204, [], b"")
        if not isinstance(answer, One):
            raise TypeError(f"{endpoint.name} answered {type(answer).__name__}")
        tag = _tag(answer.version, request)
        if request.method in ("GET", "HEAD") and _listed(request.headers.get(b"if-none-match"), tag):
            return Response(304, [(b"etag", tag)], b"")
        doc = answer.doc if call.fields is None else _only_fields(answer.doc, call.fields)
        headers: Headers = [_JSON, (b"etag", tag)]
        if isinstance(answer, Created):
            headers.append((b"location", f"{request.origin}{call.base}{answer.path}".encode()))
        return Response(status or endpoint.status, headers, f'{{"data":{doc},"meta":{{}}}}'.encode())

    def _render_page(self, request: Request, call: Call, page: Page[Any]) -> Response:
        headers: Headers = [_JSON]
        if page.next_cursor or page.prev_cursor:
            headers.append((b"link", page.links(request.origin + request.path).encode()))
        docs = page.docs
        if call.fields is not None:
            fields = call.fields
            docs = [_only_fields(doc, fields) for doc in docs]
        return Response(200, headers, f'{{"data":[{",".join(docs)}],"meta":{page.meta()}}}'.encode())


def _check_allowance(allowance: Allowance) -> None:
    if not allowance.allowed:
        raise RateLimited(
            f"At most {allowance.burst} requests at once and {allowance.refill} a second.",
            headers=[(b"retry-after", b"%d" % allowance.retry_in_s)],
        )


def _token(headers: Mapping[bytes, bytes]) -> str:
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


def _upload_type(headers: Mapping[bytes, bytes], endpoint: Endpoint) -> str:
    media = headers.get(b"content-type", b"").lower().partition(b";")[0].strip().decode("latin-1")
    if media not in endpoint.uploads:
        words = ", ".join(endpoint.uploads)
        raise UnsupportedMediaType(f"Send one of {words}.", headers=[(b"accept-post", words.encode())])
    return media


def _single_parameters(query: bytes, endpoint: Endpoint, call: Call, store: Store) -> None:
    """`fields`, `include` and the own parameters of an endpoint that is no list."""
    if not query:
        return
    allowed = [*(["fields"] if endpoint.resource else []), *(["include"] if endpoint.includes else [])]
    given = no_parameters(query, [*allowed, *endpoint.parameters])
    faults: list[Fault] = []
    for name, kind in endpoint.parameters.items():
        if name in given:
            try:
                call.parameters[name] = kind.read(given[name], store)
            except InvalidValue as error:
                faults.append(Fault(name, "invalid_parameter", str(error)))
    if faults:
        raise InvalidParameter(f"{len(faults)} parameter(s) cannot be read.", faults=faults)
    if "fields" in given and endpoint.resource:
        known = {field.encode_name for field in msgspec.structs.fields(endpoint.resource)}
        call.fields = frozenset(given["fields"].split(","))
        if not call.fields <= known:
            raise InvalidParameter(f"fields knows {', '.join(sorted(known))}.")
    if "include" in given:
        call.include = frozenset(given["include"].split(","))
        if not call.include <= set(endpoint.includes):
            raise InvalidParameter(f"include knows {', '.join(endpoint.includes)}.")


_BODY_TYPES = {b"application/json"}
_PATCH_TYPES = {b"application/json", b"application/merge-patch+json"}


def _decode(raw: bytes, headers: Mapping[bytes, bytes], endpoint: Endpoint, call: Call) -> Any:
    media, _, parameters = headers.get(b"content-type", b"").lower().partition(b";")
    allowed = _PATCH_TYPES if endpoint.method == "PATCH" else _BODY_TYPES
    if not raw and not endpoint.body_required and not media:
        return None
    if media.strip() not in allowed or (b"charset" in parameters and b"utf-8" not in parameters):
        raise UnsupportedMediaType(
            "Send the body as application/json in UTF-8.",
            headers=[
                (
                    b"accept-patch" if endpoint.method == "PATCH" else b"accept-post",
                    b", ".join(sorted(allowed)),
                )
            ],
        )
    if not raw:
        raise MalformedJson("A body is needed.")
    value = parse(raw)
    if not isinstance(value, dict):
        raise ValidationFailed("The body must be a JSON object.")
    members = cast("dict[str, Any]", value)
    body: Any = convert(
        members, cast("type[Any]", endpoint.body), digits=call.store.digits, read_only=endpoint.read_only
    )
    call.echoed = {name: member for name, member in members.items() if name in endpoint.read_only}
    call.patch = {name: member for name, member in members.items() if name not in endpoint.read_only}
    return body


_VERSION = re.compile(rb'"(\d{1,9})[^"]*"\Z')


def _tag(version: int, request: Request) -> bytes:
    """A strong tag differs with the bytes: the version first, then which parts and packing were asked for."""
    chosen = b"-%08x" % zlib.crc32(request.query) if request.query else b""
    return b'"%d%s%s"' % (version, chosen, b"-gz" if accepts_gzip(request.headers) else b"")


def _versions(header: bytes | None) -> frozenset[int] | None:
    """The versions that If-Match allows; what is no version of ours matches nothing."""
    if header is None or header.strip() == b"*":
        return None
    return frozenset(int(match[1]) for part in header.split(b",") if (match := _VERSION.match(part.strip())))


def _listed(header: bytes | None, tag: bytes) -> bool:
    if header is None:
        return False
    return header.strip() == b"*" or any(part.strip().removeprefix(b"W/") == tag for part in header.split(b","))


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _only_fields(doc: str, fields: frozenset[str]) -> str:
    members = _members.decode(doc)
    return msgspec.json.encode({name: raw for name, raw in members.items() if name in fields}).decode()


def _deprecation_headers(endpoint: Endpoint) -> Headers:
    going = endpoint.deprecation
    if going is None:
        return []
    since = int(datetime(going.since.year, going.since.month, going.since.day, tzinfo=UTC).timestamp())
    sunset = going.sunset.strftime("%a, %d %b %Y 00:00:00 GMT")
    return [
        (b"deprecation", b"@%d" % since),
        (b"sunset", sunset.encode()),
        (b"link", f'<{going.guide}>; rel="deprecation"; type="text/html"'.encode()),
    ]
