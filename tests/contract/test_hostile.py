"""Hostile input to every endpoint: a request succeeds or is refused, but never causes an internal error."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

import pytest
from tests.contract.test_endpoints import address
from tests.support import notes
from tests.support.hostile import STRIDE, share_of
from tests.support.shops import Shop

from stoa.api import ENDPOINTS
from stoa.rest.endpoint import Endpoint
from stoa.rest.lists import ListOf

EVERY = [*ENDPOINTS, *notes.routes.endpoints]
BODIES = [pytest.param(e, id=e.name) for e in EVERY if e.body is not None and e.example is not None]
QUERIES = [pytest.param(e, id=e.name) for e in EVERY if e.method == "GET" and e.name != "crash"]
LISTS = [pytest.param(e, id=e.name) for e in EVERY if e.lists is not None]
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


# Sort keys that no cursor of ours contains, whatever the type of the sort.
KEYS: list[Any] = [
    None, True, 1.5, 2**63, -(2**63) - 1, 10**400, "a\x00b", "z" * 10_000, [], {}, [[]],
    "0001-01-01T00:00:00+14:00\x00", {"a": {"b": 1}},
]  # fmt: skip


def chosen(fields: Iterable[Any], values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The pairs of fields and values to send."""
    for number, field in enumerate(fields):
        yield from ((field, value) for value in share_of(number, values))


def cursor_of(value: Any) -> str:
    """Any JSON value in the encoding of a cursor."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged_cursors(lists: ListOf) -> Iterator[str]:
    """Cursors with values that no query string or row can have."""
    for key in KEYS:
        yield from (cursor_of([{"sort": sort}, False, [key, 1]]) for sort in lists.sorts if sort != "id")
        yield cursor_of([{"sort": "id"}, False, [key]])
    for text in ("2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "yesterday"):
        times = [sort for sort, kind in lists.sorts.items() if kind is datetime]
        yield from (cursor_of([{"sort": sort}, False, [text, 1]]) for sort in times)
    for name in lists.parameters():
        for value in ("a\x00b", "x" * 10_000):
            yield cursor_of([{"sort": "id", name: value}, False, [1]])
        yield cursor_of([{f"{name}[\x00]": "a"}, False, [1]])
        yield cursor_of([{name: 1}, False, [1]])
        yield cursor_of([{name: None}, True, [1]])
    yield base64.urlsafe_b64encode(b"[" * 20_000).decode()
    yield base64.urlsafe_b64encode(b'[{"sort":"id"},false,[' + b"[" * 5_000 + b"]" * 5_000 + b"]]").decode()
    others: list[Any] = [[], {}, [[], False, []], [{}, 0, [1]], [{"page": "2", "sort": "id"}, False, [1]]]
    yield from map(cursor_of, others)


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
    for at, value in chosen(pointers(endpoint.example), VALUES):
        raw = json.dumps(replaced(endpoint.example, at, value)).encode()
        answer = await shop.client.request(
            endpoint.method, path, content=raw, headers={"content-type": "application/json"}
        )
        sent += 1
        assert answer.status_code < 500, f"{at} = {str(value)[:40]!r}: {answer.text}"
        if answer.status_code >= 400:
            assert len(answer.content) < 20_000
            assert answer.json()["code"]
    assert sent >= len(VALUES) // STRIDE


@pytest.mark.parametrize("endpoint", BODIES)
async def test_a_deeply_nested_body_is_refused(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        for raw in (opening * 20_000, opening * 20_000 + b"1" + closing * 20_000):
            answer = await shop.client.request(
                endpoint.method, path, content=raw, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json"), answer.text


@pytest.mark.parametrize("endpoint", QUERIES)
async def test_no_query_causes_an_internal_error(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    names = ["fields", "include", "surprise"]
    if endpoint.lists is not None:
        for name, kind in endpoint.lists.parameters().items():
            names += [name, *(f"{name}[{operator}]" for operator in (*kind.operators, "k", "", "]["))]
    for name, text in chosen(names, TEXTS):
        answer = await shop.client.get(path, params={name: text})
        assert answer.status_code < 500, f"{name}={text[:40]!r}: {answer.text}"


@pytest.mark.parametrize("endpoint", LISTS)
async def test_a_forged_cursor_is_refused(shop: Shop, endpoint: Endpoint) -> None:
    assert endpoint.lists is not None
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    good = await shop.client.get(path, params={"cursor": cursor_of([{"sort": "id"}, False, [1]])})
    assert good.status_code == 200, good.text
    for cursor in forged_cursors(endpoint.lists):
        answer = await shop.client.get(path, params={"cursor": cursor})
        assert (answer.status_code, answer.json().get("code")) == (400, "invalid_parameter"), (
            cursor[:200],
            answer.text,
        )
        assert [fault["pointer"] for fault in answer.json()["errors"]] == ["cursor"], (cursor[:200], answer.text)


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
