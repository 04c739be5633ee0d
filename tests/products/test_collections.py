"""Collections: chosen by hand or by rules, shown on products, filtered, sorted, imported, exported, and managed by operators."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner
from tests.imports.files import CSV, import_file
from tests.pictures.samples import picture
from tests.support.shops import MUG, SHIRT, Shop

from stoa.access import audit
from stoa.access.console import open_console
from stoa.products import collection_changes as changes
from stoa.products.collection_changes import Details
from stoa.products.collection_commands import collection
from stoa.products.collection_rollout import apply_collections
from stoa.settings import Settings

Entry = tuple[str, int | None, bool]


@pytest.fixture(autouse=True)
async def _no_other_store_waits(shop: Shop) -> None:  # pyright: ignore[reportUnusedFunction]
    """Stores of earlier tests share the database."""
    await apply_collections(shop.db)


async def create(shop: Shop, handle: str, *rules: tuple[str, str], match: Any = "all") -> changes.Collection:
    return await changes.create_collection(
        shop.local_operator, shop.store.handle, handle, Details(handle.title(), rules=rules, match=match)
    )


def entries(product: dict[str, Any]) -> list[Entry]:
    return [(each["handle"], each["position"], each["by_rule"]) for each in product["collections"]]


async def shown(shop: Shop, product_id: int) -> list[Entry]:
    return entries((await shop.client.get(f"/products/{product_id}")).json()["data"])


async def listed(shop: Shop, **query: Any) -> list[int]:
    answer = await shop.client.get("/products", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["meta"]["total"] == len(answer.json()["data"])
    return [each["id"] for each in answer.json()["data"]]


async def test_a_product_is_in_the_collections_that_are_chosen_and_in_those_whose_rules_it_fulfills(shop: Shop) -> None:
    await create(shop, "gifts")
    await create(shop, "linen", ("tag", "LINEN"), ("price", "50..60"))
    body = {**SHIRT, "collections": [{"handle": "gifts", "position": 3}]}
    made = (await shop.client.post("/products", json=body)).json()["data"]
    assert entries(made) == [("gifts", 3, False), ("linen", None, True)]
    assert await shown(shop, made["id"]) == entries(made)
    changed = (await shop.client.patch(f"/products/{made['id']}", json={"price": "60.01"})).json()["data"]
    assert entries(changed) == [("gifts", 3, False)]
    cleared = (await shop.client.patch(f"/products/{made['id']}", json={"collections": None})).json()["data"]
    assert entries(cleared) == []


async def test_a_list_that_was_read_can_be_sent_back(shop: Shop) -> None:
    await create(shop, "gifts")
    await create(shop, "linen", ("tag", "linen"))
    made = (await shop.client.post("/products", json={**SHIRT, "collections": [{"handle": "gifts"}]})).json()["data"]
    same = await shop.client.patch(f"/products/{made['id']}", json={"collections": made["collections"]})
    assert same.json()["data"]["version"] == made["version"]
    pinned = [{"handle": "linen", "position": 1}, *made["collections"][:1]]
    after = (await shop.client.patch(f"/products/{made['id']}", json={"collections": pinned})).json()["data"]
    assert entries(after) == [("gifts", None, False), ("linen", 1, False)]
    back = (await shop.client.patch(f"/products/{made['id']}", json={"collections": []})).json()["data"]
    assert entries(back) == [("linen", None, True)]


@pytest.mark.parametrize(
    ("sent", "pointer", "code"),
    [
        ([{"handle": "nothing"}], "/collections/0/handle", "unknown_collection"),
        ([{"handle": "gifts"}, {"handle": "gifts"}], "/collections/1/handle", "invalid_format"),
        ([{"handle": "Gifts!"}], "/collections/0/handle", "invalid_format"),
        ([{"handle": "gifts", "position": 0}], "/collections/0/position", "out_of_range"),
        ([{"handle": "gifts", "place": 1}], "/collections/0/place", "unknown_field"),
        ("gifts", "/collections", "invalid_type"),
    ],
)
async def test_a_wrong_collection_is_refused_everywhere(shop: Shop, sent: Any, pointer: str, code: str) -> None:
    await create(shop, "gifts")
    [mug] = await shop.add(MUG)
    item = {"op": "update", "id": mug, "data": {"collections": sent}}
    answers = [
        ("", await shop.client.post("/products", json={**SHIRT, "collections": sent})),
        ("", await shop.client.patch(f"/products/{mug}", json={"collections": sent})),
        ("/items/0/data", await shop.client.post("/products/batch", json={"items": [item]})),
    ]
    for prefix, answer in answers:
        found = [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]
        assert (answer.status_code, found) == (422, [(prefix + pointer, code)])
    assert await listed(shop) == [mug]


async def test_an_independent_batch_refuses_only_the_item_with_an_unknown_collection(shop: Shop) -> None:
    await create(shop, "gifts")
    items = [
        {"op": "create", "data": {**MUG, "sku": each, "collections": [{"handle": each}]}} for each in ("gifts", "no")
    ]
    answer = await shop.client.post("/products/batch", json={"items": items, "mode": "independent"})
    results = answer.json()["data"]
    assert [each["status"] for each in results] == ["created", "failed"]
    assert results[1]["error"]["errors"][0]["pointer"] == "/items/1/data/collections/0/handle"


async def test_concurrent_creations_are_refused_one_by_one(shop: Shop) -> None:
    await create(shop, "gifts")
    answers = await asyncio.gather(
        *(
            shop.client.post("/products", json={**MUG, "sku": f"M-{n}", "collections": [{"handle": handle}]})
            for n, handle in enumerate(["gifts", "no"] * 4)
        )
    )
    assert [answer.status_code for answer in answers] == [201, 422] * 4


async def test_a_collection_is_listed_in_the_order_of_its_positions(shop: Shop) -> None:
    await create(shop, "gifts")
    places = [None, 2, 1, None, 2]
    ids = await shop.add(
        *({**MUG, "sku": f"M-{n}", "collections": [{"handle": "gifts", "position": p}]} for n, p in enumerate(places)),
        {**MUG, "sku": "other"},
    )
    wanted = [ids[2], ids[1], ids[4], ids[0], ids[3]]
    assert await listed(shop, collection="gifts") == ids[:5]
    assert await listed(shop, collection="gifts", sort="position") == wanted
    assert await listed(shop, collection="gifts", sort="-position") == wanted[::-1]
    assert await listed(shop, collection="gifts", sort="position", q="caf", status="draft") == wanted
    assert await listed(shop, collection="nothing", sort="position") == []
    seen: list[int] = []
    query: dict[str, Any] = {"collection": "gifts", "sort": "position", "limit": 2}
    while True:
        page = (await shop.client.get("/products", params=query)).json()
        seen += [each["id"] for each in page["data"]]
        assert page["meta"]["total"] == 5
        if page["meta"]["next_cursor"] is None:
            break
        query = {"cursor": page["meta"]["next_cursor"]}
    assert seen == wanted
    before = (await shop.client.get("/products", params={"cursor": page["meta"]["prev_cursor"]})).json()
    assert [each["id"] for each in before["data"]] == wanted[2:4]


async def test_positions_need_a_collection(shop: Shop) -> None:
    answer = await shop.client.get("/products?sort=position")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "sort")
    assert "collection" in answer.json()["errors"][0]["detail"]


async def test_the_event_of_a_product_contains_the_collections_before_and_after(shop: Shop) -> None:
    await create(shop, "linen", ("tag", "linen"))
    [shirt] = await shop.add(SHIRT)
    await shop.client.patch(f"/products/{shirt}", json={"tags": []})
    rows = await shop.db.fetch(
        "SELECT changes, data FROM events WHERE store_id = $1 AND type = 'product.updated'", shop.store_id
    )
    [[recorded, data]] = rows
    was = [{"handle": "linen", "position": None, "by_rule": True}]
    assert json.loads(recorded)["collections"] == [was, []]
    assert json.loads(data)["collections"] == []


async def test_rules_are_applied_to_existing_products_in_batches(shop: Shop) -> None:
    ids = await shop.add(*({**MUG, "sku": f"M-{n}", "tags": ["odd"] if n % 2 else []} for n in range(7)))
    created = await create(shop, "odd", ("tag", "odd"))
    assert (created.products, await listed(shop, collection="odd")) == (0, [])
    assert await apply_collections(shop.db, batch=2) == 3
    assert await listed(shop, collection="odd", sort="position") == ids[1::2]
    rows = await shop.db.fetch(
        "SELECT resource_id, actor FROM events WHERE store_id = $1 AND type = 'product.updated' ORDER BY resource_id",
        shop.store_id,
    )
    assert [(row[0], json.loads(row[1])) for row in rows] == [(each, {"type": "system"}) for each in ids[1::2]]
    assert await apply_collections(shop.db) == 0
    handle = shop.store.handle
    await changes.update_collection(shop.local_operator, handle, "odd", rules=[("price", "13..")])
    await apply_collections(shop.db, batch=3)
    assert await listed(shop, collection="odd") == []


async def test_a_deleted_collection_leaves_its_products_and_then_frees_its_handle(shop: Shop) -> None:
    operator, handle = shop.local_operator, shop.store.handle
    await create(shop, "gifts", ("tag", "linen"))
    shirt, mug = await shop.add(SHIRT, {**MUG, "collections": [{"handle": "gifts", "position": 1}]})
    await shop.client.delete(f"/products/{shirt}")
    await changes.delete_collection(operator, handle, "gifts")
    with pytest.raises(changes.NoSuchCollection):
        await changes.get_collection(operator, handle, "gifts")
    with pytest.raises(changes.CollectionTaken):
        await create(shop, "gifts")
    refused = await shop.client.post("/products", json={**SHIRT, "collections": [{"handle": "gifts"}]})
    assert refused.status_code == 422
    renamed = await shop.client.patch(f"/products/{mug}", json={"name": "Cup", "collections": [{"handle": "gifts"}]})
    assert entries(renamed.json()["data"]) == [], "a product leaves with its next change"
    assert await apply_collections(shop.db) == 0
    await create(shop, "gifts")
    assert await listed(shop, collection="gifts", include_deleted="true") == []


async def test_a_deleted_product_is_a_tombstone_in_its_collection(shop: Shop) -> None:
    await create(shop, "gifts")
    shirt, mug = await shop.add(*({**each, "collections": [{"handle": "gifts"}]} for each in (SHIRT, MUG)))
    await shop.client.delete(f"/products/{shirt}")
    assert await listed(shop, collection="gifts") == [mug]
    assert await listed(shop, collection="gifts", include_deleted="true") == [shirt, mug]
    [found] = await changes.list_collections(shop.local_operator, shop.store.handle)
    assert found.products == 1


async def test_the_collections_of_another_store_do_not_exist(shop: Shop, other_shop: Shop) -> None:
    await create(shop, "gifts", ("tag", "linen"))
    await other_shop.add(SHIRT)
    sent = {**MUG, "collections": [{"handle": "gifts"}]}
    assert (await other_shop.client.post("/products", json=sent)).status_code == 422
    await create(other_shop, "gifts")
    await apply_collections(shop.db)
    assert await listed(other_shop, collection="gifts") == []


async def test_a_file_chooses_collections_and_an_export_of_it_changes_nothing(shop: Shop) -> None:
    await create(shop, "gifts")
    await create(shop, "picks")
    await create(shop, "mugs", ("tag", "mug"))
    lines = "sku,name,price,tags,collections\nA,Ay,1.00,mug,gifts:2|picks\nB,Bee,2.00,,no\nC,Cee,3.00,,gifts:x\n"
    job = await import_file(shop, lines.encode(), CSV)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 2)
    faults = [(each["row"], each["pointer"], each["code"]) for each in job["errors"]]
    assert faults == [
        (2, "/collections/0/handle", "unknown_collection"),
        (3, "/collections/0/handle", "invalid_format"),
    ]
    [made] = (await shop.client.get("/products?sku=A")).json()["data"]
    assert entries(made) == [("gifts", 2, False), ("mugs", None, True), ("picks", None, False)]
    exported = await shop.client.get("/products", headers={"accept": "text/csv"})
    assert "gifts:2|picks" in exported.text
    again = (await import_file(shop, exported.content, CSV))["counts"]
    assert (again["unchanged"], again["failed"], again["updated"]) == (1, 0, 0)
    assert (await import_file(shop, lines.encode(), CSV, dry_run="true"))["counts"]["failed"] == 2


@pytest.mark.parametrize(
    ("details", "refusal"),
    [
        (Details(""), "name"),
        (Details("T", picture="ftp://x"), "picture"),
        (Details("T", description="x" * 65_536), "description"),
        (Details("T", rules=[("color", "red")]), "rule 1 must be about"),
        (Details("T", rules=[("tag", " ")]), "rule 1"),
        (Details("T", rules=[("tag", "a"), ("price", "cheap")]), "rule 2 must be a price range"),
        (Details("T", rules=[("price", "NaN")]), "price range"),
        (Details("T", rules=[("price", "20..10")]), "lower price"),
        (Details("T", rules=[("price", "1.005")]), "fraction digits"),
        (Details("T", rules=[("price", "1e999999")]), "at most"),
        (Details("T", rules=[("tag", "x")] * 21), "at most 20 rules"),
    ],
)
async def test_a_collection_that_cannot_be_used_is_refused(shop: Shop, details: Details, refusal: str) -> None:
    with pytest.raises(changes.AccessRefused, match=refusal):
        await changes.create_collection(shop.local_operator, shop.store.handle, "summer", details)
    assert await changes.list_collections(shop.local_operator, shop.store.handle) == []


async def test_two_people_do_not_overwrite_each_other(shop: Shop) -> None:
    made = await create(shop, "gifts")
    await changes.update_collection(
        shop.local_operator, shop.store.handle, "gifts", version=made.version, title="Presents"
    )
    with pytest.raises(changes.CollectionChanged):
        await changes.update_collection(
            shop.local_operator, shop.store.handle, "gifts", version=made.version, title="Else"
        )


async def test_operators_manage_collections_by_command(shop: Shop, settings: Settings, tmp_path: Path) -> None:
    await shop.add(SHIRT, MUG)

    async def run(*words: str, code: int = 0) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, collection, words, obj=open_console(settings))
        assert done.exit_code == code, done.output
        return done.output

    store = shop.store.handle
    await run(
        "create", store, "gifts", "--title", "Gifts", "--rule", "tag=linen", "--rule", "brand=Kiln", "--match", "any"
    )
    await apply_collections(shop.db)
    [found] = msgspec.json.decode(await run("list", store, "--json"))
    assert (found["products"], found["match"], found["rules"]) == (1, "any", ["tag=linen", "brand=Kiln"])
    added = msgspec.json.decode(await run("add", store, "gifts", "MUG-1", "LS-M", "--position", "7", "--json"))
    assert added["products"] == 2
    listing = (await shop.client.get("/products?collection=gifts&sort=position")).json()["data"]
    assert [entries(each) for each in listing] == [[("gifts", 7, False)], [("gifts", 8, False)]]
    await run("remove", store, "gifts", "MUG-1", "LS-S")
    [left] = (await shop.client.get("/products?collection=gifts")).json()["data"]
    assert entries(left) == [("gifts", None, True)]
    await run("update", store, "gifts", "--title", "Presents", "--no-rules")
    assert "no product of this store has the SKU NOPE" in await run("add", store, "gifts", "NOPE", code=1)
    assert "there is no collection" in await run("add", store, "nothing", "MUG-1", code=1)
    await run("update", store, "gifts", code=2)
    (tmp_path / "gifts.png").write_bytes(picture(kind="PNG"))
    (tmp_path / "text.png").write_bytes(b"Dear reader, ...")
    pictured = msgspec.json.decode(
        await run("update", store, "gifts", "--picture", str(tmp_path / "gifts.png"), "--json")
    )
    assert (await shop.service.get(httpx.URL(pictured["picture"]).path)).status_code == 200
    assert "is not a JPEG" in await run("update", store, "gifts", "--picture", str(tmp_path / "text.png"), code=1)
    assert "No such file" in await run("update", store, "gifts", "--picture", str(tmp_path / "no.png"), code=2)
    await run("update", store, "gifts", "--picture", "")
    await run("create", store, "wrong", "--title", "T", "--rule", "linen", code=2)
    await run("delete", store, "gifts")
    assert "no collections" in await run("list", store)
    actions = [each.action for each in await audit.page(shop.db, shop.store_id, 0, 100)]
    assert [each for each in actions if each.startswith("collection.")] == [
        "collection.created",
        "collection.products_added",
        "collection.products_removed",
        "collection.changed",
        "collection.changed",
        "collection.changed",
        "collection.deleted",
    ]
