"""An order shows a stored customer only to an app that may read customers, alone and in a group of several apps."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.orders.sample_store import ADA, TEA, SampleStore, codes
from tests.support.grouping import Submissions
from tests.support.shops import open_shop

LINES = [{"sku": "TEA", "quantity": 1}]
SECRETS = (ADA["phone"], ADA["last_name"])
ONLY_EMAIL = {"email": ADA["email"], "phone": None, "first_name": None, "last_name": None}
DRY_RUN = {"dry_run": "true"}
OFFICE = {"email": "office@example.com", "phone": "+442079460099"}


@pytest.fixture
async def ada(store: SampleStore) -> int:
    answer = await store.client.post("/customers", json=ADA)
    return answer.json()["data"]["id"]


@pytest.fixture
async def till(store: SampleStore, ada: int) -> httpx.AsyncClient:
    """An app that places orders and may not read customers."""
    return await store.shop.client_with(["orders:write"])


async def orders_of(store: SampleStore) -> int:
    return (await store.client.get("/orders")).json()["meta"]["total"]


@pytest.mark.parametrize("params", [{}, DRY_RUN])
async def test_a_customer_id_needs_the_customer_scope(
    store: SampleStore, till: httpx.AsyncClient, ada: int, params: dict[str, str]
) -> None:
    for customer_id in (ada, 999_999_999):  # an unknown id gets the same response
        body = {"line_items": LINES, "customer_id": customer_id}
        answer = await till.post("/orders", json=body, params=params)
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert answer.json()["required_scope"] == "customers:read"
        assert codes(answer) == [("/customer_id", "insufficient_scope")]
    assert await orders_of(store) == 0


async def test_a_customer_id_that_is_null_needs_no_scope(till: httpx.AsyncClient) -> None:
    answer = await till.post("/orders", json={"line_items": LINES, "customer_id": None})
    assert (answer.status_code, answer.json()["data"]["customer_id"]) == (201, None)


async def test_the_customer_scope_completes_the_contact(store: SampleStore, ada: int) -> None:
    app = await store.shop.client_with(["orders:write", "customers:read"])
    for customer in ({"customer_id": ada}, {"customer": {"email": ADA["email"]}}):
        for params, status in ((DRY_RUN, 200), ({}, 201)):
            answer = await app.post("/orders", json={"line_items": LINES, **customer}, params=params)
            assert (answer.status_code, answer.json()["data"]["contact"]) == (status, ADA)
            assert answer.json()["data"]["customer_id"] == ada


async def test_a_found_customer_is_not_copied_into_the_order(
    store: SampleStore, till: httpx.AsyncClient, ada: int
) -> None:
    answer = await till.post("/orders", json={"line_items": LINES, "customer": {"email": ADA["email"].upper()}})
    order = answer.json()["data"]
    assert (answer.status_code, order["customer_id"]) == (201, ada)
    assert order["contact"] == ONLY_EMAIL | {"email": ADA["email"].upper()}
    path = f"/orders/{order['id']}"
    for shown in (answer, await till.get(path), await till.get("/orders"), await till.get(f"{path}/comments")):
        assert not [secret for secret in SECRETS if secret in shown.text]
    # The order itself contains only what the app sent, for every reader and in every event.
    assert (await store.get(order))["contact"] == order["contact"]
    assert not [secret for secret in SECRETS if secret in str(await store.events())]
    copied = await till.post(f"{path}/duplicates")
    assert (copied.status_code, copied.json()["data"]["contact"]) == (201, order["contact"])


async def test_values_that_the_app_sends_are_kept(till: httpx.AsyncClient) -> None:
    customer = {"phone": "+44 20 7946 0018", "first_name": "A."}
    answer = await till.post(
        "/orders", json={"line_items": LINES, "customer": customer, "contact": {"last_name": "M."}}
    )
    assert answer.json()["data"]["contact"] == {
        "email": None,
        "phone": ADA["phone"],
        "first_name": "A.",
        "last_name": "M.",
    }


async def test_a_new_customer_is_created_without_the_customer_scope(
    store: SampleStore, till: httpx.AsyncClient
) -> None:
    person = {"email": "new.buyer@example.com", "first_name": "Noor"}
    order = (await till.post("/orders", json={"line_items": LINES, "customer": person})).json()["data"]
    stored = (await store.client.get(f"/customers/{order['customer_id']}")).json()["data"]
    assert (stored["email"], stored["first_name"], stored["orders_count"]) == ("new.buyer@example.com", "Noor", 1)


async def test_a_dry_run_does_not_reveal_whether_a_customer_exists(till: httpx.AsyncClient) -> None:
    known, unknown = [
        (await till.post("/orders", json={"line_items": LINES, "customer": {"email": email}}, params=DRY_RUN)).json()
        for email in (ADA["email"], "nobody@example.com")
    ]
    assert known["data"]["contact"] == ONLY_EMAIL
    assert known["data"]["customer_id"] is unknown["data"]["customer_id"] is None
    assert known["meta"] == unknown["meta"]


async def test_a_suspected_duplicate_is_not_found_by_what_only_the_store_knows(
    store: SampleStore, till: httpx.AsyncClient
) -> None:
    """An order of somebody else with Ada's phone number matches only if the contact is completed."""
    await store.place(("TEA", 1), contact={"phone": ADA["phone"]})
    body = {"line_items": LINES, "customer": {"email": ADA["email"]}}
    answer = await till.post("/orders", json=body, params=DRY_RUN)
    assert answer.json()["meta"]["suspected_duplicates"] == []
    [suspect] = (await store.client.post("/orders", json=body, params=DRY_RUN)).json()["meta"]["suspected_duplicates"]
    assert "same_phone" in suspect["reasons"]


@pytest.mark.parametrize("params", [{}, DRY_RUN])
async def test_a_suspected_duplicate_is_not_found_by_the_customer(
    store: SampleStore, till: httpx.AsyncClient, ada: int, params: dict[str, str]
) -> None:
    """An order of Ada with another contact matches only by the customer, whom the app may not read."""
    await store.place(("TEA", 1), customer_id=ada, contact=OFFICE)
    body = {"line_items": LINES, "customer": {"email": ADA["email"]}, "reject_suspected_duplicates": True}
    refused = await store.client.post("/orders", json=body, params=params)
    assert (refused.status_code, refused.json()["reasons"][0]) == (409, "same_customer")
    answer = await till.post("/orders", json=body, params=params)
    assert answer.status_code == (200 if params else 201)
    assert answer.json()["data"]["suspected_duplicates_count"] == 0
    assert answer.json()["meta"].get("suspected_duplicates", []) == []


async def test_a_suspected_duplicate_that_is_found_by_email_does_not_name_the_customer(
    store: SampleStore, till: httpx.AsyncClient, ada: int
) -> None:
    await store.place(("TEA", 1), customer_id=ada)
    body = {"line_items": LINES, "customer": {"email": ADA["email"]}}
    [suspect] = (await till.post("/orders", json=body, params=DRY_RUN)).json()["meta"]["suspected_duplicates"]
    assert (suspect["reasons"], suspect["score"]) == (["same_email", "same_basket", "same_total"], 0.65)


async def test_an_app_that_reads_customers_finds_the_order_of_one_that_does_not(
    store: SampleStore, till: httpx.AsyncClient, ada: int
) -> None:
    placed = (await till.post("/orders", json={"line_items": LINES, "customer": {"email": ADA["email"]}})).json()[
        "data"
    ]
    body = {"line_items": LINES, "customer_id": ada, "contact": OFFICE}
    [suspect] = (await store.client.post("/orders", json=body, params=DRY_RUN)).json()["meta"]["suspected_duplicates"]
    assert (suspect["order_id"], suspect["reasons"][0]) == (placed["id"], "same_customer")


async def test_a_patch_cannot_name_a_customer(store: SampleStore, till: httpx.AsyncClient, ada: int) -> None:
    order = (await till.post("/orders", json={"line_items": LINES})).json()["data"]
    for customer_id in (ada, 999_999_999):
        answer = await till.patch(f"/orders/{order['id']}", json={"customer_id": customer_id})
        assert codes(answer) == [("/customer_id", "read_only_field")]
    echoed = await till.patch(f"/orders/{order['id']}", json={"customer_id": None, "note": "Ring twice"})
    assert echoed.status_code == 200


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def group_application(settings: Settings, submissions: Submissions) -> AsyncIterator[Application]:
    application = Application(settings)
    yield application
    await application.close()


@pytest.fixture
def submissions(monkeypatch: pytest.MonkeyPatch) -> Submissions:
    return Submissions(monkeypatch)


async def test_each_call_of_a_group_follows_the_scopes_of_its_own_app(
    group_application: Application, submissions: Submissions, db: Database
) -> None:
    store = await SampleStore(await open_shop(group_application, db)).add_products(TEA)
    ada = (await store.client.post("/customers", json=ADA)).json()["data"]["id"]
    narrow = await store.shop.client_with(["orders:write"])
    inline: dict[str, Any] = {"line_items": LINES, "customer": {"email": ADA["email"]}}
    by_id: dict[str, Any] = {"line_items": LINES, "customer_id": ada}
    sent = [
        narrow.post("/orders", json=inline),
        store.client.post("/orders", json=inline),
        store.client.post("/orders", json=by_id),
        narrow.post("/orders", json=inline, params=DRY_RUN),
        store.client.post("/orders", json=inline, params=DRY_RUN),
    ]
    answers = await submissions.group(sent)
    assert [answer.status_code for answer in answers] == [201, 201, 201, 200, 200]
    contacts = [answer.json()["data"]["contact"] for answer in answers]
    assert contacts == [ONLY_EMAIL, ADA, ADA, ONLY_EMAIL, ADA]
    assert [answer.json()["data"]["customer_id"] for answer in answers] == [ada, ada, ada, None, ada]
    rows = await db.fetch(
        "SELECT count(DISTINCT xmin::text) FROM orders WHERE store_id = $1 AND id = ANY($2)",
        store.shop.store_id,
        [answer.json()["data"]["id"] for answer in answers[:3]],
    )
    assert rows[0][0] == 1, "the orders were not placed as one group"
    refused = await narrow.post("/orders", json=by_id)
    assert (refused.status_code, refused.json()["required_scope"]) == (403, "customers:read")


async def test_in_a_group_only_an_app_that_reads_customers_finds_an_order_by_the_customer(
    group_application: Application, submissions: Submissions, db: Database
) -> None:
    store = await SampleStore(await open_shop(group_application, db)).add_products(TEA)
    ada = (await store.client.post("/customers", json=ADA)).json()["data"]["id"]
    narrow = await store.shop.client_with(["orders:write"])
    inline = {"line_items": LINES, "customer": {"email": ADA["email"]}}
    elsewhere = {"line_items": LINES, "customer_id": ada, "contact": OFFICE}
    sent = [
        narrow.post("/orders", json=inline),
        store.client.post("/orders", json=elsewhere, params=DRY_RUN),
        store.client.post("/orders", json={**elsewhere, "window_hours": 1}),
        narrow.post("/orders", json=inline, params=DRY_RUN),
    ]
    placed, wide, _, tried = await submissions.group(sent)
    for answer, reason in ((wide, "same_customer"), (tried, "same_email")):
        [suspect] = answer.json()["meta"]["suspected_duplicates"]
        assert (suspect["order_id"], suspect["reasons"][0]) == (placed.json()["data"]["id"], reason)
