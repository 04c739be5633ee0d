"""Makes sure that both services answer the same, so that their figures can be compared."""

from typing import Any

import httpx

from benchmarks.drive import CannotMeasure, Request
from benchmarks.measures import Measure
from benchmarks.services import Service

_CURSORS = ("next_cursor", "prev_cursor")


def check(measure: Measure, ours: Service, theirs: Service) -> None:
    """Compare one answer of each: every field of every product, the total, and whether there are more pages."""
    if measure.baseline is None:
        return
    mine, other = (_answer(ours, measure.request), _answer(theirs, measure.baseline))
    if measure.request.method == "POST":
        same = mine.keys() == other.keys()  # a token is never the same twice
    else:
        same = mine["data"] == other["data"] and _meta(mine) == _meta(other)
    if not same:
        raise CannotMeasure(f"{measure.name}: the answers differ:\n{str(mine)[:1500]}\n{str(other)[:1500]}")


def _answer(service: Service, request: Request) -> dict[str, Any]:
    answer = httpx.request(
        request.method,
        service.origin + request.path.replace("%d", str(request.first_id)),
        headers=dict(request.headers),
        content=request.body or None,
        timeout=30,
    )
    if answer.status_code != 200:
        raise CannotMeasure(f"{request.path}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def _meta(answer: dict[str, Any]) -> dict[str, Any]:
    """Cursors are each service's own; that there is one is what counts."""
    return {name: bool(value) if name in _CURSORS else value for name, value in answer["meta"].items()}
