"""Request bodies: hostile and invalid ones are refused with every fault, and nothing is written."""

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.shops import Shop

from stoa.rest.body import lift
from stoa.rest.endpoint import JSON_BODY_BYTES
from stoa.rest.problems import MOST_SUGGESTED, PayloadTooLarge

JSON = {"content-type": "application/json"}
DEEP = b'{"title":' + b"[" * 40 + b"]" * 40 + b"}"

HOSTILE = {
    "not json": (b"{", 400, "malformed_json"),
    "empty": (b"", 400, "malformed_json"),
    "an array": (b"[]", 422, "validation_failed"),
    "a bare null": (b"null", 422, "validation_failed"),
    "NaN": (b'{"title":"a","price":NaN}', 400, "malformed_json"),
    "infinity": (b'{"title":"a","price":-Infinity}', 400, "malformed_json"),
    "a huge exponent": (b'{"title":"a","price":1e400}', 400, "malformed_json"),
    "a tiny exponent": (b'{"title":"a","price":1e-400}', 400, "malformed_json"),
    "an exponent of twenty digits": (b'{"title":"a","price":1e-99999999999999999999}', 400, "malformed_json"),
    "a huge exponent of twenty digits": (b'{"title":"a","price":1e99999999999999999999}', 400, "malformed_json"),
    "a 5000-digit integer": (b'{"title":"a","price":' + b"9" * 5000 + b"}", 400, "malformed_json"),
    "beyond int64": (
        b'{"title":"a","price":1,"detail":{"pages":9223372036854775808}}',
        400,
        "malformed_json",
    ),
    "a duplicate key": (b'{"title":"a","title":"b","price":"1.00"}', 400, "malformed_json"),
    "a nested duplicate key": (
        b'{"title":"a","price":"1","detail":{"pages":1,"pages":2}}',
        400,
        "malformed_json",
    ),
    "a lone surrogate": (b'{"title":"\\ud800","price":"1.00"}', 400, "malformed_json"),
    "NUL escaped": (b'{"title":"a\\u0000b","price":"1.00"}', 400, "malformed_json"),
    "NUL raw": (b'{"title":"a\x00b","price":"1.00"}', 400, "malformed_json"),
    "not utf-8": (b'{"title":"\xff","price":"1.00"}', 400, "malformed_json"),
    "too deep": (DEEP, 400, "malformed_json"),
    "absurdly deep": (b'{"title":' + b"[" * 100_000, 400, "malformed_json"),
    "too many items": (
        b'{"title":"a","price":"1","labels":[' + b",".join([b'"a"'] * 1001) + b"]}",
        400,
        "malformed_json",
    ),
    "trailing data": (b'{"title":"a","price":"1"} {}', 400, "malformed_json"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_body_is_refused_with_its_code(shop: Shop, case: str) -> None:
    raw, status, code = HOSTILE[case]
    answer = await shop.client.post("/notes", content=raw, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await shop.client.get("/notes")).json()["meta"]["total"] == 0


@pytest.mark.parametrize("number", [5e-324, -2.2250738585072014e-308, 1e-31, 1.5e-45, 0e-400])
@pytest.mark.parametrize("resource", ["products", "customers"])
async def test_every_float_is_accepted(shop: Shop, resource: str, number: float) -> None:
    named = {"name": "A", "price": "1.00"} if resource == "products" else {"email": "a@example.com"}
    answer = await shop.client.post(f"/{resource}", json={**named, "metadata": {"key": number}})
    assert answer.status_code == 201, answer.text
    found = await shop.client.get(f"/{resource}/{answer.json()['data']['id']}")
    assert found.json()["data"]["metadata"] == {"key": number}


async def test_all_faults_are_reported_at_once_with_their_pointers(shop: Shop) -> None:
    answer = await shop.client.post(
        "/notes",
        json={
            "tittle": "x",
            "price": "1.234",
            "color": 7,
            "detail": {"author": "a" * 30, "pages": 11, "publisher": "b"},
            "labels": ["ok", "far too long for a label", None],
        },
    )
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "validation_failed"
    found = {fault["pointer"]: fault["code"] for fault in problem["errors"]}
    assert found == {
        "/tittle": "unknown_field",
        "/title": "required",
        "/price": "invalid_money",
        "/color": "invalid_type",
        "/detail/author": "too_long",
        "/detail/pages": "out_of_range",
        "/detail/publisher": "unknown_field",
        "/labels/1": "too_long",
        "/labels/2": "invalid_type",
    }
    by_pointer = {fault["pointer"]: fault for fault in problem["errors"]}
    assert by_pointer["/tittle"]["meta"] == {"did_you_mean": "title"}


async def test_only_the_first_of_many_unknown_fields_get_a_suggestion(shop: Shop) -> None:
    answer = await shop.client.post("/notes", json={f"tittle{number}": "x" for number in range(50)})
    suggested = ["did_you_mean" in fault.get("meta", {}) for fault in answer.json()["errors"]]
    assert suggested[:50] == [True] * MOST_SUGGESTED + [False] * (50 - MOST_SUGGESTED)


async def test_a_problem_document_has_all_its_members(shop: Shop) -> None:
    answer = await shop.client.post("/notes", json={}, headers={"x-request-id": "mine-1"})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == problem["request_id"] == "mine-1"
    assert problem["type"].endswith("/problems/validation_failed")
    assert problem["status"] == 422
    assert problem["instance"].endswith("/notes")
    assert problem["retryable"] is False
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [("1.999", "invalid_money"), ("-1.00", "invalid_money"), ("abc", "invalid_money"), ("", "invalid_money"),
     ("1e3", "invalid_money"), (True, "invalid_type"), (None, "invalid_type"), ({}, "invalid_type"),
     ("9999999999999999.00", "invalid_money"), (0.001, "invalid_money"), ("\u0663.5", "invalid_money"),
     (f"1999999999999.{'9' * 16}", "invalid_money")],
)  # fmt: skip
async def test_money_is_never_rounded_or_guessed(shop: Shop, sent: object, code: str) -> None:
    answer = await shop.client.post("/notes", json={"title": "a", "price": sent})
    assert answer.status_code == 422
    assert [fault["code"] for fault in answer.json()["errors"]] == [code]


@pytest.mark.parametrize(
    ("sent", "stored"), [("19.9", "19.90"), (19.99, "19.99"), (7, "7.00"), ("0", "0.00"), (1e2, "100.00")]
)
async def test_money_is_accepted_as_text_or_number_and_returned_as_text(shop: Shop, sent: object, stored: str) -> None:
    answer = await shop.client.post("/notes", json={"title": "a", "price": sent})
    assert answer.status_code == 201, answer.text
    assert answer.json()["data"]["price"] == stored


async def test_an_error_echoes_only_a_short_part_of_the_input(shop: Shop) -> None:
    answer = await shop.client.post("/notes", json={"x" * 100_000: 1, "title": "a", "price": "y" * 100_000})
    assert answer.status_code == 422
    assert len(answer.content) < 2_000
    answer = await shop.client.get("/notes", params={"z" * 3000: "1"})
    assert answer.status_code == 400
    assert len(answer.content) < 2_000


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""]
)
async def test_an_unsupported_media_type_is_refused(shop: Shop, media: str) -> None:
    answer = await shop.client.post("/notes", content=b'{"title":"a","price":"1"}', headers={"content-type": media})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_over_the_limit_is_refused_before_it_is_read(shop: Shop) -> None:
    answer = await shop.client.post("/notes", content=b" " * (1024 * 1024 + 1), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    answer = await shop.client.post("/notes", content=endless(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


class Searched(bytes):
    """Counts how often it is searched."""

    searches = 0

    def find(self, *args: Any) -> int:
        self.searches += 1
        return super().find(*args)


def test_the_search_for_long_values_ends_where_a_body_is_too_large() -> None:
    raw = Searched(b"[" + b'"data",' * (12 * 1024 * 1024 // 7))
    with pytest.raises(PayloadTooLarge):
        lift(raw)
    assert raw.searches < JSON_BODY_BYTES / len('"data"')


async def test_a_gzip_body_is_decompressed(shop: Shop) -> None:
    compressed = gzip.compress(b'{"title":"compressed","price":"1.00"}')
    answer = await shop.client.post("/notes", content=compressed, headers={**JSON, "content-encoding": "gzip"})
    assert answer.status_code == 201
    assert answer.json()["data"]["title"] == "compressed"


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b'{"title":"' + b"a" * 900_000 + b'"}'), "gzip", 413),
        (gzip.compress(b'{"title":"a","price":"1"}')[:-9], "gzip", 415),
        (b"not gzip at all", "gzip", 415),
        (gzip.compress(b"{}") + b"more", "gzip", 415),
        (b"{}", "br", 415),
        (b"{}", "gzip, gzip", 415),
    ],
    ids=["a bomb", "truncated", "not gzip", "trailing data", "another encoding", "compressed twice"],
)
async def test_a_decompression_bomb_or_invalid_gzip_is_refused(
    shop: Shop, body: bytes, encoding: str, status: int
) -> None:
    answer = await shop.client.post("/notes", content=body, headers={**JSON, "content-encoding": encoding})
    assert answer.status_code == status


@pytest.mark.parametrize("number", [b"9.0", b"0.9e1", b"90E-1"])
async def test_an_integer_may_be_written_with_a_point_or_an_exponent(shop: Shop, number: bytes) -> None:
    body = b'{"title":"a","price":"1.00","detail":{"pages":' + number + b"}}"
    answer = await shop.client.post("/notes", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["data"]["detail"]["pages"]) == (201, 9)


async def test_a_fraction_is_not_an_integer(shop: Shop) -> None:
    body = b'{"title":"a","price":"1.00","detail":{"pages":9.5}}'
    answer = await shop.client.post("/notes", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "invalid_type")
