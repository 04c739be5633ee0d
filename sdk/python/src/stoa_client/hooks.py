"""Hooks for logs and metrics. They receive no token, no secret, no query and no body, so that they can log all they get."""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import httpx
import msgspec

from stoa_client.errors import refusal
from stoa_client.operations import OperationId
from stoa_client.requests import PREFIX, Request
from stoa_client.routes import route_of

_LOG = logging.getLogger("stoa_client")


class RequestInfo(msgspec.Struct, frozen=True):
    """An attempt that is about to be sent."""

    base_url: str
    """The store."""
    operation: OperationId | Literal["request_token"] | None
    """The `operationId`; None if the path is not one of an operation."""
    method: str
    path: str | None
    """The path with its placeholders, such as `/products/{product_id}`, and without the query."""
    attempt: int
    """1 for the first attempt, 2 for the first retry."""


class ResponseInfo(RequestInfo, frozen=True):
    """An attempt that has ended, with a response or without one."""

    duration_s: float
    """Until the response was complete or, if it is read as a stream, until it began."""
    status: int | None = None
    code: str | None = None
    """The error code of a refusal."""
    request_id: str | None = None
    error: str | None = None
    """Why no response came, such as `ConnectTimeout` or `CancelledError`."""


class Outcome:
    """What an attempt has led to."""

    result: httpx.Response | httpx.RequestError | None = None


class Hooks(msgspec.Struct, frozen=True):
    """The hooks of a client."""

    on_request: Callable[[RequestInfo], Any] | None = None
    on_response: Callable[[ResponseInfo], Any] | None = None

    @contextmanager
    def observe(self, request: Request, attempt: int, root: str) -> Generator[Outcome]:
        """Call the hooks before and after an attempt, whose outcome is to be set."""
        outcome = Outcome()
        if self.on_request is None and self.on_response is None:
            yield outcome
            return
        info = _info(request, attempt, root)
        _call(self.on_request, info)
        started_at = time.monotonic()
        error: str | None = None
        try:
            yield outcome
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            duration_s = time.monotonic() - started_at
            _call(self.on_response, _ended(info, outcome.result, duration_s, error))


NO_HOOKS = Hooks()


def _info(request: Request, attempt: int, root: str) -> RequestInfo:
    base_url = root.removesuffix(PREFIX)
    if not request.url.startswith(f"{root}/"):
        return RequestInfo(base_url, "request_token", request.method, "/oauth/token", attempt)
    route = route_of(request.method, request.url[len(root) :].partition("?")[0])
    if route is None:  # the path may contain anything
        return RequestInfo(base_url, None, request.method, None, attempt)
    return RequestInfo(base_url, route.operation, request.method, route.path, attempt)


def _ended(
    info: RequestInfo, result: httpx.Response | httpx.RequestError | None, duration_s: float, error: str | None
) -> ResponseInfo:
    given: dict[str, Any] = {**msgspec.structs.asdict(info), "duration_s": duration_s}
    if not isinstance(result, httpx.Response):
        return ResponseInfo(**given, error=error if result is None else type(result).__name__)
    code = refusal(result.status_code, result.content, None).code if result.status_code >= 400 else None
    request_id = result.headers.get("x-request-id")
    return ResponseInfo(**given, status=result.status_code, code=code, request_id=request_id)


def _call(hook: Callable[[Any], Any] | None, info: RequestInfo) -> None:
    """A hook that fails must not fail the call: a write may have taken effect."""
    if hook is None:
        return
    try:
        hook(info)
    except Exception:  # noqa: BLE001 - whatever it is
        _LOG.exception("a hook failed")
