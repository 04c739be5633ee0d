"""The totals of every order add up, in currencies with 0, 2 and 3 digits, whether or not prices include taxes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings

DIGITS = {"USD": 2, "JPY": 0, "KWD": 3}

Discounts = list[tuple[str, Decimal, bool]]  # kind, value (minor units, or percent), whether the amount is sent


@dataclass
class Sums:
    """Discounts and taxes as a caller sends them: itemized, or as sums in minor units."""

    discounts: Discounts = field(default_factory=Discounts)
    taxes: list[int] = field(default_factory=list[int])
    discount: int = 0
    tax: int = 0


@dataclass
class Line:
    price: int
    quantity: int
    sums: Sums


@dataclass
class Order:
    lines: list[Line]
    sums: Sums
    shipping: int
    included: bool


SMALL = st.integers(0, 3_000)
PERCENT = st.integers(0, 1_000_000).map(lambda n: Decimal(n) / 10_000)
DISCOUNT = st.one_of(
    st.tuples(st.just("fixed"), SMALL.map(Decimal), st.booleans()),
    st.tuples(st.just("percentage"), PERCENT, st.just(False)),  # noqa: FBT003
)
SUMS_SENT = st.builds(
    Sums,
    discounts=st.lists(DISCOUNT, max_size=2),
    taxes=st.lists(SMALL, max_size=2),
    discount=SMALL,
    tax=SMALL,
)
LINE = st.builds(Line, price=st.integers(0, 9_999), quantity=st.integers(1, 9), sums=SUMS_SENT)
ORDER = st.builds(
    Order, lines=st.lists(LINE, min_size=1, max_size=3), sums=SUMS_SENT, shipping=SMALL, included=st.booleans()
)
EDIT = st.one_of(
    st.tuples(st.just("sums"), SUMS_SENT),
    st.tuples(st.just("included"), st.booleans()),
    st.tuples(st.just("line"), LINE),
    st.tuples(st.just("add"), LINE),
)


# --- the model -------------------------------------------------------------------------------------------------------


def discount_of(sums: Sums, base: int) -> int:
    shares = [
        value if kind == "fixed" else (max(base, 0) * value / 100).quantize(Decimal(1), ROUND_HALF_UP)
        for kind, value, _ in sums.discounts
    ]
    return int(sum(shares)) if shares else sums.discount


def tax_of(sums: Sums) -> int:
    return sum(sums.taxes) if sums.taxes else sums.tax


@dataclass
class Stored:
    """A line item or an order after its amounts were settled: they stay when prices change."""

    discount: int
    tax: int


@dataclass
class Model:
    lines: list[tuple[int, Stored]]  # unit price times quantity, and amounts
    own: Stored
    shipping: int
    included: bool

    def base(self) -> int:
        return sum(cost - amounts.discount for cost, amounts in self.lines)

    def totals(self) -> dict[str, int]:
        items = sum(cost for cost, _ in self.lines)
        discount, tax = sum(a.discount for _, a in self.lines), sum(a.tax for _, a in self.lines)
        both = {"discount": discount + self.own.discount, "tax": tax + self.own.tax}
        return {
            "items": items, "items_discount": discount, "items_tax": tax, "shipping": self.shipping,
            "shipping_tax": self.own.tax, "order_discount": self.own.discount, **both,
            "total": items - both["discount"] + self.shipping + (0 if self.included else both["tax"]),
        }  # fmt: skip

    def line_total(self, cost: int, amounts: Stored) -> int:
        return cost - amounts.discount + (0 if self.included else amounts.tax)

    def valid(self) -> bool:
        totals = [self.line_total(*each) for each in self.lines]
        taxed = all(total >= each[1].tax for total, each in zip(totals, self.lines, strict=True))
        return min(*totals, self.totals()["total"]) >= 0 and (taxed or not self.included)


def stored(line: Line) -> tuple[int, Stored]:
    cost = line.price * line.quantity
    return cost, Stored(discount_of(line.sums, cost), tax_of(line.sums))


def model_of(order: Order) -> Model:
    model = Model([stored(line) for line in order.lines], Stored(0, tax_of(order.sums)), order.shipping, order.included)
    model.own.discount = discount_of(order.sums, model.base())
    return model


# --- the calls -------------------------------------------------------------------------------------------------------


def text(minor: int | Decimal, digits: int) -> str:
    return str(Decimal(minor).scaleb(-digits).quantize(Decimal(1).scaleb(-digits)))


def body_of(sums: Sums, digits: int) -> dict[str, Any]:
    """A list that is empty is not sent; then the sum is."""
    body: dict[str, Any] = {}
    if sums.discounts:
        body["discounts"] = [
            {"kind": kind, "value": str(value) if kind == "percentage" else text(value, digits)}
            | ({"amount": text(value, digits)} if sends_amount else {})
            for kind, value, sends_amount in sums.discounts
        ]
    else:
        body["discount_total"] = text(sums.discount, digits)
    if sums.taxes:
        body["tax_lines"] = [{"title": "Tax", "amount": text(amount, digits)} for amount in sums.taxes]
    else:
        body["tax_total"] = text(sums.tax, digits)
    return body


def line_of(line: Line, digits: int) -> dict[str, Any]:
    price = {"unit_price": text(line.price, digits), "quantity": line.quantity}
    return {"name": "Thing", **price, **body_of(line.sums, digits)}


def assert_adds_up(shown: dict[str, Any], model: Model, digits: int) -> None:
    assert shown["totals"] == {name: text(minor, digits) for name, minor in model.totals().items()}
    totals = [text(model.line_total(*each), digits) for each in model.lines]
    assert [line["total"] for line in shown["line_items"]] == totals
    assert Decimal(shown["subtotal"]) == sum(map(Decimal, totals))
    assert shown["total"] == shown["totals"]["total"]
    assert shown["prices_include_tax"] is model.included
    for each in (shown, *shown["line_items"]):
        for entries, total in (("discounts", "discount_total"), ("tax_lines", "tax_total")):
            if each[entries]:
                assert sum(Decimal(entry["amount"]) for entry in each[entries]) == Decimal(each[total])


@dataclass
class Desk:
    """One order of a shop, and its model."""

    client: httpx.AsyncClient
    digits: int
    order: dict[str, Any]
    model: Model

    @property
    def path(self) -> str:
        return f"/orders/{self.order['id']}"

    async def run(self, kind: str, given: Any) -> None:
        """Send a change; it must be accepted if the changed model adds up, and change nothing otherwise."""
        trial, before = replace(self.model, lines=list(self.model.lines)), self.order
        if kind == "sums":
            trial.own = Stored(discount_of(given, trial.base()), tax_of(given))
            answer = await self.client.patch(self.path, json=body_of(given, self.digits))
        elif kind == "included":
            trial.included = given
            answer = await self.client.patch(self.path, json={"prices_include_tax": given})
        elif kind == "line":
            trial.lines[0] = stored(given)
            body = {name: value for name, value in line_of(given, self.digits).items() if name != "name"}
            answer = await self.client.patch(f"{self.path}/products/{before['line_items'][0]['id']}", json=body)
        else:
            trial.lines.append(stored(given))
            lines = [{**line_of(given, self.digits), "merge": False}]
            answer = await self.client.post(f"{self.path}/products", json={"line_items": lines})
        assert answer.is_success == trial.valid(), answer.text
        if answer.is_success:
            self.model, self.order = trial, answer.json()["data"]
        else:
            assert {each["code"] for each in answer.json()["errors"]} == {"out_of_range"}
            self.order = (await self.client.get(self.path)).json()["data"]
            assert self.order == before
        assert_adds_up(self.order, self.model, self.digits)


@pytest.fixture(scope="module")
async def shops(settings: Settings, db: Database) -> AsyncIterator[dict[str, Shop]]:
    application = Application(settings)
    opened = {currency: await open_shop(application, db, currency=currency) for currency in DIGITS}
    yield opened
    for shop in opened.values():
        await shop.client.aclose()
    await application.close()


@given(currency=st.sampled_from(list(DIGITS)), order=ORDER, edits=st.lists(EDIT, max_size=3))
async def test_the_totals_of_every_order_add_up(
    shops: dict[str, Shop], currency: str, order: Order, edits: list[tuple[str, Any]]
) -> None:
    shop, digits, model = shops[currency], DIGITS[currency], model_of(order)
    body = {
        "status": "draft",
        "line_items": [line_of(line, digits) for line in order.lines],
        "shipping_total": text(order.shipping, digits),
        "prices_include_tax": order.included,
        **body_of(order.sums, digits),
    }
    answer = await shop.client.post("/orders", json=body)
    assert answer.is_success == model.valid(), answer.text
    if not answer.is_success:
        return
    desk = Desk(shop.client, digits, answer.json()["data"], model)
    assert_adds_up(desk.order, model, digits)
    for kind, given_ in edits:
        await desk.run(kind, given_)
    copy = (await shop.client.post(f"{desk.path}/duplicates")).json()["data"]
    assert_adds_up(copy, desk.model, digits)
