"""Checks every problem that a test receives: each `pointer` must resolve in the JSON body that was sent."""

import gzip
import json
from collections.abc import Iterator
from typing import Any, cast

import httpx

_MISSING = ("required", "option_mismatch")  # the options of a product require `option_values`
_JSON = ("application/json", "application/merge-patch+json")


async def check_pointers(response: httpx.Response) -> None:
    """A hook for responses: fail if a fault points to a value that the request does not contain."""
    request = response.request
    if response.status_code != 207 and not 400 <= response.status_code < 500:
        return
    if request.headers.get("content-type", "").partition(";")[0].strip() not in _JSON:
        return
    sent = _sent(request)
    if sent is None:
        return
    await response.aread()
    for fault in _faults(response):
        if fault["code"] in ("invalid_parameter", "unknown_parameter"):
            continue  # names a query parameter
        unresolved = unresolved_at(sent, fault["pointer"], missing=fault["code"] in _MISSING)
        assert not unresolved, f"{request.method} {request.url.path}: {fault} does not resolve in {sent!r}"


def unresolved_at(sent: Any, pointer: str, *, missing: bool = False) -> bool:
    """Whether a JSON pointer (RFC 6901) names no value of a body. A required member may be `missing` from its parent."""
    segments = [each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]]
    if pointer and not pointer.startswith("/"):
        return True
    value = sent
    for depth, segment in enumerate(segments):
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if not segment.isdigit() or int(segment) >= len(items):
                return True
            value = items[int(segment)]
        elif isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            if segment not in members:
                return not (missing and depth == len(segments) - 1)
            value = members[segment]
        else:
            return True
    return False


def _sent(request: httpx.Request) -> Any:
    """The body of a request; None if it is no JSON object, or was streamed."""
    try:
        raw = request.content
        sent = json.loads(gzip.decompress(raw) if request.headers.get("content-encoding") == "gzip" else raw)
    except (httpx.RequestNotRead, OSError, EOFError, ValueError, RecursionError):
        return None
    return sent if isinstance(sent, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _faults(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The faults of a problem document, or of the failed items of a batch."""
    if not response.content or "json" not in response.headers.get("content-type", ""):
        return
    answer = response.json()
    if response.status_code == 207:
        for error in [result["error"] for result in answer["data"] if result["error"]]:
            yield from cast("dict[str, Any]", error).get("errors", [])
    elif isinstance(answer, dict):
        yield from cast("dict[str, Any]", answer).get("errors", [])
