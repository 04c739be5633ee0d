"""Writes: idempotency keys, versions that prevent lost updates, and merge patch."""

import asyncio
from typing import Any

import pytest
from tests.support.shops import Shop

from stoa.db.pool import Database

NOTE = {"title": "first", "price": "5.00"}


async def create_note(shop: Shop, **members: Any) -> dict[str, Any]:
    answer = await shop.client.post("/notes", json={**NOTE, **members})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def test_a_created_resource_has_a_location(shop: Shop) -> None:
    answer = await shop.client.post("/notes", json=NOTE)
    assert answer.status_code == 201
    found = await shop.client.get(answer.headers["location"])
    assert found.json()["data"] == answer.json()["data"]
    assert found.headers["etag"] == answer.headers["etag"]


async def test_a_repeated_key_replays_the_response_and_has_no_second_effect(shop: Shop) -> None:
    key = {"idempotency-key": "order-17"}
    first = await shop.client.post("/notes", json=NOTE, headers=key)
    second = await shop.client.post("/notes", json=NOTE, headers=key)
    assert first.status_code == second.status_code == 201
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (await shop.client.get("/notes")).json()["meta"]["total"] == 1


async def test_a_key_that_was_used_for_another_request_is_refused(shop: Shop) -> None:
    key = {"idempotency-key": "k"}
    await shop.client.post("/notes", json=NOTE, headers=key)
    other = await shop.client.post("/notes", json={**NOTE, "title": "second"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    other = await shop.client.post("/notes?fields=id", json=NOTE, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_a_failed_request_does_not_burn_its_key(shop: Shop) -> None:
    key = {"idempotency-key": "k"}
    await create_note(shop)
    taken = await shop.client.post("/notes", json=NOTE, headers=key)
    assert (taken.status_code, taken.json()["code"]) == (409, "title_taken")
    corrected = await shop.client.post("/notes", json={**NOTE, "title": "second"}, headers=key)
    assert corrected.status_code == 201


async def test_a_key_is_private_to_its_store_and_app(shop: Shop, other_shop: Shop) -> None:
    key = {"idempotency-key": "k"}
    mine = await shop.client.post("/notes", json=NOTE, headers=key)
    theirs = await other_shop.client.post("/notes", json={**NOTE, "title": "theirs"}, headers=key)
    assert mine.status_code == theirs.status_code == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "a" * 256, "tab\there"])
async def test_a_key_must_be_visible_ascii(shop: Shop, key: str) -> None:
    answer = await shop.client.post("/notes", json=NOTE, headers={b"idempotency-key": key.encode("latin-1")})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


async def test_concurrent_requests_with_one_key_have_one_effect(shop: Shop) -> None:
    key = {"idempotency-key": "race"}
    answers = await asyncio.gather(*(shop.client.post("/notes", json=NOTE, headers=key) for _ in range(12)))
    codes = [answer.status_code for answer in answers]
    assert set(codes) <= {201, 409}
    assert codes.count(201) >= 1
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["code"] == "idempotency_in_progress"
            assert int(answer.headers["retry-after"]) >= 1
    assert (await shop.client.get("/notes")).json()["meta"]["total"] == 1


async def test_a_key_that_is_in_progress_is_refused(shop: Shop, db: Database) -> None:
    async with db.transaction() as transaction:
        await transaction.execute(
            "INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint) VALUES ($1, $2, 'slow', 'x')",
            shop.store_id, shop.app_id,
        )  # fmt: skip
        answer = await shop.client.post("/notes", json=NOTE, headers={"idempotency-key": "slow"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.not_on_cluster("a lock of a table holds on one server")
@pytest.mark.parametrize("mode", ["SHARE", "ACCESS EXCLUSIVE"])
@pytest.mark.parametrize("path", ["/notes", "/orders"])  # the writes of orders are grouped
async def test_while_the_table_of_keys_is_locked_the_service_is_unavailable(
    shop: Shop, db: Database, path: str, mode: str
) -> None:
    product = {"name": "Mug", "price": "5.00", "sku": "MUG", "stock": {"on_hand": 9}}
    assert (await shop.client.post("/products", json=product)).status_code == 201
    body = NOTE if path == "/notes" else {"line_items": [{"sku": "MUG", "quantity": 1}]}
    key = {"idempotency-key": "locked"}
    async with db.transaction() as transaction:
        await transaction.execute(f"LOCK TABLE idempotency_keys IN {mode} MODE")
        locked = await shop.client.post(path, json=body, headers=key)
    assert (locked.status_code, locked.json()["code"], locked.headers["retry-after"]) == (503, "unavailable", "1")
    assert (await shop.client.post(path, json=body, headers=key)).status_code == 201


async def test_a_patch_changes_only_what_it_names(shop: Shop) -> None:
    note = await create_note(shop, detail={"author": "Ann", "pages": 3}, labels=["a", "b"])
    answer = await shop.client.patch(f"/notes/{note['id']}", json={"detail": {"pages": None}, "labels": ["c"]})
    changed = answer.json()["data"]
    assert changed["detail"] == {"author": "Ann"}
    assert changed["labels"] == ["c"]
    assert {k: changed[k] for k in ("title", "price", "color")} == {k: note[k] for k in ("title", "price", "color")}
    assert changed["version"] == note["version"] + 1


async def test_a_patch_that_changes_nothing_keeps_the_version(shop: Shop) -> None:
    note = await create_note(shop)
    answer = await shop.client.patch(f"/notes/{note['id']}", json={"title": "first"})
    assert answer.json()["data"] == note


async def test_a_patch_may_repeat_read_only_fields_but_not_change_them(shop: Shop) -> None:
    note = await create_note(shop)
    answer = await shop.client.patch(f"/notes/{note['id']}", json={**note, "title": "renamed"})
    assert answer.status_code == 200, answer.text
    answer = await shop.client.patch(f"/notes/{note['id']}", json={"id": 7, "version": "2"})
    assert answer.status_code == 422
    found = [(f["pointer"], f["code"]) for f in answer.json()["errors"]]
    assert found == [(f"/{name}", "read_only_field") for name in ("id", "version")]


async def test_a_patch_that_repeats_an_old_version_conflicts(shop: Shop) -> None:
    note = await create_note(shop)
    assert (await shop.client.patch(f"/notes/{note['id']}", json={"title": "renamed"})).status_code == 200
    answer = await shop.client.patch(f"/notes/{note['id']}", json={**note, "title": "again"})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["current_version"]) == (412, "version_conflict", 2)
    assert [(f["pointer"], f["code"], f["meta"]) for f in problem["errors"]] == [
        ("/version", "version_conflict", {"current_version": 2})
    ]
    assert (await shop.client.get(f"/notes/{note['id']}")).json()["data"]["title"] == "renamed"


async def test_only_patch_accepts_the_media_type_of_merge_patch(shop: Shop) -> None:
    note = await create_note(shop)
    media = {"content-type": "application/merge-patch+json"}
    answer = await shop.client.patch(f"/notes/{note['id']}", content=b'{"title":"x"}', headers=media)
    assert answer.status_code == 200
    answer = await shop.client.post("/notes", content=b'{"title":"y","price":"1"}', headers=media)
    assert answer.status_code == 415


async def test_if_match_prevents_a_lost_update(shop: Shop) -> None:
    note = await create_note(shop)
    path = f"/notes/{note['id']}"
    tag = (await shop.client.get(path)).headers["etag"]
    assert (await shop.client.patch(path, json={"title": "mine"}, headers={"if-match": tag})).status_code == 200
    for method in ("patch", "delete"):
        body = {"json": {"title": "theirs"}} if method == "patch" else {}
        late = await getattr(shop.client, method)(path, headers={"if-match": tag}, **body)
        assert (late.status_code, late.json()["code"], late.json()["current_version"]) == (
            412,
            "version_conflict",
            2,
        )
    assert (await shop.client.patch(path, json={"title": "b"}, headers={"if-match": '"9", "2"'})).status_code == 200
    assert (await shop.client.patch(path, json={"title": "c"}, headers={"if-match": "nonsense"})).status_code == 412
    assert (await shop.client.delete(path, headers={"if-match": "*"})).status_code == 204
    assert (await shop.client.get(path)).status_code == 404


async def test_if_none_match_returns_304_until_the_resource_changes(shop: Shop) -> None:
    note = await create_note(shop)
    path = f"/notes/{note['id']}"
    tag = (await shop.client.get(path)).headers["etag"]
    same = await shop.client.get(path, headers={"if-none-match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    sparse = await shop.client.get(path, params={"fields": "id"})
    assert sparse.headers["etag"] != tag
    await shop.client.patch(path, json={"title": "new"})
    assert (await shop.client.get(path, headers={"if-none-match": tag})).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_if_none_match_takes_the_version_in_every_encoding(shop: Shop, encoding: str) -> None:
    path = f"/notes/{(await create_note(shop))['id']}"
    await shop.client.patch(path, json={"title": "new"})
    accept = {"accept-encoding": encoding}
    for known in ('"2"', '"2-gz"', 'W/"2"', "2", '"1", W/"2-gz"'):
        answer = await shop.client.get(path, headers={"if-none-match": known, **accept})
        assert (known, answer.status_code) == (known, 304)
    for stale in ('"1"', '"1-gz"', '"3"', '"22"', '""', '"-gz"'):
        answer = await shop.client.get(path, headers={"if-none-match": stale, **accept})
        assert (stale, answer.status_code) == (stale, 200)
    sparse = await shop.client.get(path, params={"fields": "id"}, headers=accept)
    for known in ('"2"', sparse.headers["etag"]):
        headers = {"if-none-match": known, **accept}
        assert (await shop.client.get(path, params={"fields": "id"}, headers=headers)).status_code == 304
    headers = {"if-none-match": sparse.headers["etag"], **accept}
    assert (await shop.client.get(path, headers=headers)).status_code == 200, "the tag of another representation"


async def test_of_concurrent_updates_to_one_version_one_succeeds(shop: Shop) -> None:
    note = await create_note(shop)
    answers = await asyncio.gather(
        *(
            shop.client.patch(f"/notes/{note['id']}", json={"title": f"t{n}"}, headers={"if-match": '"1"'})
            for n in range(8)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
