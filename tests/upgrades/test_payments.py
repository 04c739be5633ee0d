"""Release 0.3.0 and this one take payments on the same orders: records are derived, and neither release loses or contradicts them."""

import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from stoa.db.connection import connect
from tests.support.service import Account, Service, new_database
from tests.upgrades.releases import Installation, exported
from tests.upgrades.test_upgrade import open_store

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]
LINES = [
    {"name": "Table", "unit_price": "50.00", "quantity": 2},
    {"name": "Lamp", "unit_price": "10.00", "quantity": 3},
]
LINE = {"line_items": [{"name": "Chair", "unit_price": "20.00", "quantity": 1}]}
Order = dict[str, Any]


class Releases:
    """0.3.0 and this release, which serve the same database, and orders that 0.3.0 placed before this release migrated it."""

    def __init__(self, old: Account, new: Account, placed: dict[str, int], editions: list[int]) -> None:
        self.old, self.new, self.placed = old, new, placed
        self.editions = editions  # of the documents after the migration


async def call(account: Account, method: str, path: str, body: Any = None, **options: Any) -> Any:
    async with account.client() as client:
        answer: httpx.Response = await client.request(method, path, json=body, **options)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()["data"]


async def put(account: Account, order: int, **body: Any) -> Order:
    return await call(account, "PUT", f"/orders/{order}/status", body)


async def place(account: Account, **body: Any) -> int:
    return (await call(account, "POST", "/orders", {"line_items": LINES, "status": "processing", **body}))["id"]


async def shown(account: Account, order: int) -> Order:
    return await call(account, "GET", f"/orders/{order}")


def money(order: Order) -> tuple[str, ...]:
    return tuple(order[name] for name in ("payment_status", "amount_paid", "amount_refunded", "amount_due", "balance"))


def records(order: Order) -> list[tuple[int, str, str]]:
    return [(each["id"], each["kind"], each["amount"]) for each in order["payments"]]


async def place_before(old: Account) -> dict[str, int]:
    """Orders in each state that 0.3.0 leaves."""
    placed = {"unpaid": await place(old), "voided": await place(old), "free": await place(old, discount_total="130.00")}
    await put(old, placed["voided"], payment_status="voided")
    await put(old, placed["free"], payment_status="paid")
    for name in ("paid", "grown", "shrunk", "refunded", "goodwill", "cancelled", "returned"):
        placed[name] = await place(old, payment_status="paid", payment_method="card")
    await call(old, "POST", f"/orders/{placed['grown']}/products", LINE)
    lines = (await shown(old, placed["shrunk"]))["line_items"]
    await call(old, "PATCH", f"/orders/{placed['shrunk']}/products/{lines[1]['id']}", {"quantity": 1})
    await put(old, placed["refunded"], payment_status="refunded", reason="Torn")
    await put(old, placed["goodwill"], refund={"amount": "5.00", "note": "Sorry."})
    await put(old, placed["goodwill"], refund={"amount": "7.00"})
    await put(old, placed["cancelled"], status="cancelled")
    lines = (await shown(old, placed["returned"]))["line_items"]
    await put(old, placed["returned"], status="shipped")
    await put(old, placed["returned"], status="returned", line_items=[{"id": lines[1]["id"], "quantity": 2}])
    return placed


@pytest.fixture(scope="module")
async def releases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Releases]:
    folder = tmp_path_factory.mktemp("releases")
    installation = Installation(folder / "installed", exported())
    url = await new_database(f"payments_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False}
    old = Service(folder / "old", command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    with old:
        account = await open_store(old)
        placed = await place_before(account)
        with Service(folder / "new", **options) as new:
            other = Account(new, account.handle, account.client_id, account.client_secret, account.token)
            yield Releases(account, other, placed, await editions_of(url))


async def editions_of(url: str) -> list[int]:
    db = await connect(url)
    found = await db.fetch("SELECT DISTINCT edition FROM orders")
    await db.close()
    return [row[0] for row in found]


EXPECTED: dict[str, tuple[tuple[str, ...], list[tuple[int, str, str]]]] = {
    "unpaid": (("unpaid", "0.00", "0.00", "130.00", "130.00"), []),
    "voided": (("voided", "0.00", "0.00", "130.00", "130.00"), []),
    "free": (("paid", "0.00", "0.00", "0.00", "0.00"), []),
    "paid": (("paid", "130.00", "0.00", "0.00", "0.00"), [(1, "payment", "130.00")]),
    "grown": (("partially_paid", "130.00", "0.00", "20.00", "20.00"), [(1, "payment", "130.00")]),
    "shrunk": (("overpaid", "130.00", "0.00", "0.00", "-20.00"), [(1, "payment", "130.00")]),
    "refunded": (
        ("refunded", "130.00", "130.00", "0.00", "0.00"),
        [(1, "payment", "130.00"), (2, "refund", "130.00")],
    ),
    "goodwill": (
        ("partially_refunded", "130.00", "12.00", "0.00", "0.00"),
        [(1, "payment", "130.00"), (2, "refund", "5.00"), (3, "refund", "7.00")],
    ),
    "cancelled": (("paid", "130.00", "0.00", "0.00", "-130.00"), [(1, "payment", "130.00")]),
    "returned": (("paid", "130.00", "0.00", "0.00", "-20.00"), [(1, "payment", "130.00")]),
}


@pytest.mark.parametrize("name", EXPECTED)
async def test_an_order_of_the_old_release_reads_with_its_records(releases: Releases, name: str) -> None:
    order = await shown(releases.new, releases.placed[name])
    assert (money(order), records(order)) == EXPECTED[name]
    for each in order["payments"]:
        if each["kind"] == "payment":
            assert (each["method"], each["created_at"]) == ("card", order["placed_at"])
            assert each["actor"]["type"] == "app"
    notes = [each["note"] for each in order["payments"]]
    assert notes == [None, *(each["note"] for each in order["refunds"])][: len(notes)]


async def test_lists_and_filters_agree_with_the_documents(releases: Releases) -> None:
    async def found(**query: str) -> set[int]:
        return {each["id"] for each in await call(releases.new, "GET", "/orders", params={**query, "limit": "100"})}

    by_name = releases.placed
    ids = ",".join(str(each) for each in by_name.values())
    for status in {expected[0][0] for expected in EXPECTED.values()}:
        wanted = {by_name[name] for name, expected in EXPECTED.items() if expected[0][0] == status}
        assert await found(payment_status=status, ids=ids) == wanted
    paid = {by_name[name] for name, expected in EXPECTED.items() if expected[1]}
    assert await found(**{"paid_at[gte]": "2020-01-01T00:00:00Z", "ids": ids}) == paid
    refunded = {by_name["refunded"], by_name["goodwill"]}
    assert await found(**{"refunded_at[gte]": "2020-01-01T00:00:00Z", "ids": ids}) == refunded
    assert await found(**{"paid_at[lt]": "2020-01-01T00:00:00Z"}) == set()


async def test_both_releases_take_payments_on_one_order_in_turn(releases: Releases) -> None:
    old, new = releases.old, releases.new
    order = await place(new, payment_method="card")
    await put(new, order, payment={"amount": "30.00", "method": "cash", "external_id": "tr-1", "note": "Deposit"})
    # The old release knows no partial payment, and changes something else.
    await call(old, "PATCH", f"/orders/{order}", {"note": "Ring twice"})
    seen = await shown(old, order)
    assert (seen["payment_status"], seen["amount_paid"]) == ("unpaid", "30.00")
    after = await shown(new, order)
    assert money(after) == ("partially_paid", "30.00", "0.00", "100.00", "100.00")
    assert (after["payments"][0]["external_id"], after["payments"][0]["note"]) == ("tr-1", "Deposit")
    # It takes the rest, and then refunds.
    await put(old, order, payment_status="paid")
    after = await shown(new, order)
    assert money(after) == ("paid", "130.00", "0.00", "0.00", "0.00")
    assert records(after) == [(1, "payment", "30.00"), (2, "payment", "100.00")]
    assert after["payments"][1]["created_at"] == after["updated_at"]
    assert after["payments"][1]["actor"] == after["payments"][0]["actor"]
    await put(old, order, refund={"amount": "12.50", "note": "Scratched"})
    await call(old, "POST", f"/orders/{order}/products", LINE)
    after = await shown(new, order)
    assert money(after) == ("partially_refunded", "130.00", "12.50", "20.00", "20.00")
    assert records(after)[2:] == [(3, "refund", "12.50")]
    assert after["payments"][2]["note"] == "Scratched"
    # This release takes what is due, and the old one keeps it.
    await put(new, order, payment={"amount": "25.00", "external_id": "tr-2"})
    await put(old, order, payment_status="partially_refunded", amount_refunded="17.50")
    after = await shown(new, order)
    assert money(after) == ("partially_refunded", "155.00", "17.50", "0.00", "0.00")
    assert records(after)[3:] == [(4, "payment", "25.00"), (5, "refund", "5.00")]
    again = await put_refused(new, order, payment={"amount": "1.00", "external_id": "tr-1"})
    assert (again["code"], again["payment"]["id"]) == ("payment_already_recorded", 1)


async def put_refused(account: Account, order: int, **body: Any) -> Any:
    async with account.client() as client:
        answer: httpx.Response = await client.put(f"/orders/{order}/status", json=body)
        assert answer.status_code == 409
        return answer.json()


async def test_an_overpaid_order_is_paid_for_the_old_release(releases: Releases) -> None:
    order = await place(releases.new)
    await put(releases.new, order, payment={"amount": "150.00"})
    seen = await put(releases.old, order, payment_status="paid")
    assert (seen["payment_status"], seen["amount_paid"]) == ("paid", "150.00")
    await call(releases.old, "PATCH", f"/orders/{order}", {"tags": ["seen"]})
    assert money(await shown(releases.new, order)) == ("overpaid", "150.00", "0.00", "0.00", "-20.00")


async def test_an_order_that_the_old_release_places_on_the_new_schema_has_its_payment(releases: Releases) -> None:
    order = await place(releases.old, payment_status="paid")
    after = await shown(releases.new, order)
    assert (money(after)[0], records(after)) == ("paid", [(1, "payment", "130.00")])
    found = await call(releases.new, "GET", "/orders", params={"paid_at": after["placed_at"], "ids": str(order)})
    assert [each["id"] for each in found] == [order]


async def test_the_old_release_serves_beside_this_one(releases: Releases) -> None:
    order = await place(releases.old, payment_status="paid")
    assert "payments" in await shown(releases.new, order)
    assert "payments" not in await shown(releases.old, order)


def test_documents_are_completed_once_by_the_migration(releases: Releases) -> None:
    assert releases.editions == [2]


async def test_events_of_the_old_release_have_the_records(releases: Releases) -> None:
    order = await place(releases.old)
    await put(releases.old, order, payment_status="paid")
    after = await shown(releases.new, order)
    db = await connect(releases.old.service.database_url)
    try:
        [[same]] = await db.fetch(
            """SELECT (data::jsonb -> 'payments') = $2::jsonb FROM events
                WHERE type = 'order.payment_status_changed' AND resource_id = $1""",
            order,
            httpx.Response(200, json=after["payments"]).text,
        )
    finally:
        await db.close()
    assert same
