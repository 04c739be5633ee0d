"""Release 0.3.0 and this one take payments on the same orders: records are derived, and neither release loses or contradicts them."""

from typing import Any

import httpx
import pytest

from stoa.db.connection import connect
from tests.support.service import Account
from tests.upgrades.conftest import Releases
from tests.upgrades.orders_before import LINE, Order, call, place, put, shown

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]


def money(order: Order) -> tuple[str, ...]:
    return tuple(order[name] for name in ("payment_status", "amount_paid", "amount_refunded", "amount_due", "balance"))


def records(order: Order) -> list[tuple[int, str, str]]:
    return [(each["id"], each["kind"], each["amount"]) for each in order["payments"]]


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
