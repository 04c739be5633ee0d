"""Any sequence of orders, moves, edits and adjustments against a plain model: stock, lines and books agree after each."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.inventory.contract import Adjustments
from stoa.inventory.endpoints import adjust_inventory
from stoa.orders import bodies, duplicates, endpoints, lines
from stoa.rest.body import convert
from stoa.rest.endpoint import Call, Caller, One
from stoa.rest.problems import Refusal

SKUS = ("A", "B", "FREE")
WAYS = {
    "draft": "pending processing cancelled",
    "pending": "processing on_hold cancelled",
    "processing": "on_hold shipped completed cancelled",
    "on_hold": "pending processing cancelled",
    "shipped": "delivered returned",
    "delivered": "completed returned",
    "completed": "returned",
    "cancelled": "",
    "returned": "",
}
HOLDING = ("pending", "processing", "on_hold")
EDITABLE = ("draft", *HOLDING)

SOME = st.integers(1, 4)
LINES = st.lists(st.tuples(st.sampled_from(SKUS), SOME), min_size=1, max_size=3)
PLACE = st.tuples(st.just("place"), st.sampled_from(EDITABLE[:3]), st.booleans(), LINES)
MOVE = st.tuples(st.just("move"), st.integers(0, 5), st.sampled_from(list(WAYS)), st.booleans())
PART = st.tuples(st.just("part"), st.integers(0, 5), st.sampled_from(["shipped", "returned"]), st.integers(0, 2), SOME)
PAY = st.tuples(st.just("pay"), st.integers(0, 5))
EDIT = st.tuples(st.just("edit"), st.integers(0, 5), st.integers(0, 2), st.integers(0, 5))
ADD = st.tuples(st.just("add"), st.integers(0, 5), st.sampled_from(SKUS), SOME, st.booleans())
COPY = st.tuples(st.just("copy"), st.integers(0, 5), st.sampled_from(["draft", "pending"]))
ADJUST = st.tuples(st.just("adjust"), st.sampled_from(SKUS), st.integers(-3, 5))
# Each story begins with an order, because the rest needs one; moves are what stories are made of.
STEPS = st.tuples(PLACE, st.lists(st.one_of(MOVE, MOVE, PLACE, PART, PAY, EDIT, ADD, COPY, ADJUST), max_size=7))

Step = tuple[Any, ...]


@dataclass
class Line:
    sku: str
    quantity: int
    sent: int = 0
    back: int = 0


@dataclass
class Placed:
    status: str
    paid: bool
    lines: list[Line]

    def held(self) -> Counter[str]:
        units: Counter[str] = Counter()
        if self.status in HOLDING:
            for line in self.lines:
                units[line.sku] += line.quantity - line.sent
        return units


class Refused(Exception):
    """What the shop should answer instead."""


@dataclass
class Model:
    """What the shop should do, in as few words as there are."""

    on_hand: Counter[str] = field(default_factory=lambda: Counter({"A": 5, "B": 2, "FREE": 0}))
    orders: list[Placed] = field(default_factory=list[Placed])

    def reserved(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for order in self.orders:
            total.update(order.held())
        return total

    def check(self) -> None:
        reserved = self.reserved()
        if any(self.on_hand[sku] < reserved[sku] for sku in ("A", "B")):
            raise Refused("insufficient_stock")

    def place(self, status: str, paid: bool, wanted: list[tuple[str, int]]) -> None:
        self.orders.append(Placed(status, paid, [Line(sku, units) for sku, units in wanted]))
        self.check()

    def move(self, number: int, status: str, restock: bool) -> None:
        self.advance(self.orders[number], status, None, restock=restock)

    def part(self, number: int, status: str, place: int, units: int) -> None:
        order = self.orders[number]
        self.advance(order, status, (order.lines[place % len(order.lines)], units), restock=True)

    def advance(self, order: Placed, status: str, part: tuple[Line, int] | None, *, restock: bool) -> None:
        if status == order.status:
            return
        if status not in WAYS[order.status].split():
            raise Refused("illegal_transition")
        if status == "completed" and not order.paid:
            raise Refused("order_not_paid")
        if status in ("shipped", "completed"):
            for line, units in [part] if part else [(each, each.quantity - each.sent) for each in order.lines]:
                if units > line.quantity - line.sent:
                    raise Refused("validation_failed")
                line.sent += units
                self.on_hand[line.sku] -= units
            if any(line.sent < line.quantity for line in order.lines):
                return
        if status == "returned":
            for line, units in [part] if part else [(each, each.sent - each.back) for each in order.lines]:
                if units > line.sent - line.back:
                    raise Refused("validation_failed")
                line.back += units
                self.on_hand[line.sku] += units if restock else 0
            if any(line.back < line.sent for line in order.lines):
                return
        order.status = status
        self.check()

    def pay(self, number: int) -> None:
        self.orders[number].paid = True

    def edit(self, number: int, place: int, units: int) -> None:
        order = self.orders[number]
        line = order.lines[place % len(order.lines)]
        if units < line.sent or (units == 0 and len(order.lines) == 1):
            raise Refused("validation_failed")
        if units == line.quantity:
            return
        if order.status not in EDITABLE:
            raise Refused("order_not_editable")
        line.quantity = units
        if not units:
            order.lines.remove(line)
        self.check()

    def add(self, number: int, sku: str, units: int, merge: bool) -> None:
        order = self.orders[number]
        if order.status not in EDITABLE:
            raise Refused("order_not_editable")
        twin = next((line for line in order.lines if merge and line.sku == sku and not line.sent), None)
        if twin is None:
            order.lines.append(Line(sku, units))
        else:
            twin.quantity += units
        self.check()

    def copy(self, number: int, status: str) -> None:
        copied = [Line(line.sku, line.quantity) for line in self.orders[number].lines]
        self.orders.append(Placed(status, paid=False, lines=copied))
        self.check()

    def adjust(self, sku: str, units: int) -> None:
        if units == 0:
            return
        self.on_hand[sku] += units
        if units < 0:
            self.check()


@dataclass
class Desk:
    """The shop's own handlers, called as the kit calls them: each in a transaction of its own."""

    shop: Shop
    names: dict[str, str] = field(default_factory=dict[str, str])
    documents: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def run(self, handler: Callable[..., Awaitable[Any]], kind: type, body: dict[str, Any], *path: int) -> Any:
        store = self.shop.store
        call = Call(self.shop.db, store, Caller(self.shop.app_id, "Desk", frozenset(), 1, 1), "req_desk", "")
        call.autocommit, call.patch = self.shop.db.autocommit, body
        async with self.shop.db.transaction() as db:
            call.db = db
            return await handler(call, *path, convert(body, kind, digits=store.digits))

    def order(self, number: int) -> int:
        return self.documents[number]["id"]

    def line(self, number: int, place: int) -> int:
        found = self.documents[number]["line_items"]
        return found[place % len(found)]["id"]

    async def step(self, kind: str, *told: Any) -> None:
        """Carry out one step of a story."""
        if kind == "adjust":
            item = {"sku": self.names[told[0]], "op": "adjust", "quantity": told[1]}
            await self.run(adjust_inventory, Adjustments, {"items": [item]})
        elif kind == "place":
            status, paid, wanted = told
            items = [{"sku": self.names[sku], "quantity": units} for sku, units in wanted]
            body = {"status": status, "payment_status": "paid" if paid else "unpaid", "line_items": items}
            self.documents.append(read(await self.run(endpoints.create_order, bodies.NewOrder, body)))
        elif kind == "copy":
            order = self.order(told[0])
            copy = await self.run(duplicates.duplicate_order, bodies.NewCopy, {"status": told[1]}, order)
            self.documents.append(read(copy))
        else:
            order = self.order(told[0])
            self.documents[told[0]] = read(await self.change(kind, order, *told))

    async def change(self, kind: str, order: int, number: int, *told: Any) -> One[Any]:
        """Change an order that is there."""
        if kind == "add":
            item = {"sku": self.names[told[0]], "quantity": told[1], "merge": told[2]}
            return await self.run(lines.add_order_products, bodies.AddedLines, {"line_items": [item]}, order)
        if kind == "edit":
            line = self.line(number, told[0])
            return await self.run(lines.update_order_product, bodies.LineChanges, {"quantity": told[1]}, order, line)
        if kind == "move":
            body = {"status": told[0], "restock": told[1]}
        elif kind == "part":
            body = {"status": told[0], "line_items": [{"id": self.line(number, told[1]), "quantity": told[2]}]}
        else:
            body = {"payment_status": "paid"}
        return await self.run(endpoints.update_order_status, bodies.StatusChange, body, order)


def read(answer: One[Any]) -> dict[str, Any]:
    return msgspec.json.decode(answer.doc)


async def stock_up(shop: Shop, story: int) -> dict[str, str]:
    """Shelves of a story's own, so that stories share a store and nothing else."""
    names = {sku: f"{sku}-{story}" for sku in SKUS}
    values = list(names.values())
    stock = {"A": 5, "B": 2, "FREE": 0}
    await shop.add(
        {
            "name": f"Story {story}",
            "price": "2.00",
            "options": [{"name": "Kind", "values": values}],
            "variants": [
                {
                    "sku": name,
                    "option_values": {"Kind": name},
                    "track_inventory": sku != "FREE",
                    "stock": {"on_hand": stock[sku]},
                }
                for sku, name in names.items()
            ],
        }
    )
    return names


BOOKS = """
    SELECT v.sku, v.on_hand, v.reserved,
           (SELECT coalesce(sum(delta_on_hand), 0)::bigint FROM stock_movements WHERE store_id = $1 AND variant_id = v.id),
           (SELECT coalesce(sum(delta_reserved), 0)::bigint FROM stock_movements WHERE store_id = $1 AND variant_id = v.id)
      FROM variants v WHERE v.store_id = $1 AND v.sku = ANY($2::text[])"""
ORDERS = """
    SELECT o.status, o.version, convert_to(order_document(o.id, o.head, o.lines, o.person, o.tail), 'UTF8'),
           (SELECT array_agg(ARRAY[quantity, fulfilled_quantity, returned_quantity] ORDER BY id)
              FROM order_lines WHERE store_id = $1 AND order_id = o.id),
           (SELECT count(DISTINCT resource_version) FROM events
             WHERE store_id = $1 AND resource_type = 'order' AND resource_id = o.id)
      FROM orders o WHERE o.store_id = $1 AND o.id = ANY($2::bigint[]) ORDER BY o.id"""


async def assert_stock_as_modelled(desk: Desk, model: Model) -> None:
    """Levels and ledger say what the model says."""
    reserved = model.reserved()
    skus = {name: sku for sku, name in desk.names.items()}
    for name, on_hand, held, moved, promised in await desk.shop.db.fetch(BOOKS, desk.shop.store_id, list(skus)):
        sku = skus[name]
        assert (on_hand, held) == (model.on_hand[sku], reserved[sku])
        assert (moved, promised) == (on_hand, held)


async def assert_orders_as_modelled(desk: Desk, model: Model) -> None:
    """Documents, lines and events say what the model says."""
    ids = [document["id"] for document in desk.documents]
    rows = await desk.shop.db.fetch(ORDERS, desk.shop.store_id, ids)
    assert [msgspec.json.decode(row[2]) for row in rows] == desk.documents
    for (status, version, _, stored, told), order, document in zip(rows, model.orders, desk.documents, strict=True):
        expected = [[line.quantity, line.sent, line.back] for line in order.lines]
        shown = [
            [line["quantity"], line["fulfilled_quantity"], line["returned_quantity"]] for line in document["line_items"]
        ]
        assert (status, shown, stored) == (order.status, expected, expected)
        assert version == told  # every version was told of, and nothing else was
        assert document["total"] == f"{2 * sum(line.quantity for line in order.lines)}.00"


@pytest.fixture(scope="module")
async def desk_shop(application: Application, db: Database) -> AsyncIterator[Shop]:
    shop = await open_shop(application, db)
    yield shop
    await shop.client.aclose()


_stories = iter(range(1, 10**9))
MANY = max(1_000, 10 * hypothesis.settings.default.max_examples)  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.timeout(1_800)
@settings(max_examples=MANY)
@given(steps=STEPS)
async def test_orders_and_stock_agree_with_their_model(desk_shop: Shop, steps: tuple[Step, list[Step]]) -> None:
    desk = Desk(desk_shop, await stock_up(desk_shop, next(_stories)))
    model = Model()
    for kind, *told in [steps[0], *steps[1]]:
        if kind not in ("place", "adjust"):
            if not model.orders:
                continue
            told[0] %= len(model.orders)
        before = _copied(model)
        try:
            getattr(model, kind)(*told)
            expected = "done"
        except Refused as refused:
            model, expected = before, str(refused)
        try:
            await desk.step(kind, *told)
            answered = "done"
        except Refusal as refusal:
            answered = refusal.code
        assert answered == expected, (kind, told)
        await assert_stock_as_modelled(desk, model)
    await assert_orders_as_modelled(desk, model)


def _copied(model: Model) -> Model:
    orders = [
        Placed(order.status, order.paid, [Line(x.sku, x.quantity, x.sent, x.back) for x in order.lines])
        for order in model.orders
    ]
    return Model(Counter(model.on_hand), orders)
