"""Lists: exact totals, cursors both ways, pages, sorting, filters, sparse fields and tombstones."""

import base64
from typing import Any

import msgspec
import pytest
from tests.support.shops import MUG, SHIRT, Shop

COLORS = ("red", "green", "blue")


async def write_notes(shop: Shop, count: int) -> list[int]:
    ids: list[int] = []
    for n in range(count):
        note = {
            "title": f"note {n:03}",
            "price": f"{n % 7}.50",
            "color": COLORS[n % 3],
            "pinned": n % 2 == 0,
        }
        answer = await shop.client.post("/notes", json=note)
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["data"]["id"])
    return ids


async def read_all(shop: Shop, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Follow next_cursor to the last page. Only the first request has the parameters."""
    seen: list[dict[str, Any]] = []
    answer = await shop.client.get("/notes", params=params)
    while True:
        assert answer.status_code == 200, answer.text
        page = answer.json()
        seen += page["data"]
        if page["meta"]["next_cursor"] is None:
            return seen
        answer = await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"]})


async def test_an_empty_list_has_the_complete_envelope(shop: Shop) -> None:
    answer = await shop.client.get("/notes")
    assert answer.json() == {
        "data": [],
        "meta": {"total": 0, "limit": 50, "page": 1, "next_cursor": None, "prev_cursor": None},
    }
    assert "link" not in answer.headers


async def test_a_cursor_alone_continues_with_the_same_filters_order_and_limit(shop: Shop) -> None:
    await write_notes(shop, 25)
    seen = await read_all(shop, {"limit": 4, "color": "red,blue", "sort": "-price,title"})
    expected = sorted((n for n in range(25) if n % 3 != 1), key=lambda n: (-(n % 7), f"note {n:03}"))
    assert [note["title"] for note in seen] == [f"note {n:03}" for n in expected]


@pytest.mark.parametrize(
    "sort", ["id", "-id", "title", "-title", "price", "-price", "price,-title", "-price,id", "-price,-title"]
)
async def test_paging_forward_and_backward_returns_every_row_once(shop: Shop, sort: str) -> None:
    ids = await write_notes(shop, 23)
    forward = [note["id"] for note in await read_all(shop, {"limit": 5, "sort": sort})]
    assert sorted(forward) == ids
    page = (await shop.client.get("/notes", params={"limit": 5, "sort": sort})).json()
    while page["meta"]["next_cursor"]:
        page = (await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"]})).json()
    backward = [note["id"] for note in reversed(page["data"])]
    while page["meta"]["prev_cursor"]:
        page = (await shop.client.get("/notes", params={"cursor": page["meta"]["prev_cursor"]})).json()
        backward += [note["id"] for note in reversed(page["data"])]
    assert backward == forward[::-1]


async def test_the_total_is_exact_for_the_filter_on_every_page(shop: Shop) -> None:
    await write_notes(shop, 20)
    page = (await shop.client.get("/notes", params={"color": "green", "limit": 3})).json()
    assert page["meta"]["total"] == 7
    page = (await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"]})).json()
    assert page["meta"]["total"] == 7
    assert (await shop.client.get("/notes", params={"limit": 1})).json()["meta"]["total"] == 20


async def test_links_lead_to_the_next_and_previous_page(shop: Shop) -> None:
    await write_notes(shop, 9)
    first = await shop.client.get("/notes", params={"limit": 4, "pinned": "true"})
    second = await shop.client.get(first.links["next"]["url"])
    assert [n["title"] for n in second.json()["data"]] == ["note 008"]
    again = await shop.client.get(second.links["prev"]["url"])
    assert again.json()["data"] == first.json()["data"]
    assert "next" not in second.links


async def test_page_numbers_work_up_to_a_limit(shop: Shop) -> None:
    await write_notes(shop, 11)
    third = (await shop.client.get("/notes", params={"page": 3, "per_page": 4})).json()
    assert [n["title"] for n in third["data"]] == ["note 008", "note 009", "note 010"]
    assert third["meta"]["page"] == 3
    deep = await shop.client.get("/notes", params={"page": 201, "limit": 50})
    assert (deep.status_code, deep.json()["code"]) == (400, "page_too_deep")
    assert "next_cursor" in deep.json()["detail"]


async def test_a_cursor_of_another_query_is_refused(shop: Shop) -> None:
    await write_notes(shop, 6)
    cursor = (await shop.client.get("/notes", params={"limit": 2, "color": "red"})).json()["meta"]["next_cursor"] or ""
    same = await shop.client.get("/notes", params={"cursor": cursor, "color": "red"})
    if cursor:
        assert same.status_code == 200
    for other in ({"color": "blue"}, {"pinned": "true"}, {"sort": "-id"}):
        page = (await shop.client.get("/notes", params={"limit": 2})).json()
        answer = await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"], **other})
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_mismatch")


async def test_a_cursor_of_another_list_is_refused(shop: Shop, other_shop: Shop) -> None:
    await shop.add(MUG, SHIRT)
    for name in ("ada", "bea"):
        await shop.client.post("/customers", json={"email": f"{name}@example.com"})
        line = {"name": name, "unit_price": "1.00", "quantity": 1}
        order = (await shop.client.post("/orders", json={"line_items": [line]})).json()["data"]
        for _ in range(2):
            await shop.client.post(f"/orders/{order['id']}/comments", json={"body": name})
    lists = ["/products", "/orders", "/customers", "/products/variants", "/products/inventory"]
    lists += [f"/orders/{order['id'] - n}/comments" for n in (0, 1)]
    for path in lists:
        cursor = (await shop.client.get(path, params={"limit": 1})).json()["meta"]["next_cursor"]
        for other in lists:
            answer = await shop.client.get(other, params={"cursor": cursor})
            expected = (200, None) if other == path else (400, "cursor_mismatch")
            assert (answer.status_code, answer.json().get("code")) == expected, (path, other)
    cursor = (await shop.client.get("/products", params={"limit": 1})).json()["meta"]["next_cursor"]
    elsewhere = await other_shop.client.get("/products", params={"cursor": cursor})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (400, "cursor_mismatch")


async def test_a_cursor_of_a_long_query_continues(shop: Shop) -> None:
    codes = [f"{n:0>100}" for n in range(100)]
    first, second = await shop.add(*({**MUG, "sku": code, "barcode": code} for code in codes[:2]))
    query = {"sku": ",".join(codes), "barcode": ",".join(codes), "limit": 1}
    page = (await shop.client.get("/products", params=query)).json()
    assert [product["id"] for product in page["data"]] == [first]
    assert len(page["meta"]["next_cursor"]) > 25_000
    answer = await shop.client.get("/products", params={"cursor": page["meta"]["next_cursor"]})
    assert answer.status_code == 200, answer.text
    assert [product["id"] for product in answer.json()["data"]] == [second]


async def test_a_cursor_of_the_previous_release_works(shop: Shop) -> None:
    first, second = await shop.add(MUG, SHIRT)
    old = base64.urlsafe_b64encode(msgspec.json.encode([{"limit": "1"}, False, [first]])).rstrip(b"=").decode()
    page = (await shop.client.get("/products", params={"cursor": old})).json()
    assert [product["id"] for product in page["data"]] == [second]


@pytest.mark.parametrize("cursor", ["", "x", "%00", "e30", "W10", "W3t9LGZhbHNlLFsiYSJdXQ", "W3t9LGZhbHNlLFtdXQ", "é", "A" * 5000,
                                    "W3t9LHRydWUsWzEsMl1d", "W3siYSI6IiJ9LGZhbHNlLFsxXV0",
                                    "W3t9LGZhbHNlLFsxODQ0Njc0NDA3MzcwOTU1MTYxNV1d",
                                    "W3sic29ydCI6InRpdGxlIn0sZmFsc2UsWyJcdTAwMDAiLDFdXQ"])  # fmt: skip
async def test_an_invalid_cursor_is_refused(shop: Shop, cursor: str) -> None:
    answer = await shop.client.get("/notes", params={"cursor": cursor})
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_parameter"),
        ("limit=251", "invalid_parameter"),
        ("limit=ten", "invalid_parameter"),
        ("limit=-1", "invalid_parameter"),
        ("limit=5&per_page=5", "invalid_parameter"),
        ("limit=5&limit=5", "invalid_parameter"),
        ("page=0", "invalid_parameter"),
        ("page=1&cursor=abc", "invalid_parameter"),
        ("sort=secret", "invalid_parameter"),
        ("sort=id,id", "invalid_parameter"),
        ("sort=", "invalid_parameter"),
        ("fields=id,nope", "invalid_parameter"),
        ("include=everything", "unknown_parameter"),
        ("color=pink", "invalid_parameter"),
        ("color=", "invalid_parameter"),
        ("pinned=yes", "invalid_parameter"),
        ("price=abc", "invalid_parameter"),
        ("price[gte]=1.999", "invalid_parameter"),
        ("price[gte]=NaN", "invalid_parameter"),
        ("price[near]=1", "unknown_parameter"),
        ("price[gte=1", "unknown_parameter"),
        ("color[gte]=red", "unknown_parameter"),
        ("ids=1,x", "invalid_parameter"),
        ("ids=99999999999999999999", "invalid_parameter"),
        ("updated_since=yesterday", "invalid_parameter"),
        ("updated_since=2026-13-01T00:00:00Z", "invalid_parameter"),
        ("updated_since=2026-01-01T00:00:00", "invalid_parameter"),
        ("include_deleted=1", "invalid_parameter"),
        ("nope=1", "unknown_parameter"),
        ("Limit=5", "unknown_parameter"),
        ("title=%FF", "invalid_parameter"),
        ("title=%00", "invalid_parameter"),
        ("title=" + "a" * 300, "invalid_parameter"),
        ("&".join(f"a{n}=1" for n in range(60)), "invalid_parameter"),
    ],
)
async def test_an_unknown_or_invalid_parameter_is_refused(shop: Shop, query: str, code: str) -> None:
    answer = await shop.client.get(f"/notes?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text


async def test_all_invalid_parameters_are_reported_at_once(shop: Shop) -> None:
    answer = await shop.client.get("/notes", params={"limit": "x", "color": "pink", "sort": "size"})
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {"limit", "color", "sort"}


async def test_ranges_and_sets_filter_a_list(shop: Shop) -> None:
    ids = await write_notes(shop, 14)
    page = (await shop.client.get("/notes", params={"price[gte]": "2", "price[lt]": "4.50"})).json()
    assert page["meta"]["total"] == 4
    page = (await shop.client.get("/notes", params={"ids": f"{ids[0]},{ids[5]},999999"})).json()
    assert [note["id"] for note in page["data"]] == [ids[0], ids[5]]


async def test_fields_omits_all_others(shop: Shop) -> None:
    await write_notes(shop, 1)
    page = (await shop.client.get("/notes", params={"fields": "id,price"})).json()
    assert set(page["data"][0]) == {"id", "price"}


async def test_include_deleted_adds_tombstones(shop: Shop) -> None:
    ids = await write_notes(shop, 3)
    await shop.client.delete(f"/notes/{ids[1]}")
    plain = (await shop.client.get("/notes")).json()
    assert [note["id"] for note in plain["data"]] == [ids[0], ids[2]]
    assert plain["meta"]["total"] == 2
    all_rows = (await shop.client.get("/notes", params={"include_deleted": "true"})).json()
    assert all_rows["meta"]["total"] == 3
    tombstone = all_rows["data"][1]
    assert set(tombstone) == {"id", "deleted_at", "updated_at", "version"}
    assert tombstone["version"] == 2
    assert tombstone["updated_at"] == tombstone["deleted_at"]


@pytest.mark.parametrize("agent", ["stoa-python/0.3.0 python/3.11.7 httpx/0.28.1", "stoa-typescript/0.3.0 node/22.1.0"])
@pytest.mark.parametrize("fields", ["", "id,title"])
async def test_an_sdk_that_compares_the_members_of_a_tombstone_gets_those_that_it_knows(
    shop: Shop, agent: str, fields: str
) -> None:
    ids = await write_notes(shop, 3)
    await shop.client.delete(f"/notes/{ids[1]}")
    params = {"include_deleted": "true", **({"fields": fields} if fields else {})}
    known = (await shop.client.get("/notes", params=params, headers={"user-agent": agent})).json()["data"]
    data = (await shop.client.get("/notes", params=params)).json()["data"]
    assert set(known[1]) == {"id", "deleted_at", "version"}
    assert known[1] == {name: value for name, value in data[1].items() if name != "updated_at"}
    assert [known[0], known[2]] == [data[0], data[2]]
    newer = {"user-agent": "stoa-python/0.4.0 python/3.11.7"}
    assert (await shop.client.get("/notes", params=params, headers=newer)).json()["data"] == data


@pytest.mark.parametrize(
    ("name", "values"),
    [("color", ["red", "blue"]), ("sort", ["-title", "id"]), ("fields", ["id", "title"])],
)
async def test_several_values_are_separated_by_commas_or_repeat_the_name(
    shop: Shop, name: str, values: list[str]
) -> None:
    for title, color in (("a", "red"), ("b", "green"), ("c", "blue")):
        await shop.client.post("/notes", json={"title": title, "price": "1.00", "color": color})
    joined = await shop.client.get("/notes", params={name: ",".join(values)})
    repeated = await shop.client.get("/notes", params={name: values})
    assert repeated.status_code == 200
    assert repeated.json()["data"] == joined.json()["data"]


async def test_a_cursor_accepts_several_values_in_either_form(shop: Shop) -> None:
    for title in ("a", "b", "c"):
        await shop.client.post("/notes", json={"title": title, "price": "1.00"})
    first = (await shop.client.get("/notes?color=red&color=blue&limit=2")).json()
    again = await shop.client.get(f"/notes?color=red,blue&limit=2&cursor={first['meta']['next_cursor']}")
    assert [note["title"] for note in again.json()["data"]] == ["c"]


async def test_a_name_may_repeat_250_times(shop: Shop) -> None:
    most = "&".join(f"ids={number}" for number in range(1, 251))
    assert (await shop.client.get(f"/notes?{most}")).status_code == 200
    answer = await shop.client.get(f"/notes?{most}&ids=251")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "ids")


async def test_a_parameter_with_one_value_must_not_repeat(shop: Shop) -> None:
    answer = await shop.client.get("/notes?limit=1&limit=2")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert "given more than once" in answer.json()["detail"]


async def test_a_field_that_is_named_twice_is_returned_once(shop: Shop) -> None:
    await shop.client.post("/notes", json={"title": "a", "price": "1.00"})
    answer = await shop.client.get("/notes?fields=id,title,title")
    assert list(answer.json()["data"][0]) == ["id", "title"]
    assert (await shop.client.get(f"/notes?fields={','.join(['id'] * 251)}")).status_code == 400
