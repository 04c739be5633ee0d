"""Pagination of lists."""

import asyncio

from stoa_client import AsyncClient, Client, Tombstone, models


def _stock(client: Client, count: int) -> None:
    items = [{"op": "create", "data": {"name": f"Mug {n}", "price": "1.00"}} for n in range(count)]
    client.request("POST", "/products/batch", body={"items": items})


def test_a_list_is_read_over_all_its_pages(client: Client) -> None:
    _stock(client, 7)
    assert [product.name for product in client.products.list(limit=3)] == [f"Mug {n}" for n in range(7)]
    assert [len(page) for page in client.products.list(limit=3).pages()] == [3, 3, 1]


async def test_a_list_is_read_over_all_its_pages_with_an_event_loop(client: Client, async_client: AsyncClient) -> None:
    _stock(client, 7)
    found = [product.name async for product in async_client.products.list(limit=3, sort="-id")]
    assert found == [f"Mug {n}" for n in reversed(range(7))]
    assert [len(page) async for page in async_client.products.list(limit=3).pages()] == [3, 3, 1]


def test_reading_may_start_at_a_numbered_page(client: Client) -> None:
    _stock(client, 7)
    assert [product.name for product in client.products.list(limit=3, page=2)] == [f"Mug {n}" for n in range(3, 7)]


def test_a_page_has_the_exact_total(client: Client) -> None:
    _stock(client, 3)
    page = client.products.list(limit=2).page()
    assert (page.total, len(page), page.next_cursor is not None, page.prev_cursor) == (3, 2, True, None)
    assert (page.answer.status, (page.answer.request_id or "")[:4], page.answer.meta) == (200, "req_", page.meta)
    assert page.answer.content.startswith(b'{"data":[')


def test_an_empty_list_has_no_first_item(client: Client) -> None:
    assert client.products.list().first() is None
    assert list(client.products.list()) == []


def test_deleted_resources_are_tombstones_with_include_deleted(client: Client) -> None:
    kept, deleted = (client.products.create(name=name, price="1.00") for name in ("Kept", "Deleted"))
    client.products.delete(deleted.id)
    found = list(client.products.list(include_deleted=True))
    assert [type(each) for each in found] == [models.Product, Tombstone]
    assert [each.id for each in found] == [kept.id, deleted.id]
    assert [each.id for each in client.products.list()] == [kept.id]


async def test_many_lists_may_be_read_at_once(client: Client, async_client: AsyncClient) -> None:
    _stock(client, 5)

    async def count() -> int:
        return len([product async for product in async_client.products.list(limit=2)])

    assert await asyncio.gather(*(count() for _ in range(8))) == [5] * 8
