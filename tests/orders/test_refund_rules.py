"""The rules of refunds and fulfillments without a database: shares of amounts, and states that survive their document."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.events.outbox import Actor
from stoa.orders.bodies import NewRefund, NewRefundLine, Portion
from stoa.orders.contract import RefundExceedsPayment
from stoa.orders.documents import parts_of
from stoa.orders.fulfillments import deliver, track
from stoa.orders.payments import Occasion, record
from stoa.orders.refunds import refund
from stoa.orders.rules import change_status
from stoa.orders.state import NO_CONTACT, LineState, OrderState
from stoa.orders.update import order_of
from stoa.rest.problems import ValidationFailed

NOW = "2026-03-01T10:00:00.000000Z"
OCCASION = Occasion(NOW, Actor("app", 3), "Late", "Sorry.")
AMOUNTS = st.integers(0, 10**13)


def line(line_id: int, quantity: int, price: int = 0, **more: Any) -> LineState:
    texts: dict[str, Any] = {"sku": None, "name": "Tea", "variant_title": "Default", "option_values": {}}
    return LineState(id=line_id, product_id=1, variant_id=line_id, quantity=quantity, unit_price=price, **texts, **more)


def paid(*lines: LineState, amount: int | None = None, **more: Any) -> OrderState:
    known: dict[str, Any] = {"status": "processing", "currency": "USD", **more}
    order = OrderState(
        lines=list(lines), contact=NO_CONTACT, placed_at=NOW, source={"app_id": 3, "name": "App"}, **known
    )
    record(order, "payment", order.total if amount is None else amount, OCCASION, pointer="/payment")
    return order


@given(
    digits=st.sampled_from([0, 2, 3]),
    price=st.integers(0, 10**9),
    discount=st.integers(0, 10**9),
    tax=st.integers(0, 10**9),
    parts=st.lists(st.integers(1, 50), min_size=1, max_size=8),
)
def test_the_units_of_a_line_get_its_total_however_they_are_divided(
    digits: int, price: int, discount: int, tax: int, parts: list[int]
) -> None:
    quantity = sum(parts)
    order = paid(line(1, quantity, price, discount_total=min(discount, price * quantity), tax_total=tax + 1))
    total, before = order.total, 0
    for units in parts:
        try:
            refund(order, NewRefund(line_items=[NewRefundLine(1, units)]), OCCASION, digits)
        except ValidationFailed:  # the share is less than the smallest amount
            assert total * (before + units) // quantity == total * before // quantity
            return
        before += units
        exact = total * units / quantity
        assert abs(order.refunds[-1].amount - exact) <= 1 + exact * 1e-12
    assert (order.amount_refunded, order.payment_status) == (total, "refunded")
    with pytest.raises(ValidationFailed):
        refund(order, NewRefund(line_items=[NewRefundLine(1, 1)]), OCCASION, digits)


@given(
    prices=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    amount=st.integers(1, 10**6),
    shipping=st.integers(0, 10**6),
)
def test_a_given_amount_is_divided_without_a_remainder(prices: list[int], amount: int, shipping: int) -> None:
    order = paid(*(line(n, 2, price) for n, price in enumerate(prices)), shipping_total=10**7)
    lines = [NewRefundLine(n, 1) for n in range(len(prices))]
    body = NewRefund(line_items=lines, amount=Decimal(amount), shipping_amount=Decimal(shipping))
    if shipping > amount:
        with pytest.raises(ValidationFailed):
            refund(order, body, OCCASION, 0)
        return
    refund(order, body, OCCASION, 0)
    made = order.refunds[0]
    assert (made.amount, made.shipping_amount) == (amount, shipping)
    assert sum(each.amount for each in made.line_items) + shipping == amount
    assert all(each.amount >= 0 for each in made.line_items)


def test_a_refund_above_the_payment_names_what_is_left() -> None:
    order = paid(line(1, 3, 500), amount=1200)
    refund(order, NewRefund(line_items=[NewRefundLine(1, 2)]), OCCASION, 2)
    with pytest.raises(RefundExceedsPayment) as refused:
        refund(order, NewRefund(line_items=[NewRefundLine(1, 1)]), OCCASION, 2)
    assert refused.value.members == {"refundable": "2.00"}
    assert order.amount_refunded == 1000


@pytest.mark.parametrize("digits", [0, 2, 3])
def test_an_order_is_read_back_as_it_was_stored(digits: int) -> None:
    order = paid(line(1, 3, 500), line(2, 2, 700))
    for portion, number in (((1, 2), "P-1"), ((2, 1), "P-1")):
        change_status(order, "shipped", [Portion(*portion)], NOW, None)
        tracking = {"carrier": None, "number": number, "url": None}
        track(order, tracking, NOW, fulfillment_id=None, shipped_now=True)
    track(order, {"carrier": None, "number": "P-2", "url": None}, NOW, fulfillment_id=None, shipped_now=False)
    deliver(order, NOW, 1)
    refund(order, NewRefund(line_items=[NewRefundLine(1, 2, restock=True)]), OCCASION, digits)
    assert [each["number"] for each in order.tracking] == ["P-1", "P-2"]
    assert order_of(parts_of(order, digits), digits) == order
    plain = paid(line(1, 1, 5))
    assert order_of(parts_of(plain, digits), digits) == plain
