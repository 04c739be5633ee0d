"""The rules of orders, without a database: transitions, stock, payment, totals and duplicate scores."""

from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import msgspec
import pytest

from stoa.events.outbox import Actor
from stoa.orders import events
from stoa.orders.allocation import settle
from stoa.orders.bodies import Portion, SetPaymentStatus
from stoa.orders.contract import TRANSITIONS, IllegalTransition, OrderNotEditable, OrderNotPaid, Status
from stoa.orders.documents import Traits, address_digest, basket_digest, likeness
from stoa.orders.payments import PAYMENTS, Occasion, change_payment, record
from stoa.orders.records import PaymentStatus
from stoa.orders.refunds import add_refund
from stoa.orders.rules import HOLDING, OPEN, change_status, check_editable, stock_effects
from stoa.orders.state import NO_CONTACT, Figures, LineState, OrderState, contribution, sum_faults
from stoa.rest.problems import ValidationFailed

NOW = "2026-03-01T10:00:00.000000Z"
STATUSES: tuple[Status, ...] = get_args(Status)
PAYMENT_STATUSES: tuple[PaymentStatus, ...] = get_args(PaymentStatus)
SETTABLE: tuple[SetPaymentStatus, ...] = get_args(SetPaymentStatus)
OCCASION = Occasion(NOW, Actor("operator"))


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


def pay(paid: OrderState, wanted: SetPaymentStatus, refunded: int | None = None) -> None:
    further = change_payment(paid, wanted, refunded, OCCASION)
    if further:
        add_refund(paid, further, OCCASION, pointer="/amount_refunded")


def with_payment(unpaid: OrderState, amount: int | None = None) -> OrderState:
    """The order with a payment of this amount, or of all that is due."""
    record(unpaid, "payment", unpaid.figures.due if amount is None else amount, OCCASION, pointer="/payment/amount")
    return unpaid


def in_payment_status(wanted: PaymentStatus) -> OrderState:
    """An order with a total of 2500 whose records give this payment status."""
    made = order("processing")
    if wanted in ("unpaid", "authorized", "failed", "voided"):
        made.payment_mark = wanted
        return made
    with_payment(made, {"partially_paid": 500, "overpaid": 2600}.get(wanted, 2500))
    if wanted in ("partially_refunded", "refunded"):
        add_refund(made, 100 if wanted == "partially_refunded" else 2500, OCCASION, pointer="/refund")
    assert made.payment_status == wanted
    return made


def effects(before: OrderState | None, after: OrderState, *, restock: bool = True) -> list[tuple[int, str, int, int]]:
    for each in (before, after):
        if each is not None:
            settle(each)
    return [(e.line_id, e.kind, e.on_hand, e.reserved) for e in stock_effects(before, after, restock=restock)]


# --- status ----------------------------------------------------------------------------------------------------------


def paid_order(status: Status) -> OrderState:
    """A paid order in this status, with its lines shipped and returned accordingly."""
    shipped = status in ("shipped", "delivered", "completed", "returned")
    returned = status == "returned"
    lines = [line(n, n + 1, fulfilled=(n + 1) * shipped, returned=(n + 1) * returned) for n in (1, 2)]
    paid = order(status, *lines)
    return with_payment(paid, paid.total)


@pytest.mark.parametrize(("status", "wanted"), list(product(STATUSES, STATUSES)))
def test_only_the_transitions_of_the_table_are_allowed(status: Status, wanted: Status) -> None:
    before = paid_order(status)
    if wanted == status:
        assert moved(before, wanted) == before
    elif wanted in TRANSITIONS[status]:
        assert moved(before, wanted).status == wanted
    else:
        with pytest.raises(IllegalTransition) as refused:
            moved(before, wanted)
        assert refused.value.members["allowed_transitions"] == TRANSITIONS[status]


def test_every_status_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(STATUSES)
    assert {wanted for row in TRANSITIONS.values() for wanted in row} == set(STATUSES) - {"draft"}
    assert set(PAYMENTS) == set(PAYMENT_STATUSES)


@pytest.mark.parametrize("payment", PAYMENT_STATUSES)
def test_an_order_is_completed_only_when_nothing_is_due(payment: PaymentStatus) -> None:
    before = in_payment_status(payment)
    if payment in ("paid", "overpaid", "partially_refunded", "refunded"):
        after = moved(before, "completed")
        assert (after.status, after.completed_at, after.fulfillment_status) == ("completed", NOW, "fulfilled")
    else:
        with pytest.raises(OrderNotPaid) as refused:
            moved(before, "completed")
        assert refused.value.members["amount_due"] == ("20.00" if payment == "partially_paid" else "25.00")


def test_a_paid_order_that_grew_is_not_completed_before_the_rest_is_paid() -> None:
    grown = with_payment(order("processing"))
    add_refund(grown, 100, OCCASION, pointer="/refund")
    grown.lines.append(line(3, 1))
    with pytest.raises(OrderNotPaid):
        moved(grown, "completed")
    pay(grown, "paid")
    assert moved(grown, "completed").status == "completed"


def test_a_partial_shipment_keeps_the_status_until_the_rest_is_shipped() -> None:
    part = moved(order("processing"), "shipped", (1, 2), (2, 1))
    assert (part.status, part.fulfillment_status) == ("processing", "partially_fulfilled")
    rest = moved(part, "shipped")
    assert (rest.status, rest.fulfillment_status) == ("shipped", "fulfilled")


def test_a_partial_return_keeps_the_status_until_the_rest_is_returned() -> None:
    part = moved(paid_order("delivered"), "returned", (2, 1))
    assert (part.status, part.fulfillment_status, part.lines[1].returned_quantity) == ("delivered", "fulfilled", 1)
    rest = moved(part, "returned")
    assert (rest.status, rest.fulfillment_status) == ("returned", "returned")


@pytest.mark.parametrize("status", ["processing", "on_hold", "pending", "cancelled"])
def test_shipped_units_can_be_returned_while_the_status_stays(status: Status) -> None:
    before = order(status, line(1, 2, fulfilled=2), line(2, 3))
    part = moved(before, "returned", (1, 1))
    assert (part.status, part.fulfillment_status, part.lines[0].returned_quantity) == (status, "partially_fulfilled", 1)
    assert effects(before, part) == [(1, "restock", 1, 0)]
    assert effects(before, part, restock=False) == []
    rest = moved(part, "returned", (1, 1))
    # An order that ships nothing more is returned as a whole.
    assert (rest.status, rest.fulfillment_status) == (
        status,
        "returned" if status == "cancelled" else "partially_fulfilled",
    )
    with pytest.raises(ValidationFailed) as refused:
        moved(rest, "returned", (1, 1))
    assert [(f.pointer, f.code, f.meta) for f in refused.value.faults] == [
        ("/line_items/0/quantity", "out_of_range", {"maximum": 0})
    ]


@pytest.mark.parametrize("status", ["draft", "pending", "processing", "on_hold", "cancelled"])
def test_an_order_that_shipped_nothing_returns_nothing(status: Status) -> None:
    with pytest.raises(IllegalTransition):
        moved(order(status), "returned", (1, 1))


def test_all_invalid_portions_are_reported_at_once() -> None:
    with pytest.raises(ValidationFailed) as refused:
        moved(order("processing", line(1, 2, fulfilled=1), line(2, 3)), "shipped", (1, 2), (9, 1), (2, 1), (2, 2))
    assert [(f.pointer, f.code) for f in refused.value.faults] == [
        ("/line_items/0/quantity", "out_of_range"),
        ("/line_items/1/id", "not_found"),
        ("/line_items/3/id", "invalid_format"),
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_contact_and_amounts_can_change_only_while_the_order_is_open(status: Status) -> None:
    check_editable(order(status), ["note", "tags", "metadata", "external_id"])
    if status in OPEN:
        check_editable(order(status), ["contact", "shipping_total"])
    else:
        with pytest.raises(OrderNotEditable) as refused:
            check_editable(order(status), ["note", "contact", "shipping_total"])
        assert [f.pointer for f in refused.value.faults] == ["/contact", "/shipping_total"]


# --- payment ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("payment", "wanted"), list(product(PAYMENT_STATUSES, SETTABLE)))
def test_only_the_payment_transitions_of_the_table_are_allowed(
    payment: PaymentStatus, wanted: SetPaymentStatus
) -> None:
    after = in_payment_status(payment)
    refunded = 200 if wanted == "partially_refunded" else None
    again = wanted == "paid" and payment in ("partially_refunded", "refunded")
    if again:
        after.lines.append(line(3, 1))  # now something is due
    if wanted == payment or wanted in PAYMENTS[payment]:
        pay(after, wanted, refunded)
        assert after.payment_status == ("partially_refunded" if again else wanted)
        assert after.figures.due == 0 or wanted != "paid"
    else:
        with pytest.raises(IllegalTransition):
            pay(after, wanted, refunded)


def test_amounts_follow_the_payment_status() -> None:
    paid = order("pending", line(1, 2), shipping_total=300)
    assert (paid.total, paid.figures.due) == (1300, 1300)
    pay(paid, "paid")
    assert (paid.amount_paid, paid.figures.due) == (1300, 0)
    pay(paid, "partially_refunded", 400)
    assert (paid.amount_refunded, paid.figures.due) == (400, 0)
    pay(paid, "partially_refunded", 900)
    assert paid.amount_refunded == 900
    pay(paid, "refunded")
    assert paid.amount_refunded == 1300


def test_a_partial_refund_without_an_amount_is_refused() -> None:
    paid = with_payment(order())
    with pytest.raises(ValidationFailed) as refused:
        pay(paid, "partially_refunded")
    assert [(f.pointer, f.code) for f in refused.value.faults] == [("/amount_refunded", "required")]
    pay(paid, "partially_refunded", 100)
    pay(paid, "partially_refunded")  # the current status: nothing changes
    assert (paid.payment_status, paid.amount_refunded) == ("partially_refunded", 100)


def test_the_balance_counts_refunds_and_may_be_negative() -> None:
    paid = with_payment(order("pending", line(1, 2)), 2640)
    assert (paid.total, paid.figures.due, paid.figures.balance) == (1000, 0, -1640)
    pay(paid, "partially_refunded", 1640)
    assert (paid.figures.due, paid.figures.balance) == (0, 0)


# Kept, paid and refunded, and the balance that the contract gives.
BALANCES = [
    (1000, 0, 0, 1000),  # not paid
    (1000, 300, 0, 700),  # a deposit
    (1000, 1000, 100, 0),  # a goodwill refund
    (1500, 1000, 100, 500),  # a line of 500 was added after it
    (0, 1000, 0, -1000),  # cancelled or returned
    (0, 1000, 400, -600),  # and refunded in part
    (0, 1000, 1000, 0),  # and refunded
    (600, 1000, 500, 0),  # a part was returned, and more was refunded
    (1500, 1000, 1000, 500),  # refunded, and then extended
]


@pytest.mark.parametrize(("kept", "paid", "refunded", "balance"), BALANCES)
def test_the_balance_is_what_the_contract_says(kept: int, paid: int, refunded: int, balance: int) -> None:
    assert Figures(kept, kept, paid, refunded).balance == balance


def test_what_was_returned_or_cancelled_is_not_kept() -> None:
    def kept(status: Status, *lines: LineState) -> int:
        return order(status, *lines, shipping_total=300, discount_total=100).figures.kept

    assert kept("delivered", line(1, 3, fulfilled=3), line(2, 1, fulfilled=1)) == 2200
    assert kept("delivered", line(1, 3, fulfilled=3, returned=1, tax_total=1), line(2, 1)) == 2201 - 500
    assert kept("delivered", line(1, 3, fulfilled=3, returned=3), line(2, 1, fulfilled=1)) == 700
    assert kept("returned", line(1, 3, fulfilled=3, returned=3)) == 0
    assert kept("cancelled", line(1, 3)) == 0
    assert kept("cancelled", line(1, 3, fulfilled=2, returned=1)) == 700


def test_a_payment_of_a_cancelled_order_needs_its_amount() -> None:
    with pytest.raises(IllegalTransition, match="cannot move from unpaid to paid"):
        pay(order("cancelled"), "paid")
    late = with_payment(order("cancelled"), 2500)
    assert (late.payment_status, late.figures.balance) == ("paid", -2500)


def test_an_order_without_cost_is_paid_without_a_payment() -> None:
    free = order("processing", line(1, 1, unit_price=0))
    pay(free, "paid")
    assert (free.payment_status, free.payments) == ("paid", [])
    free.lines.append(line(2, 1))
    assert free.payment_status == "unpaid"


@pytest.mark.parametrize("refund", [0, 399, 1300, 1301])
def test_a_partial_refund_exceeds_the_last_one_and_is_below_the_amount_paid(refund: int) -> None:
    paid = order("pending", line(1, 2), shipping_total=300)
    pay(paid, "paid")
    pay(paid, "partially_refunded", 400)
    with pytest.raises(ValidationFailed):
        pay(paid, "partially_refunded", refund)


def test_setting_paid_again_settles_an_order_that_grew() -> None:
    grown = order("processing", line(1, 2))
    pay(grown, "paid")
    grown.lines.append(line(2, 1, unit_price=700))
    assert (grown.amount_paid, grown.figures.due, grown.payment_status) == (1000, 700, "partially_paid")
    pay(grown, "paid")
    assert (grown.amount_paid, grown.figures.due, grown.payment_status) == (1700, 0, "paid")


@pytest.mark.parametrize(
    ("status", "expected"), [("draft", (0, 0)), ("cancelled", (0, 0)), ("pending", (1, 70)), ("returned", (1, 70))]
)
def test_drafts_and_cancelled_orders_do_not_count_for_the_customer(status: Status, expected: tuple[int, int]) -> None:
    paid = with_payment(order("pending"), 100)
    pay(paid, "partially_refunded", 30)
    assert contribution(msgspec.structs.replace(paid, status=status)) == expected
    assert contribution(None) == (0, 0)


# --- stock -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["draft", "pending", "processing"])
def test_a_new_order_reserves_stock_unless_it_is_a_draft(status: Status) -> None:
    reserved = [(1, "reserve", 0, 2), (2, "reserve", 0, 3)]
    assert effects(None, order(status)) == (reserved if status in HOLDING else [])


def chain(*statuses: Status) -> list[list[tuple[str, int, int]]]:
    """The stock effects of each step, for one line with a quantity of two."""
    state = with_payment(order(statuses[0], line(1, 2)))
    steps = [[e[1:] for e in effects(None, state)]]
    for status in statuses[1:]:
        after = moved(state, status)
        steps.append([e[1:] for e in effects(state, after)])
        state = after
    return steps


LIFECYCLES: list[tuple[tuple[Status, ...], list[list[tuple[str, int, int]]]]] = [
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


@pytest.mark.parametrize(("statuses", "expected"), LIFECYCLES)
def test_stock_follows_the_status(statuses: Sequence[Status], expected: list[list[tuple[str, int, int]]]) -> None:
    assert chain(*statuses) == expected


def test_a_partial_shipment_commits_its_part_and_a_cancellation_releases_the_rest() -> None:
    before = order("processing", line(1, 5))
    part = moved(before, "shipped", (1, 2))
    assert effects(before, part) == [(1, "commit", -2, -2)]
    assert effects(part, moved(part, "cancelled")) == [(1, "release", 0, -3)]


def test_a_return_restocks_unless_restock_is_false() -> None:
    before = paid_order("shipped")
    after = moved(before, "returned", (1, 1))
    assert effects(before, after) == [(1, "restock", 1, 0)]
    assert effects(before, after, restock=False) == []


def test_a_changed_line_reserves_or_releases_the_difference() -> None:
    before = order("pending", line(1, 2), line(2, 3), line(3, 4))
    after = before.copy()
    after.lines[0].quantity = 5
    after.lines[1].quantity = 1
    del after.lines[2]
    assert effects(before, after) == [(1, "reserve", 0, 3), (2, "release", 0, -2), (3, "release", 0, -4)]
    draft, changed = (msgspec.structs.replace(each, status="draft") for each in (before, after))
    assert effects(draft, changed) == []


def test_units_that_are_not_allocated_change_no_stock() -> None:
    before = order("processing", line(1, 3, tracked=False))
    shipped = moved(before, "shipped")
    returned = moved(shipped, "returned")
    assert (effects(None, before), effects(before, shipped), effects(shipped, returned)) == ([], [], [])


# --- totals ----------------------------------------------------------------------------------------------------------


def faults_of(state: OrderState, total: int | None = None) -> list[tuple[str, str]]:
    pointers = {n: f"/line_items/{n}" for n in range(len(state.lines))}
    sent = {"line_items": [{"quantity": 1, "discount_total": "1.00"}] * len(state.lines), "discount_total": "1.00"}
    return [(fault.pointer, fault.code) for fault in sum_faults(state, pointers, 2, sent, total)]


def test_totals_follow_the_contract() -> None:
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
    fault = sum_faults(state, {}, 2, {}, 6471)[0]
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
def test_invalid_totals_are_reported(state: OrderState, expected: tuple[str, str]) -> None:
    assert faults_of(state) == [expected]


# --- duplicate score -------------------------------------------------------------------------------------------------

ADA = Traits(7, "ada@example.com", "+442079460018", b"basket", b"street", 1300)


def score(**other: Any) -> tuple[int, list[str]] | None:
    found = likeness(ADA, msgspec.structs.replace(ADA, **other))
    return None if found is None else (found[0], list(found[1]))


def test_an_identical_order_has_the_highest_score() -> None:
    found = score()
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
def test_contact_and_either_basket_or_address_must_match(other: dict[str, Any], expected: Any) -> None:
    assert score(**other) == expected


def test_orders_without_a_contact_do_not_match() -> None:
    anonymous = Traits(None, None, None, b"basket", None, 1300)
    assert likeness(anonymous, anonymous) is None


def test_a_basket_digest_ignores_splitting_and_order() -> None:
    split = [line(1, 1, variant_id=5), line(2, 3, variant_id=6), line(3, 2, variant_id=5)]
    assert basket_digest(split) == basket_digest([line(9, 3, variant_id=6), line(8, 3, variant_id=5)])
    assert basket_digest(split) != basket_digest(split[:2])


def test_an_address_digest_ignores_case_accents_and_punctuation() -> None:
    here = {"address1": "3, Wéll Street.", "city": "BATH", "postal_code": "BA1 1AA", "country_code": "GB"}
    there = {"address1": "3 well street", "city": "Bath", "postal_code": "ba1 1aa", "country_code": "GB", "phone": "1"}
    assert address_digest(here) == address_digest(there)
    assert address_digest({**there, "address1": "4 well street"}) != address_digest(here)
    assert address_digest({**there, "postal_code": "BA1 1AB"}) != address_digest(here)
    assert address_digest({"city": "Bath"}) is None
    assert address_digest(None) is None


@pytest.mark.parametrize("spelling", ["BA11AA", "ba1 1aa", "BA1-1AA", " BA 1 1 AA "])
def test_an_address_digest_ignores_how_a_postal_code_is_divided(spelling: str) -> None:
    here = {"address1": "3 Well Street", "city": "Bath", "postal_code": "BA1 1AA", "country_code": "GB"}
    assert address_digest({**here, "postal_code": spelling}) == address_digest(here)


# --- changes ------------------------------------------------------------------------------------------------------


def test_a_change_renders_only_the_line_items_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    line_document = events.line_document

    def counted(each: LineState, digits: int) -> dict[str, Any]:
        rendered.append(each.id)
        return line_document(each, digits)

    monkeypatch.setattr(events, "line_document", counted)
    before = order("pending", *(line(number, fulfilled=1) for number in range(1, 501)), contact=dict(NO_CONTACT))
    noted = before.copy()
    noted.note = "Ring twice"
    assert events.differences(before, noted, 2) == {"note": (None, "Ring twice")}
    assert rendered == []
    changed = before.copy()
    changed.lines[6].quantity = 9
    changed.lines[8].fulfilled_quantity = 2
    found = events.differences(before, changed, 2)
    assert rendered == [7, 9, 7, 9]
    assert [[each["quantity"] for each in side] for side in found["line_items"]] == [[2], [9]]
    assert found["fulfilled_quantity"] == (500, 501)
