"""The database and the rules in memory agree on the records and figures of an order that release 0.3.0 wrote."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoa.db.pool import Database
from stoa.events.outbox import Actor
from stoa.orders.documents import document_of, parts_of
from stoa.orders.payments import Occasion, record
from stoa.orders.refunds import add_refund
from stoa.orders.state import NO_CONTACT, LineState, OrderState
from stoa.orders.update import order_of

NOW = "2026-03-01T10:00:00.000000Z"
APP = Occasion(NOW, Actor("app", 3))
# What 0.3.0 does not write, or computes by another rule.
_UNKNOWN = ("payments",)
_OTHERWISE = {"payment_status": "paid", "amount_due": "7", "balance": "7"}


@st.composite
def orders(draw: st.DrawFn) -> tuple[OrderState, int]:
    """An order of 0.3.0, with at most one payment, and the digits of its currency."""
    cancelled = draw(st.booleans())
    lines: list[LineState] = []
    for n in range(draw(st.integers(1, 3))):
        quantity = draw(st.integers(1, 7))
        fulfilled = draw(st.integers(0, quantity))
        texts: dict[str, Any] = {"sku": None, "name": "Tea", "variant_title": "", "option_values": {}}
        lines.append(
            LineState(
                id=n,
                product_id=1,
                variant_id=1,
                quantity=quantity,
                fulfilled_quantity=fulfilled,
                returned_quantity=draw(st.integers(0, fulfilled)),
                unit_price=draw(st.integers(0, 10**10)),
                tax_total=draw(st.integers(0, 99)),
                **texts,
            )
        )
    order = OrderState(
        status="cancelled" if cancelled else "processing",
        currency="USD",
        lines=lines,
        shipping_total=draw(st.integers(0, 900)),
        contact=NO_CONTACT,
        placed_at=NOW,
        payment_method="card",
        source={"app_id": 3, "name": "App"},
    )
    paid = draw(st.sampled_from([0, order.total, order.total // 2, order.total + 5]))
    if paid:
        record(order, "payment", paid, APP, pointer="/payment")
        for _ in range(draw(st.integers(0, 2))):
            amount = draw(st.integers(0, paid - order.amount_refunded))
            if amount:
                add_refund(order, amount, APP, pointer="/refund")
    return order, draw(st.sampled_from([0, 2, 3]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=orders())
async def test_the_database_derives_what_the_rules_compute(db: Database, made: tuple[OrderState, int]) -> None:
    order, digits = made
    parts = parts_of(order, digits)
    current: dict[str, Any] = msgspec.json.decode("{" + parts.head[1:] + "}")
    written = {name: value for name, value in current.items() if name not in _UNKNOWN}
    if order.payments:
        written |= _OTHERWISE
    head = "," + msgspec.json.encode(written).decode()[1:-1]
    async with db.transaction() as connection:
        [[derived]] = await connection.fetch("SELECT order_purchase($1, $2, 1::smallint)", head, parts.lines)
        [[again]] = await connection.fetch("SELECT order_purchase($1, $2, 1::smallint)", derived, parts.lines)
        [[stored]] = await connection.fetch("SELECT order_purchase($1, $2, 2::smallint)", head, parts.lines)
    assert msgspec.json.decode("{" + derived[1:] + "}") == current
    assert (again, stored) == (derived, head)
    parts.head = derived
    assert document_of(order_of(parts, digits), digits) == document_of(order, digits)
