"""Checks that both services return the same response, so that their results can be compared."""

import secrets
from typing import Any, cast

import httpx

from benchmarks.drive import CannotMeasure, Request
from benchmarks.measures import Measure
from benchmarks.services import Service

_CURSORS = ("next_cursor", "prev_cursor")
# By each service, or by its earlier requests.
_GENERATED = {
    "id",
    "product_id",
    "created_at",
    "updated_at",
    "placed_at",
    "number",
    "request_id",
    "on_hand_after",
    "reserved_after",
}


def check(measure: Measure, ours: Service, theirs: Service) -> None:
    """Compare one response of each: every field of every resource, the total, and whether there are more pages."""
    if measure.baseline is None:
        return
    number = str(secrets.randbelow(9 * 10**17) + 10**17)
    mine, other = (_answer(ours, measure.request, number), _answer(theirs, measure.baseline, number))
    if "data" not in mine:
        found = _difference(sorted(mine), sorted(other))  # tokens always differ
    elif measure.request.method == "POST":
        found = _difference(_bare(mine["data"]), _bare(other["data"]))
    else:
        found = _difference({**mine, "meta": _meta(mine)}, {**other, "meta": _meta(other)})
    if found:
        raise CannotMeasure(f"{measure.name}: the responses differ at {found}")


def _difference(mine: Any, other: Any, at: str = "") -> str:
    """The first difference of two responses, with both sides; empty if they are equal."""
    if isinstance(mine, dict) and isinstance(other, dict):
        mine, other = cast("dict[str, Any]", mine), cast("dict[str, Any]", other)
        if mine.keys() != other.keys():
            return f"{at or '/'}: only one side has {', '.join(sorted(mine.keys() ^ other.keys()))}"
        pairs = [(f"{at}/{name}", mine[name], other[name]) for name in mine]
    elif isinstance(mine, list) and isinstance(other, list):
        mine, other = cast("list[Any]", mine), cast("list[Any]", other)
        if len(mine) != len(other):
            return f"{at}: {len(mine)} and {len(other)} items"
        pairs = [(f"{at}/{n}", one, two) for n, (one, two) in enumerate(zip(mine, other, strict=True))]
    else:
        return "" if mine == other else f"{at}: {mine!r} and {other!r}"
    return next((found for path, one, two in pairs if (found := _difference(one, two, path))), "")


def _answer(service: Service, request: Request, number: str) -> dict[str, Any]:
    answer = httpx.request(
        request.method,
        service.origin + request.text(request.path),
        headers={name: request.text(value, number) for name, value in request.headers.items()},
        content=request.text(request.body, number) or None,
        timeout=30,
    )
    if not answer.is_success:
        raise CannotMeasure(f"{request.path}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def _bare(value: Any) -> Any:
    """A created resource without its generated fields."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _bare(each) for name, each in members.items() if name not in _GENERATED}
    return [_bare(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _meta(answer: dict[str, Any]) -> dict[str, Any]:
    """`meta` with only the presence of cursors, which differ between the services."""
    return {name: bool(value) if name in _CURSORS else value for name, value in answer["meta"].items()}
