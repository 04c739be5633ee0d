"""A fake transport for tests of apps: it answers from the examples of the API, without a service.

A test can set the response or the error of an operation, and reads which requests the app has sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, TypeAlias, Unpack, cast
from urllib.parse import parse_qsl, unquote

import httpx
import msgspec

from stoa_client.client import AsyncClient, Client, Options
from stoa_client.decoding import decode
from stoa_client.errors import ApiError
from stoa_client.operations import OPERATIONS, OperationId
from stoa_client.requests import PREFIX
from stoa_client.routes import Route, route_of

Data: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Code: TypeAlias = str | type[ApiError]
BASE_URL = "https://store.example"
_PAGE = 50
_EXAMPLES: dict[str, Any] = decode((files("stoa_client") / "examples.json").read_bytes(), dict[str, Any])


def _whole(value: Any) -> Any:
    """A copy of an example, with the objects that several examples share."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if "$shared" in members:
            return _whole(_EXAMPLES["shared"][members["$shared"]])
        return {name: _whole(each) for name, each in members.items()}
    return [_whole(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _known(name: str, names: Iterable[str], what: str) -> str:
    """The name, or ValueError with a similar one."""
    known = list(names)
    if name in known:
        return name
    similar = get_close_matches(name, known, 1)
    raise ValueError(f"{name!r} is not {what}" + (f"; did you mean {similar[0]!r}?" if similar else ""))


def example_event(event_type: str) -> dict[str, Any]:
    """The example payload of an event, such as `order.created`; sign it with `webhooks.sign` to test a receiver."""
    return _whole(_EXAMPLES["events"][_known(event_type, _EXAMPLES["events"], "an event")])


def example_answer(operation: OperationId) -> Any:
    """The example response body of an operation; None if it has none."""
    return _whole(_EXAMPLES["answers"][_known(operation, OPERATIONS, "an operation")].get("body"))


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request that the app has sent."""

    operation: OperationId
    method: str
    path: str
    parameters: Mapping[str, str]
    """The values of the placeholders in the path, such as `product_id`."""
    query: Mapping[str, str]
    body: Any
    """The decoded JSON, the bytes of a file, or None."""
    headers: httpx.Headers


class _Plan(msgspec.Struct):
    """What to answer, and how often; None is always."""

    times: int | None
    data: Data | None = None
    status: int | None = None
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    problem: Mapping[str, Any] | None = None
    failure: str | None = None


class FakeTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers every operation with its example, unless the test sets another response."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self._plans: dict[str, list[_Plan]] = {}

    def client(self, **options: Unpack[Options]) -> Client:
        """A client that sends its requests to this transport."""
        return Client(BASE_URL, http=httpx.Client(transport=self), **_with_token(options))

    def async_client(self, **options: Unpack[Options]) -> AsyncClient:
        return AsyncClient(BASE_URL, http=httpx.AsyncClient(transport=self), **_with_token(options))

    def answer(
        self,
        operation: OperationId,
        data: Data | None = None,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        times: int | None = None,
    ) -> None:
        """Set what an operation answers: members of a resource, or a list of resources, which are read in pages.

        The members replace those of the example. `content` is a raw body instead, such as CSV. With `times`, the operation
        answers so this often, and then as before.
        """
        self._plan(operation, _Plan(times, data, status, headers or {}, content))

    def refuse(self, operation: OperationId, code: Code, *, times: int | None = None, **members: Any) -> None:
        """Let an operation fail with an error code, given by name or class; `members` are added to the problem document."""
        name = code if isinstance(code, str) else code.code
        problems: dict[str, Any] = _EXAMPLES["problems"]
        _known(name, problems, "an error code")
        own = _EXAMPLES["answers"][_known(operation, OPERATIONS, "an operation")]["codes"]
        if name not in own and not problems[name].get("usual"):
            raise ValueError(f"{operation} does not fail with {name}, but with {', '.join(own)}")
        self._plan(operation, _Plan(times, problem={"code": name, **problems[name], **members}))

    def disconnect(self, operation: OperationId, *, times: int | None = None) -> None:
        """Let the connection break before the response to an operation."""
        self._plan(operation, _Plan(times, failure="the fake transport broke the connection"))

    def requests_of(self, operation: OperationId) -> list[RecordedRequest]:
        _known(operation, OPERATIONS, "an operation")
        return [request for request in self.requests if request.operation == operation]

    def _plan(self, operation: OperationId, plan: _Plan) -> None:
        _known(operation, OPERATIONS, "an operation")
        plans = self._plans.get(operation, [])
        limited = [each for each in plans if each.times is not None]
        lasting = [plan] if plan.times is None else [plan, *(each for each in plans if each.times is None)]
        self._plans[operation] = [*limited, *lasting]  # what it answers always comes last

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self._respond(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self._respond(request)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/oauth/token"):
            return httpx.Response(200, json={"access_token": "test", "expires_in": 3600, "token_type": "Bearer"})
        path = request.url.raw_path.decode().partition("?")[0].partition(PREFIX)[2]
        route = route_of(request.method, path)
        if route is None:
            raise LookupError(f"no operation has the path {request.method} {path}")
        recorded = _recorded(request, route)
        self.requests.append(recorded)
        answer = self._next(route.operation)
        if answer.failure is not None:
            raise httpx.ReadError(answer.failure, request=request)
        request_id = f"req_test{len(self.requests):016}"
        if answer.problem is not None:
            return _problem(answer, recorded, request_id)
        return _success(answer, recorded, request_id)

    def _next(self, operation: OperationId) -> _Plan:
        plans = self._plans.get(operation, [])
        if not plans:
            return _Plan(None)
        if plans[0].times is not None:
            plans[0].times -= 1
            if plans[0].times <= 0:
                return plans.pop(0)
        return plans[0]


def _with_token(options: Options) -> Options:
    return options if options.get("client_id") or options.get("token") else {**options, "token": "test"}


def _recorded(request: httpx.Request, route: Route) -> RecordedRequest:
    content: Any = request.content or None
    if content is not None and request.headers.get("content-type") == "application/json":
        content = decode(content, Any)
    query = dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
    parameters = {name: unquote(value) for name, value in route.parameters.items()}
    return RecordedRequest(route.operation, request.method, route.path, parameters, query, content, request.headers)


def _problem(answer: _Plan, request: RecordedRequest, request_id: str) -> httpx.Response:
    problem = {name: value for name, value in (answer.problem or {}).items() if name != "usual"}
    whole = {
        "type": f"{BASE_URL}/problems/{problem['code']}",
        "detail": problem["title"],
        "instance": request.path,
        "request_id": request_id,
        **problem,
    }
    headers = {"content-type": "application/problem+json", "x-request-id": request_id}
    if problem["status"] in (429, 503):
        headers["retry-after"] = "0"  # so that a test of retries does not wait
    return httpx.Response(problem["status"], headers=headers, content=msgspec.json.encode(whole))


def _success(answer: _Plan, request: RecordedRequest, request_id: str) -> httpx.Response:
    example: dict[str, Any] = _EXAMPLES["answers"][request.operation]
    status = answer.status or example["status"]
    headers = {"x-request-id": request_id, **answer.headers}
    if answer.content is not None:
        return httpx.Response(status, headers=headers, content=answer.content)
    if "body" not in example:
        return httpx.Response(status, headers=headers)
    body: dict[str, Any] = _whole(example["body"])
    sent = _items(request.body)
    if sent is not None and answer.data is None:
        body = _batch(body["data"], sent)
    elif isinstance(body["data"], list):
        if answer.data is not None:
            body["data"] = [{**body["data"][0], **each} for each in cast("Sequence[Mapping[str, Any]]", answer.data)]
        if "next_cursor" in body["meta"] and request.method == "GET":
            return _list(body, request, status, headers)
    else:
        body["data"] = {**_requested(body["data"], request), **cast("Mapping[str, Any]", answer.data or {})}
        if "version" in body["data"]:
            headers.setdefault("etag", f'"{body["data"]["version"]}"')
        body["data"] = _selected(body["data"], request)
    return httpx.Response(status, headers=headers, json=body)


def _requested(data: dict[str, Any], request: RecordedRequest) -> dict[str, Any]:
    """The example with the id that the path names."""
    last = request.path.rpartition("/")[2]
    if not last.startswith("{") or "id" not in data:
        return data
    value = request.parameters[last[1:-1]]
    return {**data, "id": int(value) if isinstance(data["id"], int) else value}


def _selected(data: dict[str, Any], request: RecordedRequest) -> dict[str, Any]:
    fields = request.query.get("fields")
    return {name: data[name] for name in fields.split(",") if name in data} if fields else data


def _items(body: Any) -> int | None:
    """The number of items in the body of a batch; None if it is another body."""
    items = cast("dict[str, Any]", body).get("items") if isinstance(body, dict) else None
    return len(cast("list[Any]", items)) if isinstance(items, list) else None


def _batch(examples: Any, sent: int) -> dict[str, Any]:
    """A result for each item that was sent."""
    if isinstance(examples, dict):  # a call that also takes one resource
        resource = cast("dict[str, Any]", examples)
        examples = [{"index": 0, "status": "created", "id": resource["id"], "resource": resource, "error": None}]
    data = [{**examples[min(index, len(examples) - 1)], "index": index} for index in range(sent)]
    return {"data": data, "meta": {"total": sent, "succeeded": sent, "failed": 0}}


def _list(body: dict[str, Any], request: RecordedRequest, status: int, headers: dict[str, str]) -> httpx.Response:
    """A page of the list, or the whole list as a stream."""
    after = int(request.query.get("after", 0))  # a feed continues after this event
    rows = [_selected(row, request) for row in body["data"] if row.get("sequence", after + 1) > after]
    start = int(request.query.get("cursor", "c0")[1:]) + _limit(request) * (int(request.query.get("page", 1)) - 1)
    if request.headers.get("accept") == "application/x-ndjson":
        sent = rows[start:]
        end = {"total": len(rows), "count": len(sent), "cursor": f"c{len(rows)}", "complete": True}
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in [*sent, {"meta": end}])
        return httpx.Response(status, headers={"content-type": "application/x-ndjson", **headers}, content=lines)
    limit = _limit(request)
    following = f"c{start + limit}" if start + limit < len(rows) else None
    previous = f"c{max(0, start - limit)}" if start else None
    meta = {"total": len(rows), "limit": limit, "next_cursor": following, "prev_cursor": previous}
    page = {"data": rows[start : start + limit], "meta": {**body["meta"], "page": start // limit + 1, **meta}}
    return httpx.Response(status, headers=headers, json=page)


def _limit(request: RecordedRequest) -> int:
    return int(request.query.get("limit", _PAGE))
