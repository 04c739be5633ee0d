"""Everything outside the app API: health checks, the OpenAPI document, the documentation pages, and event schemas."""

import gzip
import hashlib
import html
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stoa.api import EVENTS
from stoa.db import migrate
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.description import openapi_bytes
from stoa.guides.library import pictures
from stoa.ids import new_id
from stoa.reference import page as reference_page
from stoa.rest.fault_codes import FAULT_CODES
from stoa.rest.problems import InternalError, MethodNotAllowed, NotFound, Refusal
from stoa.rest.request import method_label
from stoa.telemetry import fault
from stoa.webhooks.api.schemas import schema_bytes

_SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_PAGE = {**_SAFE, "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                                             "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"}  # fmt: skip


def routes(database: Database) -> list[Route]:
    async def live(_: Request) -> Response:
        return JSONResponse({"status": "live"}, headers=_SAFE)

    async def ready(_: Request) -> Response:
        try:
            version = await migrate.version(database)
        except Unavailable:
            return JSONResponse({"status": "no database"}, 503, headers={**_SAFE, "Retry-After": "1"})
        if version < migrate.LATEST:
            body = {"status": "schema is behind", "schema": version, "needs": migrate.LATEST}
            return JSONResponse(body, 503, headers={**_SAFE, "Retry-After": "5"})
        return JSONResponse({"status": "ready", "schema": version}, headers=_SAFE)

    async def home(_: Request) -> Response:
        return RedirectResponse("/docs")

    async def description(_: Request) -> Response:
        return Response(openapi_bytes(), media_type="application/json", headers=_SAFE)

    async def reference(request: Request) -> Response:
        page, compressed, etag = _reference(request.url.path.rstrip("/"), _theme(request))
        headers = {**_PAGE, "Cache-Control": "private, max-age=60", "ETag": etag, "Vary": "Accept-Encoding, Cookie"}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return HTMLResponse(compressed, headers={**headers, "Content-Encoding": "gzip"})
        return HTMLResponse(page, headers=headers)

    return [
        Route("/", home),
        Route("/live", live),
        Route("/ready", ready),
        Route("/openapi.json", description),
        Route("/docs", reference),
        Route("/docs/assets/{asset}", _asset),
        Route("/docs/guides/{name}.svg", _picture),
        Route("/docs/{page:path}", reference),
        Route("/problems/{code}", _problem),
        Route("/schemas/events/{type}", _event_schema),
    ]


def _theme(request: Request) -> str:
    """The theme that the reader chose in the portal."""
    chosen = request.cookies.get("stoa_theme") or request.cookies.get("__Host-stoa_theme", "")
    return chosen if chosen in ("light", "dark") else ""


@cache
def _reference(address: str, theme: str) -> tuple[bytes, bytes, str]:
    """A page of the reference, plain and compressed, with its ETag; it changes only with a release."""
    render = reference_page.addresses().get(address)
    if render is None:
        raise HTTPException(404)
    page = reference_page.themed(render(), theme).encode()
    return page, gzip.compress(page), f'"{hashlib.sha256(page).hexdigest()[:16]}"'


async def _asset(request: Request) -> Response:
    found = reference_page.asset(request.path_params["asset"])
    if found is None:
        raise HTTPException(404)
    content, media = found
    return Response(content, media_type=media, headers={**_SAFE, "Cache-Control": "max-age=300"})


async def _picture(request: Request) -> Response:
    found = pictures().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    # A picture has its own inline styles, and loads nothing.
    headers = {
        **_SAFE,
        "Cache-Control": "max-age=300",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(found, media_type="image/svg+xml", headers=headers)


async def _problem(request: Request) -> Response:
    code = request.path_params["code"]
    kind = Refusal.known.get(code)
    if kind is not None:
        page = reference_page.problem(kind.code, kind.status, kind.title, inspect.getdoc(kind) or "", kind.retryable)
    elif code in FAULT_CODES:
        page = reference_page.fault(code, FAULT_CODES[code])
    else:
        raise HTTPException(404)
    return HTMLResponse(reference_page.themed(page, _theme(request)), headers=_PAGE)


async def _event_schema(request: Request) -> Response:
    event = EVENTS.get(request.path_params["type"])
    if event is None:
        raise HTTPException(404)
    return Response(schema_bytes(event), media_type="application/schema+json", headers=_SAFE)


def problem_response(request: Request, refusal: Refusal, request_id: str = "", **headers: str) -> Response:
    """An error outside the app API, in the same format as inside it."""
    request_id = request_id or new_id("req")
    body = refusal.body(origin=_origin(request), instance=html.escape(request.url.path), request_id=request_id)
    return Response(
        body,
        refusal.status,
        headers={**_SAFE, **headers, "X-Request-Id": request_id},
        media_type="application/problem+json",
    )


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers: Mapping[str, str] = (error.headers or {}) if isinstance(error, HTTPException) else {}
    refusal: Refusal = MethodNotAllowed() if status == 405 else NotFound("There is no page at this URL.")
    return problem_response(request, refusal, **headers)


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
