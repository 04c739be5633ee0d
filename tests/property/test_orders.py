"""Any sequence of order groups, moves, edits and adjustments, sent as HTTP calls, agrees with a plain model after each step."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import httpx
import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from tests.support.grouping import Submissions
from tests.support.shops import Shop, api_client, open_shop

from stoa import money
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings

TRACKED = ("A", "B")
SKUS = (*TRACKED, "FREE")
CURRENCIES = ("USD", "JPY", "KWD")  # with two, no and three fraction digits
PRICE = 199  # of a unit, in minor units
TAX = 1  # of a new line: a unit's share of the line's total is not a whole number of minor units
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


@dataclass(frozen=True)
class New:
    """An order as a caller sends it."""

    status: str
    paid: bool
    lines: tuple[tuple[str, int], ...]
    buyer: int | None = None
    inline: bool = False  # the buyer is sent as a customer, not as a contact
    external_id: int | None = None
    rejects: bool = False
    dry_run: bool = False
    key: int | None = field(default=None, compare=False)


SOME = st.integers(1, 4)
ANY = st.integers(0, 5)
LINES = st.lists(st.tuples(st.sampled_from(SKUS), SOME), min_size=1, max_size=2).map(tuple)
NEW = st.builds(
    New,
    status=st.sampled_from(EDITABLE[:3]),
    paid=st.booleans(),
    lines=LINES,
    buyer=st.sampled_from([None, 0, 1]),
    inline=st.booleans(),
    external_id=st.sampled_from([None, None, 0, 1]),
    rejects=st.booleans(),
    dry_run=st.sampled_from([False, False, False, True]),
    key=st.sampled_from([None, None, 0, 1]),
).map(lambda new: replace(new, inline=new.inline and new.buyer is not None))  # equal if their bodies are
GROUP = st.tuples(st.just("group"), st.lists(NEW, min_size=1, max_size=5))
RACE = st.tuples(st.just("race"), st.lists(NEW, min_size=2, max_size=4))
MOVE = st.tuples(st.just("move"), ANY, st.sampled_from(list(WAYS)), st.booleans())
PART = st.tuples(st.just("part"), ANY, st.sampled_from(["shipped", "returned"]), st.integers(0, 2), SOME)
PAY = st.tuples(st.just("pay"), ANY)
DEPOSIT = st.tuples(st.just("deposit"), ANY, st.sampled_from([1, 100, 250, 5_000]))
EDIT = st.tuples(st.just("edit"), ANY, st.integers(0, 2), st.integers(0, 5))
ADD = st.tuples(st.just("add"), ANY, st.sampled_from(SKUS), SOME, st.booleans())
COPY = st.tuples(st.just("copy"), ANY, st.sampled_from(["draft", "pending"]))
# A refund of units of a line, with shipping, perhaps with an amount of its own; and the older form with the sum of refunds.
REFUND = st.tuples(
    st.just("refund"), ANY, st.integers(0, 2), SOME, st.booleans(), st.sampled_from([0, 0, 7]),
    st.sampled_from([None, None, None, 1, 150, 10_000]),
)  # fmt: skip
REPAY = st.tuples(st.just("repay"), ANY, st.sampled_from([None, 1, 250]))
DELIVER = st.tuples(st.just("deliver"), ANY, st.integers(1, 3))
ADJUST = st.tuples(st.just("adjust"), st.sampled_from(SKUS), st.integers(-3, 5))
# A story begins with a group of orders, because the other steps need one.
STEPS = st.tuples(
    GROUP,
    st.lists(
        st.one_of(GROUP, MOVE, MOVE, RACE, PART, REFUND, REPAY, DELIVER, PAY, DEPOSIT, EDIT, ADD, COPY, ADJUST),
        max_size=6,
    ),
)
# What happens to one order after it is paid: it is shipped, delivered, returned and refunded in parts.
SOLD = st.builds(
    New,
    status=st.sampled_from(["processing"]),
    paid=st.sampled_from([True]),
    lines=st.sampled_from([(("A", 3),), (("FREE", 2), ("A", 4)), (("A", 1), ("B", 3))]),
)
FEW = st.integers(1, 2)
SHIP = st.one_of(
    st.tuples(st.just("part"), st.just(0), st.sampled_from(["shipped"]), st.integers(0, 1), FEW),
    st.tuples(st.just("move"), st.just(0), st.sampled_from(["shipped"]), st.booleans()),
)
REFUND_PART = st.tuples(
    st.just("refund"), st.just(0), st.integers(0, 1), FEW, st.booleans(), st.sampled_from([0, 7]),
    st.sampled_from([None, None, 1, 150, 900]),
)  # fmt: skip
NEXT = st.one_of(
    SHIP,
    st.tuples(st.just("part"), st.just(0), st.sampled_from(["returned"]), st.integers(0, 1), FEW),
    st.tuples(st.just("deliver"), st.just(0), FEW),
    st.tuples(
        st.just("move"), st.just(0), st.sampled_from(["delivered", "completed", "returned", "cancelled"]), st.booleans()
    ),
    REFUND_PART,
    REFUND_PART,
    st.tuples(st.just("repay"), st.just(0), st.sampled_from([250, 700, None])),
    st.tuples(st.just("edit"), st.just(0), st.integers(0, 1), st.integers(0, 5)),
    st.tuples(st.just("pay"), st.just(0)),
    st.tuples(st.just("deposit"), st.just(0), st.sampled_from([1, 150, 900])),
)
AFTER = st.tuples(SHIP, st.lists(NEXT, min_size=3, max_size=9))

Step = tuple[Any, ...]


# --- the model -----------------------------------------------------------------------------------------------------


_keys = itertools.count(1)


@dataclass
class Line:
    sku: str
    quantity: int
    sent: int = 0
    back: int = 0
    tax: int = TAX
    refunded: int = 0  # units
    gone: int = 0  # units that were removed after a payment
    worth: int = 0  # what their removal took from the total
    key: int = field(default_factory=lambda: next(_keys))

    @property
    def total(self) -> int:
        return PRICE * self.quantity + self.tax

    def restore(self, units: int) -> None:
        """Units that are added again were not removed, unless they are refunded."""
        kept = max(self.gone - units, min(self.gone, self.refunded))
        if self.gone:
            self.worth = self.worth * kept // self.gone
        self.gone = kept

    def share(self, units: int) -> int:
        """The part of the total for the next units."""
        return self.value(self.refunded + units) - self.value(self.refunded)

    def value(self, units: int) -> int:
        """What the first units get together: the removed ones, then the others."""
        if self.gone and units <= self.gone:
            return self.worth * units // self.gone
        return self.worth + (self.total * (units - self.gone) // self.quantity if self.quantity else 0)


@dataclass(frozen=True)
class Parcel:
    """A fulfillment: the units of each line."""

    units: tuple[tuple[int, int], ...]
    arrived: bool = False


@dataclass
class Placed:
    status: str
    paid: bool
    lines: list[Line]
    buyer: int | None = None
    customer: bool = False
    external_id: int | None = None
    version: int = 1
    removed: list[Line] = field(default_factory=list[Line])  # as a whole
    records: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])  # payments and refunds
    parcels: list[Parcel] = field(default_factory=list[Parcel])
    suspects: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        if self.paid and not self.records:
            self.records.append(("payment", self.total))

    @property
    def total(self) -> int:
        return sum(line.total for line in self.lines)

    @property
    def refunds(self) -> list[int]:
        return [amount for kind, amount in self.records if kind == "refund"]

    @property
    def amount_paid(self) -> int:
        return sum(amount for kind, amount in self.records if kind == "payment")

    @property
    def kept(self) -> int:
        """The value of what was neither cancelled, removed nor returned."""
        gone = [(x, x.back + (x.quantity - x.sent if self.status == "cancelled" else 0)) for x in self.lines]
        if all(units == line.quantity for line, units in gone):
            return 0
        return max(0, self.total - sum(line.total * units // line.quantity for line, units in gone))

    @property
    def balance(self) -> int:
        owed = max(0, self.amount_paid - self.kept)
        return self.kept - self.amount_paid + min(sum(self.refunds), owed)

    @property
    def payment_status(self) -> str:
        if self.refunds:
            return "refunded" if sum(self.refunds) == self.amount_paid else "partially_refunded"
        if not self.amount_paid:
            return "unpaid"
        if self.balance > 0:
            return "partially_paid"
        return "overpaid" if self.amount_paid > self.total else "paid"

    def basket(self) -> Counter[str]:
        units: Counter[str] = Counter()
        for line in self.lines:
            units[line.sku] += line.quantity
        return units

    def reserved(self) -> Counter[str]:
        units: Counter[str] = Counter()
        if self.status in HOLDING:
            for line in self.lines:
                units[line.sku] += line.quantity - line.sent if line.sku in TRACKED else 0
        return units


@dataclass
class Result:
    """What a call must answer: a code, or the order that it placed, replayed or names as existing."""

    code: str = "done"
    order: int | None = None


class Refused(Exception):
    """The code that the service must answer instead."""


@dataclass
class Model:
    """What the service must do, in as few words as possible."""

    on_hand: Counter[str] = field(default_factory=lambda: Counter({"A": 9, "B": 4, "FREE": 0}))
    orders: list[Placed] = field(default_factory=list[Placed])
    keys: dict[int, tuple[New, Result]] = field(default_factory=dict[int, tuple[New, Result]])
    customers: set[int] = field(default_factory=set[int])

    def reserved(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for order in self.orders:
            total.update(order.reserved())
        return total

    def check(self) -> None:
        reserved = self.reserved()
        if any(self.on_hand[sku] < reserved[sku] for sku in TRACKED):
            raise Refused("insufficient_stock")

    def group(self, news: Sequence[New]) -> list[Result]:
        """The results of a group: calls that depend on an earlier one of the group follow in another transaction."""
        results: dict[int, Result] = {}
        while len(results) < len(news):
            claimed: set[int] = set()
            created: set[int] = set()
            known = set(self.customers)
            for index, new in enumerate(news):
                if index in results:
                    continue
                if new.key is not None and new.key in self.keys and new.key not in claimed:
                    first, result = self.keys[new.key]
                    results[index] = result if first == new else Result("idempotency_key_reused")
                    continue
                if new.key is not None and new.key in claimed:
                    continue
                if new.key is not None:
                    claimed.add(new.key)
                if new.inline and new.buyer is not None and new.buyer not in known:
                    if new.buyer in created:
                        continue
                    if not new.dry_run:
                        created.add(new.buyer)
                results[index] = self.place(new)
        return [results[index] for index in range(len(news))]

    def place(self, new: New) -> Result:
        order = Placed(
            new.status, new.paid, [Line(*line) for line in new.lines], new.buyer, external_id=new.external_id
        )
        order.customer = new.inline and new.buyer is not None
        for index, other in enumerate(self.orders):
            if new.external_id is not None and other.external_id == new.external_id:
                return Result("external_id_taken", index)
        suspects = self.alike(order)
        self.orders.append(order)
        try:
            self.check()
        except Refused as refused:
            self.orders.pop()
            return Result(str(refused))
        if suspects and new.rejects:
            self.orders.pop()
            return Result("duplicate_order_suspected", max(suspects))
        if new.dry_run:
            self.orders.pop()
            result = Result()
        else:
            self.suspect(len(self.orders) - 1, suspects)
            if order.customer and new.buyer is not None:
                self.customers.add(new.buyer)
            result = Result(order=len(self.orders) - 1)
        if new.key is not None:
            self.keys[new.key] = (new, result)
        return result

    def alike(self, order: Placed) -> set[int]:
        """Orders of the same buyer with the same basket."""
        return {
            index
            for index, other in enumerate(self.orders)
            if order.buyer is not None
            and (other.buyer, other.basket()) == (order.buyer, order.basket())
            and other.status != "cancelled"
        }

    def suspect(self, number: int, suspects: set[int]) -> None:
        self.orders[number].suspects = set(suspects)
        for other in suspects:
            self.orders[other].suspects.add(number)
            self.orders[other].version += 1

    def move(self, number: int, status: str, restock: bool) -> None:
        self.advance(number, status, None, restock=restock)

    def part(self, number: int, status: str, index: int, units: int) -> None:
        order = self.orders[number]
        self.advance(number, status, (order.lines[index % len(order.lines)], units), restock=True)

    def advance(self, number: int, status: str, part: tuple[Line, int] | None, *, restock: bool) -> None:
        order = self.orders[number]
        if status == order.status:
            return
        allowed = status in WAYS[order.status].split()
        # What was shipped can come back in any status.
        if not allowed and not (status == "returned" and part and any(line.sent for line in order.lines)):
            raise Refused("illegal_transition")
        if status == "completed" and order.balance > 0:
            raise Refused("order_not_paid")
        order.version += 1
        if status in ("shipped", "completed"):
            sent = [part] if part else [(each, each.quantity - each.sent) for each in order.lines]
            for line, units in sent:
                if units > line.quantity - line.sent:
                    raise Refused("validation_failed")
                line.sent += units
                self.on_hand[line.sku] -= units if line.sku in TRACKED else 0
            if any(units for _, units in sent):
                order.parcels.append(Parcel(tuple((line.key, units) for line, units in sent if units)))
            if any(line.sent < line.quantity for line in order.lines):
                return
        if status == "returned":
            self.take_back(
                order, [part] if part else [(each, each.sent - each.back) for each in order.lines], restock=restock
            )
            return
        order.status = status
        if status in ("delivered", "completed"):
            order.parcels = [replace(parcel, arrived=True) for parcel in order.parcels]
        self.arrive(order)
        if status == "cancelled":
            for other in order.suspects:
                self.orders[other].suspects.discard(number)
                self.orders[other].version += 1
            order.suspects = set()
        self.check()

    def take_back(self, order: Placed, units_of: Sequence[tuple[Line, int]], *, restock: bool) -> None:
        for line, units in units_of:
            if units > line.sent - line.back:
                raise Refused("validation_failed")
            line.back += units
            self.on_hand[line.sku] += units if restock and line.sku in TRACKED else 0
        if "returned" in WAYS[order.status] and all(line.back == line.sent for line in order.lines):
            order.status = "returned"

    def arrive(self, order: Placed) -> None:
        if order.status == "shipped" and all(parcel.arrived for parcel in order.parcels):
            order.status = "delivered"

    def deliver(self, number: int, parcel_id: int) -> None:
        order = self.orders[number]
        if parcel_id > len(order.parcels):
            raise Refused("validation_failed")
        if not order.parcels[parcel_id - 1].arrived:
            order.parcels[parcel_id - 1] = replace(order.parcels[parcel_id - 1], arrived=True)
            order.version += 1
            self.arrive(order)

    def refund(self, number: int, index: int, units: int, restock: bool, shipping: int, amount: int | None) -> None:
        order = self.orders[number]
        lines = [*order.lines, *sorted(order.removed, key=lambda each: each.key)]
        line = lines[index % len(lines)]
        if units > line.quantity + line.gone - line.refunded or (restock and units > line.sent - line.back):
            raise Refused("validation_failed")
        whole = line.share(units) + shipping if amount is None else amount
        if shipping > whole:
            raise Refused("validation_failed")
        if whole > order.amount_paid - sum(order.refunds):
            raise Refused("refund_exceeds_payment")
        order.records.append(("refund", whole))
        line.refunded += units
        order.version += 1
        if restock:
            self.take_back(order, [(line, units)], restock=True)

    def repay(self, number: int, amount: int | None) -> None:
        """Refund all, or up to an amount, by the payment status."""
        order, before = self.orders[number], sum(self.orders[number].refunds)
        if order.payment_status == "unpaid" or (order.payment_status, amount is None) == ("refunded", False):
            raise Refused("illegal_transition")
        if amount is not None and not max(before, 1) <= amount < order.amount_paid:
            raise Refused("validation_failed")
        further = (order.amount_paid if amount is None else amount) - before
        if further:
            order.records.append(("refund", further))
            order.version += 1

    def pay(self, number: int) -> None:
        """Pay what is due."""
        order = self.orders[number]
        if order.payment_status == "paid":
            return
        if order.balance <= 0:
            raise Refused("illegal_transition")
        self.deposit(number, order.balance)

    def deposit(self, number: int, amount: int) -> None:
        self.orders[number].records.append(("payment", amount))
        self.orders[number].version += 1

    def edit(self, number: int, index: int, units: int) -> None:
        order = self.orders[number]
        line = order.lines[index % len(order.lines)]
        if units < line.sent or (units == 0 and len(order.lines) == 1):
            raise Refused("validation_failed")
        if units == line.quantity:
            return
        if order.status not in EDITABLE:
            raise Refused("order_not_editable")
        before = line.total
        if units < line.quantity and order.amount_paid:
            line.gone += line.quantity - units
            line.worth += before - (PRICE * units + line.tax if units else 0)
        elif units > line.quantity:
            line.restore(units - line.quantity)
        line.quantity = units
        if not units:
            order.lines.remove(line)
            order.removed += [line] if line.gone else []
        order.version += 1
        self.check()

    def add(self, number: int, sku: str, units: int, merge: bool) -> None:
        order = self.orders[number]
        if order.status not in EDITABLE:
            raise Refused("order_not_editable")
        twin = next((line for line in order.lines if merge and line.sku == sku and not line.sent), None)
        if twin is None:
            order.lines.append(Line(sku, units, tax=0))
        else:
            twin.quantity += units
            twin.restore(units)
        order.version += 1
        self.check()

    def copy(self, number: int, status: str) -> None:
        original = self.orders[number]
        lines = [Line(line.sku, line.quantity, tax=line.tax) for line in original.lines]
        self.orders.append(Placed(status, paid=False, lines=lines, buyer=original.buyer, customer=original.customer))
        self.check()

    def adjust(self, sku: str, units: int) -> None:
        if units == 0:
            return
        self.on_hand[sku] += units
        if units < 0:
            self.check()


# --- the service ---------------------------------------------------------------------------------------------------


@dataclass
class Service:
    """Two workers on one database, and a store in each currency. The first worker's groups are deterministic."""

    shops: dict[str, Shop]
    submissions: Submissions
    other_workers: dict[str, httpx.AsyncClient]


@dataclass
class Desk:
    """A story's calls, with SKUs, buyers, external ids and keys of its own, so that stories share only a store."""

    service: Service
    currency: str
    story: int
    ids: list[int] = field(default_factory=list[int])

    @property
    def shop(self) -> Shop:
        return self.service.shops[self.currency]

    def amount(self, minor: int) -> str:
        return money.to_text(minor, money.digits(self.currency))

    def sku(self, name: str) -> str:
        return f"{name}-{self.story}"

    async def stock_up(self) -> None:
        names = [self.sku(sku) for sku in SKUS]
        stock = Model().on_hand
        variants = [
            {
                "sku": self.sku(sku),
                "option_values": {"Kind": self.sku(sku)},
                "track_inventory": sku in TRACKED,
                "stock": {"on_hand": stock[sku]},
            }
            for sku in SKUS
        ]
        options = [{"name": "Kind", "values": names}]
        await self.shop.add(
            {"name": f"Story {self.story}", "price": self.amount(PRICE), "options": options, "variants": variants}
        )

    def email(self, buyer: int) -> str:
        return f"buyer-{buyer}-{self.story}@example.com"

    async def place(self, new: New, client: httpx.AsyncClient | None = None) -> httpx.Response:
        body: dict[str, Any] = {
            "status": new.status,
            "payment_status": "paid" if new.paid else "unpaid",
            "line_items": [
                {"sku": self.sku(sku), "quantity": units, "tax_total": self.amount(TAX)} for sku, units in new.lines
            ],
            "reject_suspected_duplicates": new.rejects,
        }
        if new.buyer is not None:
            body["customer" if new.inline else "contact"] = {"email": self.email(new.buyer)}
        if new.external_id is not None:
            body["external_id"] = f"web-{new.external_id}-{self.story}"
        headers = {"idempotency-key": f"{new.key}-{self.story}"} if new.key is not None else {}
        params = {"dry_run": "true"} if new.dry_run else {}
        return await (client or self.shop.client).post("/orders", json=body, headers=headers, params=params)

    async def change(self, kind: str, *given: Any) -> httpx.Response:
        """Carry out a step that is not a group."""
        client = self.shop.client
        if kind == "adjust":
            item = {"sku": self.sku(given[0]), "op": "adjust", "quantity": given[1]}
            return await client.post("/products/inventory/adjustments", json={"items": [item]})
        path, number = f"/orders/{self.ids[given[0]]}", given[0]
        if kind == "copy":
            return await client.post(f"{path}/duplicates", json={"status": given[1]})
        if kind == "add":
            item = {"sku": self.sku(given[1]), "quantity": given[2], "merge": given[3]}
            return await client.post(f"{path}/products", json={"line_items": [item]})
        if kind == "edit":
            line = await self.line(number, given[1])
            return await client.patch(f"{path}/products/{line}", json={"quantity": given[2]})
        if kind == "move":
            body: dict[str, Any] = {"status": given[1], "restock": given[2]}
        elif kind == "part":
            body = {"status": given[1], "line_items": [{"id": await self.line(number, given[2]), "quantity": given[3]}]}
        elif kind == "deliver":
            body = {"status": "delivered", "fulfillment_id": given[1]}
        elif kind == "refund":
            body = {"refund": await self.refund(number, *given[1:])}
        elif kind == "deposit":
            body = {"payment": {"amount": self.amount(given[1])}}
        elif kind == "repay" and given[1] is not None:
            body = {"payment_status": "partially_refunded", "amount_refunded": self.amount(given[1])}
        else:
            body = {"payment_status": "refunded" if kind == "repay" else "paid"}
        return await client.put(f"{path}/status", json=body)

    async def refund(
        self, number: int, index: int, units: int, restock: bool, shipping: int, amount: int | None
    ) -> dict[str, Any]:
        order = (await self.shop.client.get(f"/orders/{self.ids[number]}")).json()["data"]
        ids = [line["id"] for line in order["line_items"]]
        ids += sorted({each["line_item_id"] for each in order["removed_line_items"]} - set(ids))
        line = {"line_item_id": ids[index % len(ids)], "quantity": units, "restock": restock}
        amounts = {"shipping_amount": shipping or None, "amount": amount}
        sent = {name: self.amount(minor) for name, minor in amounts.items() if minor is not None}
        return {"line_items": [line], **sent}

    async def line(self, number: int, index: int) -> int:
        lines = (await self.shop.client.get(f"/orders/{self.ids[number]}")).json()["data"]["line_items"]
        return lines[index % len(lines)]["id"]


def code(answer: httpx.Response) -> str:
    return "done" if answer.is_success else answer.json()["code"]


async def run_group(desk: Desk, model: Model, news: Sequence[New]) -> None:
    before = len(model.orders)
    expected = model.group(news)
    answers = await desk.service.submissions.group([desk.place(new) for new in news])
    assert [code(answer) for answer in answers] == [result.code for result in expected]
    placed = {
        result.order: answer.json()["data"]["id"]
        for result, answer in zip(expected, answers, strict=True)
        if result.code == "done" and result.order is not None
    }
    desk.ids += [placed[number] for number in range(before, len(model.orders))]
    for new, result, answer in zip(news, expected, answers, strict=True):
        if result.order is not None:
            body = answer.json()
            assert desk.ids[result.order] == (body["data"]["id"] if result.code == "done" else body["existing_id"])
        if result.code == "done":
            assert answer.status_code == (200 if new.dry_run else 201)
    replays = sum("idempotent-replayed" in answer.headers for answer in answers)
    fresh = sum(not new.dry_run for new, result in zip(news, expected, strict=True) if result.code == "done")
    assert fresh - replays <= len(model.orders) - before <= fresh


async def run_race(desk: Desk, model: Model, news: Sequence[New]) -> None:
    """Orders at two workers at once: whichever wins, no unit is sold twice and refusals leave nothing."""
    bought = [New(new.status, new.paid, new.lines) for new in news]
    clients = [desk.shop.client, desk.service.other_workers[desk.currency]]
    calls: list[Coroutine[Any, Any, httpx.Response]] = [
        desk.place(new, clients[index % 2]) for index, new in enumerate(bought)
    ]
    answers = await asyncio.gather(*calls)
    won = [(answer.json()["data"]["id"], new) for answer, new in zip(answers, bought, strict=True) if answer.is_success]
    assert {code(answer) for answer in answers} <= {"done", "insufficient_stock"}
    for order_id, new in sorted(won, key=lambda pair: pair[0]):
        model.orders.append(Placed(new.status, new.paid, [Line(*line) for line in new.lines]))
        desk.ids.append(order_id)
    model.check()
    for answer, new in zip(answers, bought, strict=True):
        if not answer.is_success:  # it did not fit, at least not together with those that won
            trial = copied(model)
            trial.orders.append(Placed(new.status, new.paid, [Line(*line) for line in new.lines]))
            with pytest.raises(Refused):
                trial.check()


async def run_change(desk: Desk, model: Model, kind: str, given: Sequence[Any]) -> Model:
    trial = copied(model)
    try:
        getattr(trial, kind)(*given)
        expected = "done"
    except Refused as refused:
        trial, expected = model, str(refused)
    answer = await desk.change(kind, *given)
    assert code(answer) == expected, (kind, given, answer.text)
    if kind == "copy" and expected == "done":
        desk.ids.append(answer.json()["data"]["id"])
    return trial


def copied(model: Model) -> Model:
    orders = [
        replace(
            o,
            lines=[replace(x) for x in o.lines],
            removed=[replace(x) for x in o.removed],
            records=list(o.records),
            parcels=list(o.parcels),
            suspects=set(o.suspects),
        )
        for o in model.orders
    ]
    return Model(Counter(model.on_hand), orders, dict(model.keys), set(model.customers))


# --- the books -----------------------------------------------------------------------------------------------------

BOOKS = """
    SELECT v.sku, v.on_hand, v.reserved,
           (SELECT coalesce(sum(delta_on_hand), 0)::bigint FROM stock_movements WHERE store_id = $1 AND variant_id = v.id),
           (SELECT coalesce(sum(delta_reserved), 0)::bigint FROM stock_movements WHERE store_id = $1 AND variant_id = v.id)
      FROM variants v WHERE v.store_id = $1 AND v.sku = ANY($2::text[])"""
ORDERS = """
    SELECT o.id, o.status, o.version, o.suspected_duplicates, o.number, o.lines,
           convert_to(order_document(o.id, o.head, o.lines, o.person, o.tail), 'UTF8'),
           (SELECT array_agg(ARRAY[quantity, fulfilled_quantity, returned_quantity] ORDER BY id)
              FROM order_lines WHERE store_id = $1 AND order_id = o.id),
           (SELECT array_agg(DISTINCT resource_version ORDER BY resource_version) FROM events
             WHERE store_id = $1 AND resource_type = 'order' AND resource_id = o.id),
           (SELECT data FROM events WHERE store_id = $1 AND resource_type = 'order' AND resource_id = o.id
             ORDER BY position DESC LIMIT 1)
      FROM unnest($2::bigint[]) WITH ORDINALITY AS t (id, n) JOIN orders o ON o.store_id = $1 AND o.id = t.id ORDER BY t.n"""
CUSTOMERS = """
    SELECT email, orders_count, rfc3339(last_order_at), total_spent FROM customers WHERE store_id = $1 AND email = ANY($2::text[])"""


async def assert_stock(desk: Desk, model: Model) -> None:
    """Levels and ledger agree with the model."""
    reserved = model.reserved()
    skus = {desk.sku(sku): sku for sku in SKUS}
    for name, on_hand, held, moved, promised in await desk.shop.db.fetch(BOOKS, desk.shop.store_id, list(skus)):
        sku = skus[name]
        assert (on_hand, held) == (model.on_hand[sku], reserved[sku])
        assert (moved, promised) == (on_hand, held)


def assert_money(desk: Desk, order: Placed, shown: dict[str, Any]) -> None:
    """All figures follow from the records; the lines of a refund add up to it, and no refund exceeds the payment."""
    refunded = sum(order.refunds)
    assert [refund["amount"] for refund in shown["refunds"]] == [desk.amount(each) for each in order.refunds]
    assert (shown["total"], shown["amount_paid"]) == (desk.amount(order.total), desk.amount(order.amount_paid))
    assert (shown["amount_refunded"], shown["payment_status"]) == (desk.amount(refunded), order.payment_status)
    assert (shown["balance"], shown["amount_due"]) == (desk.amount(order.balance), desk.amount(max(0, order.balance)))
    assert refunded <= order.amount_paid
    gone = [(each["quantity"], each["amount"]) for each in shown["removed_line_items"]]
    lines = [line for line in (*order.lines, *order.removed) if line.gone]
    assert sorted(gone) == sorted((line.gone, desk.amount(line.worth)) for line in lines)
    records = [(each["id"], each["kind"], each["amount"]) for each in shown["payments"]]
    assert records == [(n, kind, desk.amount(amount)) for n, (kind, amount) in enumerate(order.records, 1)]
    for refund in shown["refunds"]:
        parts = [refund["shipping_amount"], *(line["amount"] for line in refund["line_items"])]
        assert not refund["line_items"] or sum(map(Decimal, parts)) == Decimal(refund["amount"])


def assert_fulfillments(order: Placed, shown: dict[str, Any]) -> None:
    """Fulfillments are those of the model, and add up to the shipped units of each line."""
    ids = {line.key: each["id"] for line, each in zip(order.lines, shown["line_items"], strict=True)}
    assert [
        ([(line["line_item_id"], line["quantity"]) for line in each["line_items"]], each["status"])
        for each in shown["fulfillments"]
    ] == [
        ([(ids[key], units) for key, units in parcel.units], "delivered" if parcel.arrived else "shipped")
        for parcel in order.parcels
    ]
    shipped: Counter[int] = Counter()
    for each in shown["fulfillments"]:
        shipped.update({line["line_item_id"]: line["quantity"] for line in each["line_items"]})
    assert all(line["fulfilled_quantity"] == shipped[line["id"]] for line in shown["line_items"])
    assert [each["id"] for each in shown["fulfillments"]] == list(range(1, len(order.parcels) + 1))


async def assert_orders(desk: Desk, model: Model) -> None:
    """Documents, lines, versions, events, suspected duplicates and customers agree with the model."""
    rows = await desk.shop.db.fetch(ORDERS, desk.shop.store_id, desk.ids)
    assert len({row[4] for row in rows}) == len(rows) == len(model.orders)  # numbers are unique
    placed_at: list[str] = []
    for row, order in zip(rows, model.orders, strict=True):
        _, status, version, suspects, _, _, document, stored, versions, last_event = row
        expected = [[line.quantity, line.sent, line.back] for line in order.lines]
        shown = msgspec.json.decode(document)
        assert (
            [[line["quantity"], line["fulfilled_quantity"], line["returned_quantity"]] for line in shown["line_items"]]
            == stored
            == expected
        )
        assert (status, version, suspects) == (order.status, order.version, len(order.suspects))
        assert versions == list(range(1, version + 1))  # every version has its event, and the last one shows the order
        assert msgspec.json.decode(last_event) == shown
        assert_money(desk, order, shown)
        assert_fulfillments(order, shown)
        assert all(back <= sent <= quantity for quantity, sent, back in stored)
        placed_at.append(shown["placed_at"])
    emails = {desk.email(buyer): buyer for buyer in (0, 1)}
    customers = await desk.shop.db.fetch(CUSTOMERS, desk.shop.store_id, list(emails))
    assert {emails[email] for email, *_ in customers} == model.customers
    for email, orders_count, last_order_at, total_spent in customers:
        counted = [
            (at, order.amount_paid - sum(order.refunds))
            for order, at in zip(model.orders, placed_at, strict=True)
            if order.customer and order.buyer == emails[email] and order.status not in ("draft", "cancelled")
        ]
        assert (orders_count, last_order_at) == (len(counted), max((at for at, _ in counted), default=None))
        assert total_spent == sum(spent for _, spent in counted)


@pytest.fixture(scope="module")
async def service(settings: Settings, db: Database) -> AsyncIterator[Service]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        submissions = Submissions(monkeypatch)
        workers = [Application(settings) for _ in range(2)]
        shops = {currency: await open_shop(workers[0], db, currency=currency) for currency in CURRENCIES}
        clients = {currency: api_client(workers[1], shop.store.handle, shop.token) for currency, shop in shops.items()}
        yield Service(shops, submissions, clients)
        for client in [*clients.values(), *(shop.client for shop in shops.values())]:
            await client.aclose()
        for worker in workers:
            await worker.close()


_stories = iter(range(1, 10**9))
MANY = 5 * hypothesis.settings.default.max_examples  # pyright: ignore[reportOptionalMemberAccess]


async def run_story(service: Service, currency: str, steps: Sequence[Step]) -> None:
    desk = Desk(service, currency, next(_stories))
    await desk.stock_up()
    model = Model()
    for kind, *given_values in steps:
        if kind == "group":
            await run_group(desk, model, *given_values)
        elif kind == "race":
            await run_race(desk, model, *given_values)
        elif kind == "adjust" or model.orders:
            if kind != "adjust":
                given_values[0] %= len(model.orders)
            model = await run_change(desk, model, kind, given_values)
        await assert_stock(desk, model)
        await assert_orders(desk, model)


@pytest.mark.timeout(1_800)
@example_settings(max_examples=MANY)
@given(currency=st.sampled_from(CURRENCIES), steps=STEPS)
async def test_orders_and_stock_agree_with_their_model(
    service: Service, currency: str, steps: tuple[Step, list[Step]]
) -> None:
    await run_story(service, currency, [steps[0], *steps[1]])


@pytest.mark.timeout(1_800)
@example_settings(max_examples=MANY // 5)
@given(currency=st.sampled_from(CURRENCIES), sold=SOLD, steps=AFTER)
async def test_shipments_returns_and_refunds_agree_with_their_model(
    service: Service, currency: str, sold: New, steps: tuple[Step, list[Step]]
) -> None:
    await run_story(service, currency, [("group", [sold]), steps[0], *steps[1]])
