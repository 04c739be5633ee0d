"""Erasure: canary values are sent to every endpoint, and no table contains one after the erasure."""

import asyncio
from typing import Any

import msgspec
import pytest

from stoa.access import audit
from stoa.imports import queries
from stoa.imports.customers import CUSTOMERS
from stoa.imports.job_run import JobRun, LeaseLost
from stoa.imports.runner import claim_import, run_pending
from tests.customers.people import JUN, MAYA, created, events, patched
from tests.support.canaries import traces
from tests.support.shops import Shop

CANARIES = (
    "canarina", "goldfinch", "canary@song.example", "canary.old@song.example", "15550100777", "15550100778",
    "warbler lane", "cage-77", "sings at dawn", "feathered", "crm-canary", "perch-metadata", "shared-perch",
    "canary.failed@song.example", "warbler yard",
)  # fmt: skip
CANARY: dict[str, Any] = {
    "email": "Canary.Old@song.example",
    "phone": "+1 555 010 0777",
    "external_id": "crm-canary",
    "first_name": "Canarina",
    "last_name": "Goldfinch",
    "company": "Feathered & Sons",
    "note": "Sings at dawn.",
    "tags": ["feathered"],
    "addresses": [{"address1": "7 Warbler Lane", "address2": "Cage-77", "country_code": "ES", "phone": "+15550100778"}],
    "metadata": {"perch": "perch-metadata", "shared.perch": "shared-perch"},
}
NDJSON = {"content-type": "application/x-ndjson"}


async def send(shop: Shop, rows: list[dict[str, Any]], **query: Any) -> dict[str, Any]:
    content = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    answer = await shop.client.post("/customers/imports", content=content, headers=NDJSON, params=query)
    assert answer.status_code == 202, answer.text
    return answer.json()["data"]


async def canary_customer(shop: Shop) -> int:
    """A customer whose data was sent to every endpoint of customers."""
    await run_pending(shop.db)
    keyed = {"idempotency-key": "create-1"}
    answer = await shop.client.post("/customers", json=CANARY, headers=keyed)
    customer = answer.json()["data"]
    path = f"/customers/{customer['id']}"
    changes = {"email": "canary@song.example", "note": "Still sings at dawn."}
    assert (await shop.client.patch(path, json=changes, headers={"idempotency-key": "patch-1"})).status_code == 200
    await shop.client.post(
        f"{path}/addresses",
        json={"address1": "8 Warbler Lane", "country_code": "ES"},
        headers={"idempotency-key": "address-1"},
    )
    await shop.client.patch(f"{path}/metadata", json={"more": "perch-metadata"}, headers={"idempotency-key": "meta-1"})
    await send(shop, [{"email": "CANARY@song.example", "note": "Imported: sings at dawn"}])
    await send(shop, [{"email": "canary@song.example", "note": "Feathered"}], dry_run=True)
    broken = {"external_id": "crm-canary", "email": "canary@song.example", "locale": "?", "note": "Feathered"}
    await send(shop, [broken, {"email": "canary.old@song.example", "status": "gone", "first_name": "Canarina"}])
    await send(shop, [{"phone": "+1 (555) 010-0777", "email": "x@", "last_name": "Goldfinch"}], match_by="phone")
    csv = b"external_id,first_name,email\ncrm-canary,Canarina,x\nother,Jun,y\n"
    await shop.client.post(
        "/customers/imports", content=csv, headers={"content-type": "text/csv"}, params={"match_by": "external_id"}
    )
    await run_pending(shop.db)
    return customer["id"]


async def test_no_table_contains_a_person_after_an_erasure(shop: Shop) -> None:
    customer_id = await canary_customer(shop)
    before = await traces(shop.db, CANARIES, store_id=shop.store.id)
    for place in (
        "customers.head", "customers.terms", "customer_metadata.value", "events.data", "events.changes",
        "idempotency_keys.body", "import_rows.key", "import_rows.raw", "import_rows.changes",
    ):  # fmt: skip
        assert [each for each in before if each.startswith(place)], f"the canaries never reached {place}"
    await send(shop, [{"email": "canary@song.example", "first_name": "Canarina"}, {"email": "lives@song.example"}])
    assert [
        each for each in await traces(shop.db, CANARIES, store_id=shop.store.id) if each.startswith("import_parts.data")
    ]
    assert (await shop.client.delete(f"/customers/{customer_id}")).status_code == 204
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []
    await run_pending(shop.db)
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []
    found = (await shop.client.get("/customers?email=lives@song.example")).json()
    assert found["meta"]["total"] == 1, "other customers of the same file stay"


async def test_an_erasure_empties_one_record_of_a_waiting_file(shop: Shop) -> None:
    await run_pending(shop.db)
    customer = await created(shop, CANARY)
    csv = 'email,note\nother@song.example,"two\nlines"\nCanary.Old@song.example,"sings\nat dawn"\nlast@song.example,x\n'
    media = {"content-type": "text/csv"}
    job = (await shop.client.post("/customers/imports", content=csv.encode(), headers=media)).json()["data"]
    await shop.client.delete(f"/customers/{customer['id']}")
    await run_pending(shop.db)
    after = (await shop.client.get(f"/customers/imports/{job['id']}")).json()["data"]
    assert (after["counts"]["created"], after["counts"]["failed"]) == (2, 1)
    assert [(error["row"], error["code"]) for error in after["errors"]] == [(2, "required")]
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []


async def test_an_erasure_empties_the_names_of_wrong_members(shop: Shop) -> None:
    """A row that was written wrongly can have values where names belong."""
    await run_pending(shop.db)
    customer = await created(shop, CANARY)
    row = {"email": CANARY["email"], "Canarina": "first_name", "metadata": {"Sings at dawn!": 1}}
    job = await send(shop, [row])
    await run_pending(shop.db)
    assert "import_rows.errors: canarina" in await traces(shop.db, CANARIES, store_id=shop.store.id)
    assert (await shop.client.delete(f"/customers/{customer['id']}")).status_code == 204
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []
    report = (await shop.client.get(f"/customers/imports/{job['id']}")).json()["data"]
    assert {(error["row"], error["pointer"], error["code"]) for error in report["errors"]} == {
        (1, "", "unknown_field"),
        (1, "", "invalid_format"),
    }


async def test_a_worker_that_read_rows_before_an_erasure_cannot_write_them(shop: Shop) -> None:
    await run_pending(shop.db)
    canary = await created(shop, CANARY)
    job = await send(
        shop, [{"email": "canary.old@song.example", "first_name": "Canarina"}, {"email": "new@song.example"}]
    )
    claimed = await claim_import(shop.db, "me")
    assert claimed is not None
    stored = await queries.GET.one(shop.db, shop.store_id, "customers", job["id"])
    work = await JobRun.begin(shop.db, stored, CUSTOMERS, "me", lambda: False)
    async for number, rows in work.parts(0):
        assert rows[0].members["first_name"] == "Canarina"
        assert (await shop.client.delete(f"/customers/{canary['id']}")).status_code == 204
        with pytest.raises(LeaseLost):
            async with work.transaction(number + 1) as db:
                await work.apply(db, rows, write=True)
    await run_pending(shop.db)
    after = (await shop.client.get(f"/customers/imports/{job['id']}")).json()["data"]
    assert (after["counts"]["created"], after["counts"]["failed"]) == (1, 1)
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []


async def test_every_endpoint_treats_an_erased_customer_as_missing(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    path = f"/customers/{maya['id']}"
    assert (await shop.client.delete(path)).status_code == 204
    address = maya["addresses"][0]["id"]
    for method, at, body in (
        ("GET", path, None),
        ("PATCH", path, {"note": "x"}),
        ("DELETE", path, None),
        ("POST", f"{path}/addresses", {"address1": "x", "country_code": "US"}),
        ("PATCH", f"{path}/addresses/{address}", {"city": "x"}),
        ("DELETE", f"{path}/addresses/{address}", None),
        ("PATCH", f"{path}/metadata", {"a": 1}),
    ):
        answer = await shop.client.request(method, at, json=body)
        assert answer.status_code == 404, (method, at)
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 0
    page = (await shop.client.get("/customers?include_deleted=true&status=erased")).json()
    assert [set(each) for each in page["data"]] == [{"id", "deleted_at", "updated_at", "version"}]


async def test_the_keys_of_an_erased_customer_can_be_reused(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    await shop.client.delete(f"/customers/{maya['id']}")
    again = await created(shop, MAYA)
    assert again["id"] != maya["id"]
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 1


async def test_a_replay_after_an_erasure_contains_no_personal_data(shop: Shop) -> None:
    key = {"idempotency-key": "k"}
    first = await shop.client.post("/customers", json=MAYA, headers=key)
    customer_id = first.json()["data"]["id"]
    await shop.client.delete(f"/customers/{customer_id}")
    again = await shop.client.post("/customers", json=MAYA, headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.json() == {"data": {"id": customer_id}, "meta": {}}
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 0


async def test_the_event_and_audit_entry_of_an_erasure_contain_no_personal_data(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    await shop.client.delete(f"/customers/{maya['id']}")
    types = ("customer.created", "customer.deleted", "customer.erased")
    assert await events(shop) == [(each, maya["id"], {}) for each in types]
    rows = await shop.db.fetch(
        "SELECT data FROM events WHERE store_id = $1 AND type = 'customer.deleted'", shop.store_id
    )
    assert set(msgspec.json.decode(rows[0][0])) == {"id", "deleted_at", "updated_at", "version"}
    entry = (await audit.newest(shop.db, shop.store_id, 1))[0]
    assert (entry.action, entry.actor, entry.subject) == (
        "customer.erased",
        f"app:{shop.app_id}",
        f"customer:{maya['id']}",
    )
    assert await audit.verify(shop.db, shop.store_id) is None


async def test_an_erasure_requires_its_own_scope(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    writer = await shop.client_with(["customers:write"])
    assert (await writer.delete(f"/customers/{maya['id']}")).status_code == 403


async def test_an_erasure_does_not_affect_other_customers(shop: Shop, other_shop: Shop) -> None:
    maya, jun = await created(shop, MAYA), await created(shop, {**JUN, "metadata": {"a": 1}})
    twin = await created(other_shop, MAYA)
    await shop.client.delete(f"/customers/{maya['id']}")
    assert (await shop.client.get(f"/customers/{jun['id']}")).json()["data"] == jun
    assert (await other_shop.client.get(f"/customers/{twin['id']}")).json()["data"] == twin
    events = await other_shop.db.fetch("SELECT data FROM events WHERE store_id = $1", other_shop.store_id)
    assert any("Maya" in row[0] for row in events)


async def test_one_of_concurrent_erasures_succeeds(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    answers = await asyncio.gather(*(shop.client.delete(f"/customers/{maya['id']}") for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [204] + [404] * 7
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 0


async def test_changes_concurrent_with_an_erasure_leave_no_personal_data(shop: Shop) -> None:
    for _ in range(5):
        canary = await created(shop, CANARY)
        path = f"/customers/{canary['id']}"
        answers = await asyncio.gather(
            *(shop.client.patch(path, json={"note": f"sings at dawn {n}"}) for n in range(4)),
            shop.client.delete(path),
            *(shop.client.patch(f"{path}/metadata", json={f"k{n}": "perch-metadata"}) for n in range(4)),
        )
        assert {answer.status_code for answer in answers} <= {200, 204, 404}
        assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []


async def test_a_stored_response_with_a_former_email_is_erased(shop: Shop) -> None:
    await run_pending(shop.db)
    canary = await created(shop, CANARY)
    await patched(shop, f"/customers/{canary['id']}", {"email": "someone@song.example", "external_id": None})
    await send(shop, [{"email": "canary.old@song.example", "locale": "?", "first_name": "Canarina"}])
    await run_pending(shop.db)
    await shop.client.delete(f"/customers/{canary['id']}")
    assert await traces(shop.db, CANARIES, store_id=shop.store.id) == []


@pytest.mark.parametrize(
    "mistaken", [{"email": "Bob@example.com"}, {"phone": "+49 30 67890"}, {"external_id": "crm-bob"}], ids=str
)
async def test_an_erasure_leaves_the_rows_of_the_customer_who_has_a_former_identifier_now(
    shop: Shop, mistaken: dict[str, Any]
) -> None:
    await run_pending(shop.db)
    [name] = mistaken
    ann = await created(shop, {"email": "ann@example.com", **mistaken})
    right = {"email": "ann@example.com", "phone": "+493012345", "external_id": "crm-ann"}[name]
    await patched(shop, f"/customers/{ann['id']}", {name: right})
    bob = await created(shop, {"email": "bobby@example.com", **mistaken})
    rows = [{**mistaken, "first_name": "Bob"}, {name: right, "first_name": "Ann"}]
    await send(shop, rows, match_by=name)
    assert (await shop.client.delete(f"/customers/{ann['id']}")).status_code == 204
    await run_pending(shop.db)
    assert (await shop.client.get(f"/customers/{bob['id']}")).json()["data"]["first_name"] == "Bob"
    assert await traces(shop.db, ["ann@example.com", "crm-ann"], store_id=shop.store.id) == []
