"""What an order may do, without a database: transitions, stock, payment, sums and likeness."""

from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import msgspec
import pytest

from stoa.orders.bodies import Portion
from stoa.orders.contract import IllegalTransition, OrderNotEditable, OrderNotPaid, PaymentStatus, Status
from stoa.orders.documents import TRANSITIONS, LineState, OrderState
from stoa.orders.rules import (
    HOLDING,
    OPEN,
    PAYMENTS,
    Traits,
    address_digest,
    basket_digest,
    change_payment,
    change_status,
    check_editable,
    contribution,
    likeness,
    stock_effects,
    sum_faults,
)
from stoa.rest.problems import ValidationFailed

NOW = "2026-03-01T10:00:00.000000Z"
STATUSES: tuple[Status, ...] = get_args(Status)
PAYMENT_STATUSES: tuple[PaymentStatus, ...] = get_args(PaymentStatus)


def line(line_id: int, quantity: int = 2, *, fulfilled: int = 0, returned: int = 0, **more: Any) -> LineState:
    return LineState(
        id=line_id,
        product_id=1,
        variant_id=more.pop("variant_id", 10 + line_id),
        sku=None,
        name="Tea",
        variant_title="Default",
        option_values={},
        quantity=quantity,
        fulfilled_quantity=fulfilled,
        returned_quantity=returned,
        unit_price=more.pop("unit_price", 500),
        **more,
    )


def order(status: Status = "pending", *lines: LineState, **more: Any) -> OrderState:
    return OrderState(status=status, currency="USD", lines=list(lines) or [line(1), line(2, 3)], **more)


def moved(before: OrderState, wanted: Status, *portions: tuple[int, int]) -> OrderState:
    after = before.copy()
    change_status(after, wanted, [Portion(*portion) for portion in portions], NOW, None)
    return after


def effects(before: OrderState | None, after: OrderState, *, restock: bool = True) -> list[tuple[int, str, int, int]]:
    return [(e.line_id, e.kind, e.on_hand, e.reserved) for e in stock_effects(before, after, restock=restock)]


# --- status --------------------------------------------------------------------------------------------------------


def at(status: Status) -> OrderState:
    """A paid order in this status, as far shipped as it must be."""
    done = status in ("shipped", "delivered", "completed", "returned")
    back = status == "returned"
    lines = [line(n, n + 1, fulfilled=(n + 1) * done, returned=(n + 1) * back) for n in (1, 2)]
    return order(status, *lines, payment_status="paid")


@pytest.mark.parametrize(("status", "wanted"), list(product(STATUSES, STATUSES)))
def test_a_status_goes_where_the_table_says_and_nowhere_else(status: Status, wanted: Status) -> None:
    before = at(status)
    if wanted == status:
        assert moved(before, wanted) == before
    elif wanted in TRANSITIONS[status]:
        assert moved(before, wanted).status == wanted
    else:
        with pytest.raises(IllegalTransition) as refused:
            moved(before, wanted)
        assert refused.value.members["allowed_transitions"] == TRANSITIONS[status]


def test_every_status_has_its_place_in_the_table() -> None:
    assert set(TRANSITIONS) == set(STATUSES)
    assert {wanted for row in TRANSITIONS.values() for wanted in row} == set(STATUSES) - {"draft"}
    assert set(PAYMENTS) == set(PAYMENT_STATUSES)


@pytest.mark.parametrize("payment", PAYMENT_STATUSES)
def test_an_order_is_completed_only_when_it_is_paid(payment: PaymentStatus) -> None:
    before = order("processing", payment_status=payment)
    if payment in ("paid", "partially_refunded", "refunded"):
        after = moved(before, "completed")
        assert (after.status, after.completed_at, after.fulfillment_status) == ("completed", NOW, "fulfilled")
    else:
        with pytest.raises(OrderNotPaid):
            moved(before, "completed")


def test_shipping_a_part_keeps_the_order_where_it_is_until_the_rest_follows() -> None:
    part = moved(order("processing"), "shipped", (1, 2), (2, 1))
    assert (part.status, part.fulfillment_status) == ("processing", "partially_fulfilled")
    rest = moved(part, "shipped")
    assert (rest.status, rest.fulfillment_status) == ("shipped", "fulfilled")


def test_returning_a_part_keeps_the_order_where_it_is_until_all_is_back() -> None:
    part = moved(at("delivered"), "returned", (2, 1))
    assert (part.status, part.fulfillment_status, part.lines[1].returned_quantity) == ("delivered", "fulfilled", 1)
    rest = moved(part, "returned")
    assert (rest.status, rest.fulfillment_status) == ("returned", "returned")


def test_portions_that_are_not_there_are_all_named_at_once() -> None:
    with pytest.raises(ValidationFailed) as refused:
        moved(order("processing", line(1, 2, fulfilled=1), line(2, 3)), "shipped", (1, 2), (9, 1), (2, 1), (2, 2))
    assert [(f.pointer, f.code) for f in refused.value.faults] == [
        ("/line_items/0/quantity", "out_of_range"),
        ("/line_items/1/id", "not_found"),
        ("/line_items/3/id", "invalid_format"),
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_amounts_freeze_once_an_order_leaves_the_house_or_is_cancelled(status: Status) -> None:
    check_editable(order(status), ["note", "tags", "metadata", "external_id"])
    if status in OPEN:
        check_editable(order(status), ["contact", "shipping_total"])
    else:
        with pytest.raises(OrderNotEditable) as refused:
            check_editable(order(status), ["note", "contact", "shipping_total"])
        assert [f.pointer for f in refused.value.faults] == ["/contact", "/shipping_total"]


# --- payment -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("payment", "wanted"), list(product(PAYMENT_STATUSES, PAYMENT_STATUSES)))
def test_a_payment_goes_where_the_table_says_and_nowhere_else(payment: PaymentStatus, wanted: PaymentStatus) -> None:
    after = order(payment_status=payment)
    if wanted == payment or wanted in PAYMENTS[payment]:
        change_payment(after, wanted, None)
        assert after.payment_status == wanted
    else:
        with pytest.raises(IllegalTransition):
            change_payment(after, wanted, None)


def test_what_is_paid_refunded_and_due_follows_the_payment() -> None:
    paid = order("pending", line(1, 2), shipping_total=300)
    assert (paid.total, paid.amount_due) == (1300, 1300)
    change_payment(paid, "paid", None)
    assert (paid.amount_paid, paid.amount_due) == (1300, 0)
    change_payment(paid, "partially_refunded", 400)
    assert (paid.amount_refunded, paid.amount_due) == (400, 0)
    change_payment(paid, "partially_refunded", 900)
    assert paid.amount_refunded == 900
    change_payment(paid, "refunded", None)
    assert paid.amount_refunded == 1300


@pytest.mark.parametrize("refund", [0, 399, 1300, 1301])
def test_a_refund_lies_between_the_last_one_and_what_was_paid(refund: int) -> None:
    paid = order("pending", line(1, 2), shipping_total=300)
    change_payment(paid, "paid", None)
    change_payment(paid, "partially_refunded", 400)
    with pytest.raises(ValidationFailed):
        change_payment(paid, "partially_refunded", refund)


def test_an_order_that_grew_after_it_was_paid_is_paid_by_saying_so_again() -> None:
    grown = order("processing", line(1, 2))
    change_payment(grown, "paid", None)
    grown.lines.append(line(2, 1, unit_price=700))
    assert (grown.amount_paid, grown.amount_due) == (1000, 700)
    change_payment(grown, "paid", None)
    assert (grown.amount_paid, grown.amount_due) == (1700, 0)


@pytest.mark.parametrize("change", [{"status": "cancelled"}, {"status": "returned"}, {"payment_status": "voided"}])
def test_nothing_is_due_once_no_payment_is_expected(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(order(), **change).amount_due == 0


@pytest.mark.parametrize(
    ("status", "expected"), [("draft", (0, 0)), ("cancelled", (0, 0)), ("pending", (1, 70)), ("returned", (1, 70))]
)
def test_a_customer_is_credited_with_orders_that_count(status: Status, expected: tuple[int, int]) -> None:
    assert contribution(order(status, amount_paid=100, amount_refunded=30)) == expected
    assert contribution(None) == (0, 0)


# --- stock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["draft", "pending", "processing"])
def test_a_new_order_reserves_unless_it_is_a_draft(status: Status) -> None:
    held = [(1, "reserve", 0, 2), (2, "reserve", 0, 3)]
    assert effects(None, order(status)) == (held if status in HOLDING else [])


def chain(*statuses: Status) -> list[list[tuple[str, int, int]]]:
    """What each step does to the stock of one line of two."""
    state = order(statuses[0], line(1, 2), payment_status="paid")
    steps = [[e[1:] for e in effects(None, state)]]
    for status in statuses[1:]:
        after = moved(state, status)
        steps.append([e[1:] for e in effects(state, after)])
        state = after
    return steps


LIVES: list[tuple[tuple[Status, ...], list[list[tuple[str, int, int]]]]] = [
    (("draft", "pending", "cancelled"), [[], [("reserve", 0, 2)], [("release", 0, -2)]]),
    (("draft", "cancelled"), [[], []]),
    (
        ("pending", "on_hold", "processing", "shipped", "delivered", "completed"),
        [[("reserve", 0, 2)], [], [], [("commit", -2, -2)], [], []],
    ),
    (
        ("draft", "processing", "completed", "returned"),
        [[], [("reserve", 0, 2)], [("commit", -2, -2)], [("restock", 2, 0)]],
    ),
]


@pytest.mark.parametrize(("statuses", "expected"), LIVES)
def test_stock_follows_the_status(statuses: Sequence[Status], expected: list[list[tuple[str, int, int]]]) -> None:
    assert chain(*statuses) == expected


def test_a_partial_shipment_takes_its_part_and_a_cancellation_releases_the_rest() -> None:
    before = order("processing", line(1, 5))
    part = moved(before, "shipped", (1, 2))
    assert effects(before, part) == [(1, "commit", -2, -2)]
    assert effects(part, moved(part, "cancelled")) == [(1, "release", 0, -3)]


def test_what_comes_back_is_put_back_unless_it_is_broken() -> None:
    before = at("shipped")
    after = moved(before, "returned", (1, 1))
    assert effects(before, after) == [(1, "restock", 1, 0)]
    assert effects(before, after, restock=False) == []


def test_a_changed_line_moves_the_difference() -> None:
    before = order("pending", line(1, 2), line(2, 3), line(3, 4))
    after = before.copy()
    after.lines[0].quantity = 5
    after.lines[1].quantity = 1
    del after.lines[2]
    assert effects(before, after) == [(1, "reserve", 0, 3), (2, "release", 0, -2), (3, "release", 0, -4)]
    draft, changed = (msgspec.structs.replace(each, status="draft") for each in (before, after))
    assert effects(draft, changed) == []


# --- sums ----------------------------------------------------------------------------------------------------------


def faults_of(state: OrderState, total: int | None = None) -> list[tuple[str, str]]:
    pointers = {n: f"/line_items/{n}" for n in range(len(state.lines))}
    return [(fault.pointer, fault.code) for fault in sum_faults(state, pointers, 2, total)]


def test_sums_are_what_the_contract_says() -> None:
    state = order(
        "pending",
        line(1, 3, unit_price=1999, discount_total=500, tax_total=123),
        line(2, 1, unit_price=250),
        discount_total=100,
        shipping_total=695,
        tax_total=7,
    )
    assert [each.total for each in state.lines] == [5620, 250]
    assert (state.subtotal, state.total) == (5870, 6472)
    assert faults_of(state, 6472) == []
    fault = sum_faults(state, {}, 2, 6471)[0]
    assert (fault.pointer, fault.code, fault.meta) == ("/total", "total_mismatch", {"expected": "64.72"})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            order("pending", line(1, 1), line(2, 1, discount_total=501)),
            ("/line_items/1/discount_total", "out_of_range"),
        ),
        (order("pending", line(1, 1), discount_total=501), ("/discount_total", "out_of_range")),
        (order("pending", line(1, 10**6, unit_price=10**10)), ("/line_items/0/quantity", "out_of_range")),
        (order("pending", *(line(n, 1, unit_price=4 * 10**14) for n in (1, 2, 3))), ("/line_items", "out_of_range")),
        (order("pending", line(1, 1, tax_total=10**15)), ("/line_items/0/quantity", "out_of_range")),
    ],
)
def test_sums_that_cannot_be_are_named(state: OrderState, expected: tuple[str, str]) -> None:
    assert faults_of(state) == [expected]


# --- likeness ------------------------------------------------------------------------------------------------------

ADA = Traits(7, "ada@example.com", "+442079460018", b"basket", b"street", 1300)


def like(**other: Any) -> tuple[int, list[str]] | None:
    found = likeness(ADA, msgspec.structs.replace(ADA, **other))
    return None if found is None else (found[0], list(found[1]))


def test_the_same_order_again_is_as_alike_as_can_be() -> None:
    found = like()
    assert found is not None
    assert found[0] == 100
    assert set(found[1]) == {
        "same_phone", "same_email", "same_customer", "same_address", "same_basket", "same_total"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"customer_id": 8, "email": None, "phone": None}, None),
        ({"basket": b"other", "address": None}, None),
        ({"basket": b"other", "total": 1}, (65, ["same_phone", "same_email", "same_customer", "same_address"])),
        (
            {"customer_id": None, "email": "x@example.com", "address": None},
            (65, ["same_phone", "same_basket", "same_total"]),
        ),
        ({"customer_id": None, "phone": None, "basket": b"o", "total": 1}, (45, ["same_email", "same_address"])),
    ],
)
def test_contact_and_either_basket_or_address_must_agree(other: dict[str, Any], expected: Any) -> None:
    assert like(**other) == expected


def test_nobody_is_not_the_same_person_as_nobody() -> None:
    nobody = Traits(None, None, None, b"basket", None, 1300)
    assert likeness(nobody, nobody) is None


def test_a_basket_is_the_same_however_it_is_split_and_ordered() -> None:
    split = [line(1, 1, variant_id=5), line(2, 3, variant_id=6), line(3, 2, variant_id=5)]
    assert basket_digest(split) == basket_digest([line(9, 3, variant_id=6), line(8, 3, variant_id=5)])
    assert basket_digest(split) != basket_digest(split[:2])


def test_an_address_is_the_same_whatever_its_spelling() -> None:
    here = {"address1": "3, Wéll Street.", "city": "BATH", "postal_code": "BA1 1AA", "country_code": "GB"}
    there = {"address1": "3 well street", "city": "Bath", "postal_code": "ba1 1aa", "country_code": "GB", "phone": "1"}
    assert address_digest(here) == address_digest(there)
    assert address_digest({**there, "address1": "4 well street"}) != address_digest(here)
    assert address_digest({"city": "Bath"}) is None
    assert address_digest(None) is None
