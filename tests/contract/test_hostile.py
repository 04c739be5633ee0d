"""Hostile input to every endpoint: a request succeeds or is refused, but never causes an internal error."""

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.contract.test_endpoints import address
from tests.support import notes
from tests.support.shops import Shop

from stoa.api import ENDPOINTS
from stoa.rest.endpoint import Endpoint

EVERY = [*ENDPOINTS, *notes.routes.endpoints]
BODIES = [pytest.param(e, id=e.name) for e in EVERY if e.body is not None and e.example is not None]
QUERIES = [pytest.param(e, id=e.name) for e in EVERY if e.method == "GET" and e.name != "crash"]
PATHS = [pytest.param(e, id=e.name) for e in EVERY if e.path_parameters]

VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63 - 1, -(2**63), 1.5, -0.0, 1e25, "", " ", "a", "0", "-1", "1e9", "NaN", "x" * 300,
    "y" * 70_000, "\x00", "\ud800", "\u202e\U0001f600", "'; DROP TABLE products; --", "{}", "${jndi:ldap://x}", "../..",
    "%00", "2026-01-01T00:00:00Z", [], [None], [[]], [1, "a"], {}, {"": ""}, {"a": {"b": []}}, ["x"] * 300,
]  # fmt: skip
TEXTS = [
    "", "0", "-1", "1", "9" * 30, "1.5", "NaN", "Infinity", "1e400", "true", "null", "a,b", ",", ",,", "\x00", "%", "%zz",
    "x" * 1000, "'", '"', "\\", "' OR 1=1 --", "{}", "[]", "()", "::", "🙂", "\u202e", "\ud7ff", "2026-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1:*", "a & b | !c", "<->", "*",
]  # fmt: skip


def pointers(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every member of a JSON value."""
    yield at
    if isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            yield from pointers(member, (*at, name))
    if isinstance(value, list):
        for number, member in enumerate(cast("list[Any]", value)):
            yield from pointers(member, (*at, number))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    if isinstance(value, dict):
        return {k: replaced(v, at[1:], new) if k == at[0] else v for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [replaced(v, at[1:], new) if k == at[0] else v for k, v in enumerate(value)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("endpoint", BODIES)
async def test_no_body_causes_an_internal_error(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    sent = 0
    for at in pointers(endpoint.example):
        for value in VALUES:
            raw = json.dumps(replaced(endpoint.example, at, value)).encode()
            answer = await shop.client.request(
                endpoint.method, path, content=raw, headers={"content-type": "application/json"}
            )
            sent += 1
            assert answer.status_code < 500, f"{at} = {str(value)[:40]!r}: {answer.text}"
            if answer.status_code >= 400:
                assert len(answer.content) < 20_000
                assert answer.json()["code"]
    assert sent >= len(VALUES)


@pytest.mark.parametrize("endpoint", QUERIES)
async def test_no_query_causes_an_internal_error(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    names = ["fields", "include", "surprise"]
    if endpoint.lists is not None:
        for name, kind in endpoint.lists.parameters().items():
            names += [name, *(f"{name}[{operator}]" for operator in (*kind.operators, "k", "", "]["))]
    for name in names:
        for text in TEXTS:
            answer = await shop.client.get(path, params={name: text})
            assert answer.status_code < 500, f"{name}={text[:40]!r}: {answer.text}"


@pytest.mark.parametrize("endpoint", PATHS)
async def test_no_path_causes_an_internal_error(shop: Shop, endpoint: Endpoint) -> None:
    for text in (
        "0",
        "-1",
        "9" * 18,
        "9" * 19,
        "1e3",
        "%00",
        "...",
        "a b",
        "%F0%9F%99%82",
        "1;2",
        "'",
        "imp_" + "x" * 5000,
    ):
        values = dict.fromkeys(endpoint.path_parameters, text)
        body = {"json": endpoint.example} if endpoint.body is not None else {}
        answer = await shop.client.request(endpoint.method, endpoint.path.format(**values), **body)
        assert 400 <= answer.status_code < 500, f"{text}: {answer.text}"
