"""Marketing consents by channel: how they change, what events and lists show, and that erasure removes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stoa.imports.runner import run_pending
from tests.customers.people import JUN, MAYA, created, events, names, patched
from tests.support.shops import Shop

NONE = {"state": "not_subscribed", "source": None, "updated_at": None}
AT = "2026-03-01T18:00:00.000000Z"


def is_recent(text: str) -> bool:
    return abs(datetime.now(UTC) - datetime.fromisoformat(text)) < timedelta(minutes=5)


async def test_a_new_customer_has_no_consent(shop: Shop) -> None:
    jun = await created(shop, JUN)
    assert (jun["accepts_marketing"], jun["consents"]) == (False, {"email": NONE, "sms": NONE})


async def test_accepts_marketing_is_the_email_consent(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    assert (maya["consents"]["email"]["state"], maya["consents"]["sms"]) == ("subscribed", NONE)
    assert is_recent(maya["consents"]["email"]["updated_at"])
    path = f"/customers/{maya['id']}"
    left = await patched(shop, path, {"accepts_marketing": False})
    assert (left["accepts_marketing"], left["consents"]["email"]["state"]) == (False, "unsubscribed")
    # A value that does not change leaves the consent as it is.
    pending = await patched(shop, path, {"accepts_marketing": False, "consents": {"email": {"state": "pending"}}})
    assert (pending["accepts_marketing"], pending["consents"]["email"]["state"]) == (False, "pending")
    assert await patched(shop, path, {"accepts_marketing": False}) == pending
    agreed = await patched(shop, path, {"consents": {"email": {"state": "subscribed"}}})
    assert agreed["accepts_marketing"] is True
    dated = {"accepts_marketing": False, "consents": {"email": {"source": "phone", "updated_at": AT}}}
    assert (await patched(shop, path, dated))["consents"]["email"] == {
        "state": "unsubscribed",
        "source": "phone",
        "updated_at": AT,
    }


async def test_a_consent_is_recorded_with_its_source_and_time(shop: Shop) -> None:
    consents: dict[str, Any] = {
        "sms": {"state": "subscribed", "source": "till", "updated_at": "2026-03-01T20:00:00+02:00"}
    }
    jun = await created(shop, {**JUN, "consents": consents})
    assert jun["consents"] == {"email": NONE, "sms": {"state": "subscribed", "source": "till", "updated_at": AT}}
    path = f"/customers/{jun['id']}"
    # Omitted fields stay; a document that is sent back with another state gets the time of the change.
    echoed = await patched(shop, path, {"consents": {"sms": {**jun["consents"]["sms"], "state": "unsubscribed"}}})
    assert (echoed["consents"]["sms"]["state"], echoed["consents"]["sms"]["source"]) == ("unsubscribed", "till")
    assert is_recent(echoed["consents"]["sms"]["updated_at"])
    assert await patched(shop, path, {"consents": echoed["consents"]}) == echoed
    reset = await patched(shop, path, {"consents": {"sms": None}})
    assert reset["consents"] == {"email": NONE, "sms": NONE}
    assert await patched(shop, path, {"consents": None}) == reset


async def test_an_event_contains_the_changes_of_consents(shop: Shop) -> None:
    jun = await created(shop, JUN)
    after = await patched(shop, f"/customers/{jun['id']}", {"accepts_marketing": True})
    assert (await events(shop))[-1] == (
        "customer.updated",
        jun["id"],
        {"accepts_marketing": [False, True], "consents": [jun["consents"], after["consents"]]},
    )


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"consents": {"fax": {"state": "subscribed"}}}, {"/consents/fax": "unknown_field"}),
        ({"consents": {"email": {"state": "maybe"}}}, {"/consents/email/state": "invalid_format"}),
        ({"consents": {"email": {"updated_at": "soon", "source": 7}}},
         {"/consents/email/updated_at": "invalid_format", "/consents/email/source": "invalid_type"}),
        ({"accepts_marketing": True, "consents": {"email": {"state": "unsubscribed"}}},
         {"/accepts_marketing": "invalid_format"}),
    ],
)  # fmt: skip
async def test_faults_of_consents_are_named(shop: Shop, change: dict[str, Any], faults: dict[str, str]) -> None:
    jun = await created(shop, JUN)
    for answer in (
        await shop.client.patch(f"/customers/{jun['id']}", json=change),
        await shop.client.post("/customers", json={"email": "lee@example.com", **change}),
    ):
        assert answer.status_code == 422, answer.text
        assert {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]} == faults
    assert (await shop.client.get(f"/customers/{jun['id']}")).json()["data"] == jun


async def test_customers_are_found_by_their_consents(shop: Shop) -> None:
    asked = {
        "email": "lee@example.org",
        "first_name": "Lee",
        "consents": {"email": {"state": "pending"}, "sms": {"state": "subscribed"}},
    }
    for customer in (MAYA, JUN, asked):
        await created(shop, customer)
    found: list[tuple[dict[str, str], list[str]]] = [
        ({"accepts_marketing": "true"}, ["Maya"]),
        ({"accepts_marketing": "false"}, ["Jun", "Lee"]),
        ({"consent[email]": "subscribed"}, ["Maya"]),
        ({"consent[email]": "pending"}, ["Lee"]),
        ({"consent[email]": "not_subscribed"}, ["Jun"]),
        ({"consent[sms]": "not_subscribed"}, ["Maya", "Jun"]),
        ({"consent[email]": "pending", "consent[sms]": "subscribed"}, ["Lee"]),
        ({"consent[email]": "pending", "accepts_marketing": "false"}, ["Lee"]),
        ({"consent[email]": "pending", "accepts_marketing": "true"}, []),
        ({"consent[sms]": "subscribed", "q": "lee", "tag": "x"}, []),
    ]
    for query, expected in found:
        assert await names(shop, **query) == expected, query
    first = (await shop.client.get("/customers", params={"accepts_marketing": "false", "limit": "1"})).json()
    second = (await shop.client.get("/customers", params={"cursor": first["meta"]["next_cursor"]})).json()
    assert [each["first_name"] for each in first["data"] + second["data"]] == ["Jun", "Lee"]


@pytest.mark.parametrize(
    "query", ["consent=subscribed", "consent[fax]=subscribed", "consent[email]=maybe", "accepts_marketing=1"]
)
async def test_an_unusable_consent_filter_is_refused(shop: Shop, query: str) -> None:
    answer = await shop.client.get(f"/customers?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert answer.json()["errors"][0]["pointer"] == query.partition("=")[0].partition("[")[0]


async def test_an_import_records_consents(shop: Shop) -> None:
    await created(shop, MAYA)
    content = (
        "email,first_name,consents.email.state,consents.email.source,consents.sms.state,consents.sms.updated_at\n"
        f"{MAYA['email']},Maya,unsubscribed,crm,,\n"
        f"jun@example.com,Jun,,,subscribed,{AT}\n"
        "lee@example.com,Lee,perhaps,,,\n"
    ).encode()
    sent = await shop.client.post("/customers/imports", content=content, headers={"content-type": "text/csv"})
    await run_pending(shop.db)
    job = (await shop.client.get(f"/customers/imports/{sent.json()['data']['id']}")).json()["data"]
    assert (job["counts"]["created"], job["counts"]["updated"], job["counts"]["failed"]) == (1, 1, 1)
    assert job["errors"][0]["pointer"] == "/consents/email/state"
    maya, jun = (await shop.client.get("/customers")).json()["data"]
    assert (maya["accepts_marketing"], maya["consents"]["email"]["source"]) == (False, "crm")
    assert jun["consents"] == {"email": NONE, "sms": {"state": "subscribed", "source": None, "updated_at": AT}}
    # A page of customers can be sent back, and nothing changes.
    rows = msgspec.json.encode({"items": [maya, jun]})
    again = await shop.client.post("/customers/imports", content=rows, headers={"content-type": "application/json"})
    await run_pending(shop.db)
    job = (await shop.client.get(f"/customers/imports/{again.json()['data']['id']}")).json()["data"]
    assert job["counts"]["unchanged"] == 2, job


async def test_an_erasure_removes_the_consents(shop: Shop) -> None:
    maya = await created(shop, {**MAYA, "consents": {"sms": {"state": "subscribed", "source": "Maya said so"}}})
    assert (await shop.client.delete(f"/customers/{maya['id']}")).status_code == 204
    rows = await shop.db.fetch(
        "SELECT email_consent, sms_consent, head FROM customers WHERE store_id = $1", shop.store_id
    )
    assert [tuple(row) for row in rows] == [(None, None, ',"status":"erased"')]
    past = await shop.db.fetch("SELECT data || changes FROM events WHERE store_id = $1", shop.store_id)
    assert not [row for row in past if "said so" in row[0]]
