"""Ordinary calls: create, read, change and delete, one by one and in batches."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from stoa_client import AsyncClient, Client, NotModified, codes, errors, models
from tests.client.conftest import base_url
from tests.support.service import Account


def test_a_product_is_created_read_changed_and_deleted(client: Client) -> None:
    made = client.products.create(
        name="Linen Shirt",
        price="59.00",
        options=[{"name": "Size", "values": ["S", "M"]}],
        variants=[
            {"sku": "LS-S", "option_values": {"Size": "S"}, "stock": {"on_hand": 4}},
            {"sku": "LS-M", "option_values": {"Size": "M"}, "price": Decimal("61.00")},
        ],
    )
    assert (made.name, made.price, made.version) == ("Linen Shirt", Decimal("59.00"), 1)
    assert isinstance(made.created_at, datetime)
    assert made.created_at.tzinfo is not None
    read = client.products.get(made.id)
    assert [variant.effective_price for variant in read.variants] == [Decimal("59.00"), Decimal("61.00")]
    changed = client.products.update(made.id, price="55.00", description=None)
    assert (changed.price, changed.version) == (Decimal("55.00"), 2)
    client.products.delete(made.id)
    with pytest.raises(errors.NotFound):
        client.products.get(made.id)


async def test_the_same_calls_work_in_an_event_loop(async_client: AsyncClient) -> None:
    made = await async_client.products.create(name="Mug", price=Decimal("12.50"), sku="MUG-1", stock={"on_hand": 3})
    assert (await async_client.products.get(made.id)).stock.on_hand == 3
    moved = await async_client.products.inventory.adjust(items=[{"sku": "MUG-1", "quantity": -1}], reason="damaged")
    assert [item.resource.on_hand_after for item in moved if item.resource] == [2]
    await async_client.products.delete(made.id)
    with pytest.raises(errors.NotFound):
        await async_client.products.get(made.id)


def test_fields_limits_the_response(client: Client) -> None:
    made = client.products.create(name="Mug", price="12.50", fields=["id", "name"])
    assert made.name == "Mug"
    assert not made.price


def test_a_resource_has_the_response_it_came_in(client: Client) -> None:
    made = client.products.create(name="Mug", price="12.50", idempotency_key="once")
    assert (made.answer.status, made.answer.replayed) == (201, False)
    assert made.answer.etag is not None
    assert (made.answer.request_id or "").startswith("req_")
    assert client.products.create(name="Mug", price="12.50", idempotency_key="once").answer.replayed


def test_a_concurrent_change_is_refused_with_if_match(client: Client) -> None:
    made = client.products.create(name="Mug", price="12.50")
    newer = client.products.update(made.id, price="13.00")
    with pytest.raises(codes.VersionConflict) as refused:
        client.products.update(made.id, if_match=made, price="14.00")
    assert refused.value.more["current_version"] == newer.version
    assert client.products.update(made.id, if_match=newer.version, price="14.00").price == Decimal("14.00")


def test_an_unchanged_resource_raises_not_modified(client: Client) -> None:
    read = client.products.get(client.products.create(name="Mug", price="12.50").id)
    assert read.answer.etag
    with pytest.raises(NotModified) as unchanged:
        client.products.get(read.id, if_none_match=read.answer.etag)
    answer = unchanged.value.answer
    assert (answer.status, answer.etag) == (304, read.answer.etag)
    assert (answer.request_id or "").startswith("req_")
    assert answer.requests_left is not None


def test_a_conditional_read_detects_a_change_of_metadata_that_only_this_app_sees(client: Client) -> None:
    made = client.customers.create(email="private@example.com", metadata={"level": "1"})
    with pytest.raises(NotModified):
        client.customers.get(made.id, if_none_match=made)
    changed = client.customers.update(made.id, metadata={"level": "2"})
    assert changed.version == made.version
    assert client.customers.get(made.id, if_none_match=made).metadata == {"level": "2"}
    with pytest.raises(codes.VersionConflict):
        client.customers.update(made.id, if_match=made, first_name="Ada")


def test_a_part_of_a_page_is_compared_by_its_version(client: Client) -> None:
    client.products.create(name="Mug", price="12.50")
    [listed] = client.products.list()
    with pytest.raises(NotModified):
        client.products.get(listed.id, if_none_match=listed)
    with pytest.raises(ValueError, match="part of another response"):
        _ = listed.answer


def test_a_compressed_resource_is_not_modified_while_its_version_is_the_same(client: Client, account: Account) -> None:
    made = client.products.create(name="Mug", price="12.50", description="Stoneware. " * 200)
    read = client.products.update(made.id, price="13.00")
    headers = {"authorization": f"Bearer {account.token}", "accept-encoding": "gzip"}
    plain = httpx.get(f"{base_url(account)}/api/v3/app/products/{made.id}", headers=headers)
    assert plain.headers["content-encoding"] == "gzip"
    for known in (read, read.version, plain.headers["etag"]):
        with pytest.raises(NotModified):
            client.products.get(made.id, if_none_match=known)
    assert client.products.get(made.id, if_none_match=made).version == read.version


def test_a_batch_returns_the_result_of_each_item(client: Client) -> None:
    done = client.products.batch(
        mode="independent",
        items=[
            {"op": "create", "data": {"name": "Mug", "price": "12.50", "sku": "MUG-1"}},
            {"op": "create", "data": {"name": "Bowl", "price": "18.00", "sku": "MUG-1"}},
        ],
    )
    assert [item.status for item in done] == ["created", "failed"]
    [failed] = done.failures
    assert failed.error is not None
    assert (failed.index, failed.error.code) == (1, "sku_taken")
    first = done.data[0].resource
    assert isinstance(first, models.Product)
    assert (done.answer.status, done.answer.meta["failed"], done.meta["total"]) == (207, 1, 2)
    assert (done.answer.request_id or "").startswith("req_")
    assert done.answer.content.startswith(b'{"data":[')


def test_a_model_can_be_sent_back(client: Client) -> None:
    made = client.products.create(name="Shirt", price="1.00", seo={"title": "A shirt"}, tags=["linen"])
    other = client.products.create(name="Coat", price=made.price, seo=made.seo, tags=made.tags)
    assert (other.seo, other.price, other.tags) == (made.seo, made.price, made.tags)


def test_times_lists_and_metadata_are_encoded_in_queries(client: Client) -> None:
    client.products.create(name="Mug & Bowl, 20% off", price="12.50", metadata={"kind": "a b/c&d"}, tags=["x y"])
    client.products.create(name="Bowl", price="30.00", status="draft")
    assert client.products.list(metadata={"kind": "a b/c&d"}).page().total == 1
    assert client.products.list(tag="x y", price_gte=Decimal(10), price_lt="20").page().total == 1
    assert (
        client.products.list(status=["active", "draft"], updated_since=datetime(2020, 1, 1, tzinfo=UTC)).page().total
        == 2
    )
    assert client.products.list(created_at_gt=datetime.now(UTC)).page().total == 0


def test_a_time_without_a_zone_is_refused_before_it_is_sent(client: Client) -> None:
    with pytest.raises(ValueError, match="time zone"):
        client.products.list(updated_since=datetime(2020, 1, 1)).page()  # noqa: DTZ001


async def test_a_client_can_be_used_for_other_stores(client: Client, account: Account) -> None:
    other = await account.service.account(f"{account.handle}-other")
    with pytest.raises(codes.AppNotInstalled):
        client.at(base_url(other)).products.list().page()
    installed = account.service.run("app", "install", account.client_id, other.handle)
    assert installed.returncode == 0, installed.stderr
    client.products.create(name="Mug", price="1.00")
    assert client.at(base_url(other)).products.list().page().total == 0


def test_a_token_bound_to_one_store_is_not_used_for_another(account: Account) -> None:
    with Client(base_url(account), client_id=account.client_id, client_secret=account.client_secret) as bound:
        assert bound.at(base_url(account)).products.list().page().total == 0


def test_any_path_can_be_called(client: Client) -> None:
    made = client.request("POST", "/products", body={"name": "Mug", "price": "1.00"})
    assert client.request("GET", f"/products/{made['data']['id']}")["data"]["name"] == "Mug"


def test_no_representation_contains_a_secret(client: Client, account: Account) -> None:
    assert account.client_secret not in repr(client)
    client.products.list().page()
    assert account.client_secret not in repr(vars(client))


def test_typed_metadata_is_filtered_by_ranges(client: Client, account: Account) -> None:
    define = ("define", "product", "warranty_months", "--type", "integer", "--store", account.handle)
    done = account.service.run("metadata", *define)
    assert done.returncode == 0, done.stderr
    for months in (12, 24, 59, 60):
        client.products.create(name="Kettle", price="80.00", metadata={"warranty_months": months, "care": "wash"})
    guide = (Path(__file__).parents[2] / "docs/guides/metadata.md").read_text()
    [line] = re.findall(r"```python\n(.+)\n```", guide)
    assert line == 'client.products.list(metadata={"warranty_months": {"gte": 24, "lt": 60}, "care": "wash"})'
    found = client.products.list(metadata={"warranty_months": {"gte": 24, "lt": 60}, "care": "wash"})
    assert [each.metadata["warranty_months"] for each in found] == [24, 59]
