"""Definitions are managed by merchants, developers and operators, and compared with what is stored."""

import asyncio
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from stoa.access.console import open_console
from stoa.access.grants import install
from stoa.settings import Settings
from stoa.store_data import definitions, stored_values
from stoa.store_data.definition_commands import metadata
from stoa.store_data.definitions import (
    InvalidDefinition,
    NoSuchDefinition,
    apply_definitions,
    definitions_of_app,
    definitions_of_store,
    read_definition,
    read_definitions,
    remove,
    remove_of_app,
)
from stoa.store_data.stored_values import CheckTooLong, ViolatedDefinition
from tests.metadata.support import WARRANTY, app_defines, merchant_defines
from tests.support.shops import SHIRT, Shop

MUG = {"name": "Mug", "price": "9.00"}


async def actions(shop: Shop, store_id: int) -> list[tuple[str, str]]:
    rows = await shop.db.fetch(
        "SELECT action, subject FROM audit_entries WHERE store_id = $1 AND action LIKE 'metadata.%' ORDER BY position",
        store_id,
    )
    return [(row[0], row[1]) for row in rows]


async def test_a_merchant_defines_replaces_and_removes_a_key(shop: Shop) -> None:
    await merchant_defines(shop, WARRANTY, {**WARRANTY, "max": 60}, {**WARRANTY, "key": "a", "description": "First."})
    found = await definitions_of_store(shop.db, shop.store_id)
    assert [(each.key, each.max, each.description) for each in found] == [
        ("a", 120, "First."),
        ("warranty_months", 60, ""),
    ]
    await remove(shop.operator, shop.store.handle, "product", "warranty_months")
    assert [each.key for each in await definitions_of_store(shop.db, shop.store_id)] == ["a"]
    with pytest.raises(NoSuchDefinition):
        await remove(shop.operator, shop.store.handle, "product", "warranty_months")
    subjects = ["warranty_months", "warranty_months", "a", "warranty_months"]
    names = ["metadata.defined"] * 3 + ["metadata.undefined"]
    assert await actions(shop, shop.store_id) == [
        (name, f"metadata:product.{key}") for name, key in zip(names, subjects, strict=True)
    ]


async def test_a_list_of_an_app_is_applied_once(shop: Shop) -> None:
    wanted = read_definitions([WARRANTY, {**WARRANTY, "key": "a"}], of_app=True)
    first = await apply_definitions(shop.operator, shop.client_id, wanted)
    assert first.added == ["product.a", "product.warranty_months"]
    assert not await apply_definitions(shop.operator, shop.client_id, list(reversed(wanted)))
    fewer = read_definitions([{**WARRANTY, "max": 12}], of_app=True)
    second = await apply_definitions(shop.operator, shop.client_id, fewer)
    assert (second.added, second.changed, second.removed) == ([], ["product.warranty_months"], ["product.a"])
    assert await definitions_of_app(shop.db, shop.app_id) == fewer
    await remove_of_app(shop.operator, shop.client_id, "product", "warranty_months")
    assert await definitions_of_app(shop.db, shop.app_id) == []
    rows = await shop.db.fetch(
        "SELECT count(*) FROM service_audit_entries WHERE subject = $1 AND action = 'metadata.defined'",
        f"app:{shop.app_id}",
    )
    assert rows[0][0] == 3


@pytest.mark.parametrize("resource", ["product", "variant", "order", "customer"])
async def test_a_definition_that_stored_values_violate_is_refused_with_examples(shop: Shop, resource: str) -> None:
    key = "shared.size" if resource == "customer" else "size"
    ids: list[int] = []
    for n, value in enumerate(["12", 12, "twelve", None]):
        metadata = {key: value} if value is not None else {"other": "size"}
        if resource == "customer":
            body: dict[str, Any] = {"email": f"{n}@example.com", "metadata": metadata}
        elif resource == "order":
            body = {"line_items": [{"name": "Repair", "unit_price": "1.00", "quantity": 1 + n}], "metadata": metadata}
        elif resource == "variant":
            body = {**MUG, "variants": [{"metadata": metadata}]}
        else:
            body = {**MUG, "metadata": metadata}
        path = "products" if resource == "variant" else f"{resource}s"
        answer = await shop.client.post(f"/{path}", json=body)
        assert answer.status_code == 201, answer.text
        data = answer.json()["data"]
        ids.append(data["variants"][0]["id"] if resource == "variant" else data["id"])
    with pytest.raises(ViolatedDefinition) as refused:
        await merchant_defines(shop, {"resource": resource, "key": key, "type": "integer"})
    assert refused.value.count == 2
    assert [each.id for each in refused.value.examples] == [ids[0], ids[2]]
    assert "2 stored values violate" in str(refused.value)
    assert "twelve" not in str(refused.value)
    assert await definitions_of_store(shop.db, shop.store_id) == []
    await merchant_defines(shop, {"resource": resource, "key": key, "type": "integer"} | {"key": f"{key}s"})


async def test_a_definition_of_an_app_is_compared_with_every_store(shop: Shop, other_shop: Shop) -> None:
    await other_shop.add({**MUG, "metadata": {"warranty_months": "long"}})
    await app_defines(shop, WARRANTY)
    await remove_of_app(shop.operator, shop.client_id, "product", "warranty_months")
    await install(shop.operator, shop.client_id, other_shop.store.handle, ["orders:read"])
    with pytest.raises(ViolatedDefinition) as refused:
        await app_defines(shop, WARRANTY)
    assert (refused.value.count, refused.value.examples) == (1, [])  # the app cannot read products there


async def test_private_values_of_another_app_do_not_count(shop: Shop) -> None:
    theirs = await shop.client_with(["customers:write"])
    await theirs.post("/customers", json={"email": "jun@example.com", "metadata": {"tier": "wood"}})
    await app_defines(shop, {"resource": "customer", "key": "tier", "type": "integer"})


@pytest.mark.parametrize("rows", [1, 2_000])
async def test_a_check_ends_in_time(shop: Shop, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Also if it needs only one statement for each store, because there can be many stores."""
    await shop.add(SHIRT, {**MUG, "sku": "M"})
    monkeypatch.setattr(stored_values, "_ROWS", rows)
    with pytest.raises(CheckTooLong, match=r"checked in 0 seconds.*--seconds"):
        await definitions.define(shop.operator, shop.store.handle, read_definition(WARRANTY, of_app=False), seconds=0)
    assert await definitions_of_store(shop.db, shop.store_id) == []


async def test_concurrent_definitions_are_all_kept(shop: Shop) -> None:
    await asyncio.gather(*(merchant_defines(shop, {**WARRANTY, "key": f"k{n}"}) for n in range(8)))
    assert len(await definitions_of_store(shop.db, shop.store_id)) == 8
    await asyncio.gather(*(app_defines(shop, {**WARRANTY, "key": f"k{n}"}) for n in range(8)))
    assert len(await definitions_of_app(shop.db, shop.app_id)) == 8


async def test_definitions_have_a_limit(shop: Shop) -> None:
    many = [{**WARRANTY, "key": f"k{n}"} for n in range(101)]
    with pytest.raises(InvalidDefinition):
        read_definitions(many, of_app=True)
    await apply_definitions(shop.operator, shop.client_id, read_definitions(many[:100], of_app=True))
    with pytest.raises(InvalidDefinition, match="at most 100 definitions"):
        await app_defines(shop, many[100])


async def test_the_command_lists_defines_and_removes(shop: Shop, settings: Settings) -> None:
    def invoke(*words: str) -> Any:
        return CliRunner().invoke(metadata, list(words), obj=open_console(settings), catch_exceptions=False)

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(invoke, *words, "--store", shop.store.handle)

    made = await run(
        "define", "product", "warranty_months", "--type", "integer", "--min", "0", "--max", "120", "--json"
    )
    assert made.exit_code == 0, made.output
    assert msgspec.json.decode(made.stdout) == WARRANTY
    assert "0 to 120" in (await run("list")).output
    wrong = await run("define", "product", "care", "--type", "choice")
    assert (wrong.exit_code, "choices is required for a choice" in wrong.output) == (1, True)
    removed = await run("remove", "product", "warranty_months")
    assert removed.output == "There are no definitions.\n"
    assert (await run("list")).output == "There are no definitions.\n"
    of_app = await asyncio.to_thread(invoke, "define", "order", "gift", "--type", "boolean", "--app", shop.client_id)
    assert of_app.exit_code == 0, of_app.output
    assert [each.key for each in await definitions_of_app(shop.db, shop.app_id)] == ["gift"]
    neither = await asyncio.to_thread(invoke, "list")
    assert (neither.exit_code, "specify either --store or --app" in neither.output) == (2, True)
