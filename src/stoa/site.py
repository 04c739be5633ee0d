"""Health checks and event schemas, and the responses to unknown addresses and internal errors outside the app API."""

import html
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stoa.api import EVENTS
from stoa.ids import new_id
from stoa.operations.readiness import Readiness
from stoa.operations.telemetry import fault
from stoa.reference.routes import SAFE, not_found
from stoa.rest.headers import method_label
from stoa.rest.problems import InternalError, MethodNotAllowed, NotFound, Refusal
from stoa.rest.request import Receive, Scope, Send
from stoa.webhooks.api.schemas import schema_bytes

HEALTH = ("/live", "/ready")  # answered also under overload, because the response may end the process
_REFUSAL_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<title>{0}</title><main><h1>{0}</h1><p>{1}</p></main></html>"
)
_DOCUMENTATION = ("/docs/", "/problems/")


def routes(readiness: Readiness) -> list[Route]:
    async def live(_: Request) -> Response:
        return JSONResponse({"status": "live"}, headers=SAFE)

    async def ready(request: Request) -> Response:
        response = await (readiness.check_deeply() if "deep" in request.query_params else readiness.check())
        retry = {"Retry-After": str(response.retry_after_s)} if response.retry_after_s else {}
        return JSONResponse(response.body, response.status, headers={**SAFE, **retry})

    async def home(_: Request) -> Response:
        return RedirectResponse("/docs")

    return [
        Route("/", home),
        Route("/live", live),
        Route("/ready", ready),
        Route("/schemas/events/{type}", _event_schema),
    ]


async def _event_schema(request: Request) -> Response:
    event = EVENTS.get(request.path_params["type"])
    if event is None:
        raise HTTPException(404)
    return Response(schema_bytes(event), media_type="application/schema+json", headers=SAFE)


def answered_by(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """The handler of a path that apps call often, without the router and the layers around it."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await handle(request)
        except Exception as error:  # noqa: BLE001 - the caller gets only the request id
            response = await _internal_error(request, error)
        await response(scope, receive, send)

    return answer


def problem_response(request: Request, refusal: Refusal, request_id: str = "", **headers: str) -> Response:
    """An error outside the app API, in the same format as inside it."""
    request_id = request_id or new_id("req")
    body = refusal.body(origin=_origin(request), instance=html.escape(request.url.path), request_id=request_id)
    own = {name.decode(): value.decode() for name, value in refusal.headers}
    return Response(
        body,
        refusal.status,
        headers={**SAFE, **own, **headers, "X-Request-Id": request_id},
        media_type="application/problem+json",
    )


def refusal_response(request: Request, refusal: Refusal) -> Response:
    """A refusal before the request is routed: a page for a browser, a problem document for everyone else."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem_response(request, refusal)
    own = {name.decode(): value.decode() for name, value in refusal.headers}
    body = _REFUSAL_PAGE.format(html.escape(refusal.title), html.escape(refusal.detail))
    return HTMLResponse(body, refusal.status, headers={**SAFE, **own, "Content-Security-Policy": "default-src 'none'"})


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404 and _wants_page(request):
        return await not_found(request)
    headers: Mapping[str, str] = (error.headers or {}) if isinstance(error, HTTPException) else {}
    refusal: Refusal = MethodNotAllowed() if status == 405 else NotFound("There is no page at this URL.")
    return problem_response(request, refusal, **headers, Vary="Accept")


def _wants_page(request: Request) -> bool:
    """Whether the caller is a browser. At the documentation, callers that do not say what they accept are browsers too."""
    accepted = request.headers.get("accept", "*/*")
    if request.method not in ("GET", "HEAD"):
        return False
    return "text/html" in accepted or ("*/*" in accepted and request.url.path.startswith(_DOCUMENTATION))


async def _internal_error(request: Request, error: Exception) -> Response:
    """The caller receives only the request id; the log has the cause."""
    refusal, request_id = InternalError(), new_id("req")
    structlog.get_logger().error(
        "request",
        request_id=request_id,
        method=method_label(request.method),
        status=500,
        code=refusal.code,
        **fault(error),
    )
    return problem_response(request, refusal, request_id)


def _origin(request: Request) -> str:
    return str(request.base_url).rstrip("/")


EXCEPTION_HANDLERS: dict[Any, Any] = {404: _http_error, 405: _http_error, Exception: _internal_error}
