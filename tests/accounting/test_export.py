"""An accounting export reproduces every total of 500 random orders, to the smallest unit of three currencies."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.orders.expiry import expire_orders
from tests.accounting.export import ZERO, Books, Stock, export, posting_of
from tests.support.locations import levels, open_locations, spread
from tests.support.shops import Shop, open_shop

ORDERS = {"USD": 200, "JPY": 150, "KWD": 150}
DIGITS = {"USD": 2, "JPY": 0, "KWD": 3}
CUSTOMERS = 12
SKUS = {"BOOK": "35", "PEN": "4"}
OPENING, ANNEX = 100_000, 40_000  # units of each SKU, and those of them at the second location

Body = dict[str, Any]


class Till:
    """Places random orders and keeps its own account of what they must come to."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random = shop, random.Random(seed)
        self.unit = Decimal(1).scaleb(-DIGITS[shop.store.currency])
        self.customers: list[int] = []
        self.expected: dict[int, tuple[Decimal, Decimal]] = {}  # total and refunds, by order number
        self.moved: list[int] = []  # the numbers of historical orders
        self.restocked: Counter[str] = Counter()  # the units that came back, by SKU
        self.expiring: list[int] = []  # the ids of orders whose holds end

    def amount(self, most: Decimal) -> Decimal:
        return (Decimal(self.random.randint(0, 1_000)) / 1_000 * most).quantize(self.unit)

    async def open(self) -> None:
        for n in range(CUSTOMERS):
            answer = await self.shop.client.post("/customers", json={"email": f"buyer-{n}@example.com"})
            self.customers.append(answer.json()["data"]["id"])
        for sku, price in SKUS.items():
            body = {"name": sku, "price": price, "sku": sku, "stock": {"on_hand": OPENING}, "status": "active"}
            assert (await self.shop.client.post("/products", json=body)).status_code == 201
        await open_locations(self.shop, annex=20)
        for sku in SKUS:
            await spread(self.shop, sku, annex=ANNEX)

    def amounts(self, base: Decimal) -> tuple[Body, Decimal, Decimal]:
        """Discounts and taxes in a random form, and their sums."""
        body: Body = {}
        discount = tax = ZERO
        form = self.random.choice(("none", "sum", "single"))
        if form == "sum":
            discount, tax = self.amount(base / 4), self.amount(base / 5)
            body = {"discount_total": str(discount), "tax_total": str(tax)}
        elif form == "single":
            fixed, percent = self.amount(base / 5), Decimal(self.random.randint(0, 3_000)) / 100
            share = (base * percent / 100).quantize(self.unit, ROUND_HALF_UP)
            taxes = [self.amount(base / 8), self.amount(base / 8)]
            discount, tax = fixed + share, sum(taxes, ZERO)
            body["discounts"] = [
                {"kind": "fixed", "value": str(fixed), "code": "WELCOME"},
                {"kind": "percentage", "value": str(percent), "title": "Season"},
            ]
            body["tax_lines"] = [{"title": f"Tax {n}", "amount": str(each)} for n, each in enumerate(taxes)]
        return body, discount, tax

    def line(self) -> tuple[Body, Decimal, Decimal, Decimal]:
        quantity = self.random.randint(1, 6)
        price = self.amount(Decimal(80)) + self.unit
        body: Body = {"quantity": quantity, "unit_price": str(price)}
        if self.random.random() < 0.3:
            body |= {"name": "Engraving", "taxable": False}
        else:
            body |= {"sku": self.random.choice(tuple(SKUS)), "location": self.random.choice((None, "annex", "default"))}
        amounts, discount, tax = self.amounts(price * quantity)
        return body | amounts, price * quantity, discount, tax

    async def place(self) -> None:
        """Place one order, and then pay, ship, return, refund, change or cancel it at random."""
        chance = self.random.random
        lines = [self.line() for _ in range(self.random.randint(1, 4))]
        items = sum((cost for _, cost, _, _ in lines), ZERO)
        discount = sum((each for _, _, each, _ in lines), ZERO)
        tax = sum((each for _, _, _, each in lines), ZERO)
        own, own_discount, own_tax = self.amounts(items - discount)
        shipping, included = self.amount(Decimal(12)) + own_tax, chance() < 0.5
        body = own | {
            "line_items": [line[0] for line in lines],
            "shipping_total": str(shipping),
            "prices_include_tax": included,
            "status": "processing",
            "payment_status": "paid" if chance() < 0.7 else "unpaid",
            "customer_id": self.random.choice(self.customers),
        }
        answer = await self.shop.client.post("/orders", json=body)
        assert answer.status_code == 201, answer.text
        order: Body = answer.json()["data"]
        total = items - discount - own_discount + shipping + (ZERO if included else tax + own_tax)
        if chance() < 0.15:
            order = await self.relocate(order)
        order = await self.pay_in_parts(order)
        if chance() < 0.1:
            total, refunded = await self.grow(order, total)
            self.expected[order["number"]] = total, refunded
            return
        if chance() < 0.2 and (edited := await self.edit(order)) is not None:
            self.expected[order["number"]] = total - edited[0], edited[1]
            return
        refunded = await self.continue_story(order)
        if chance() < 0.15:
            more = self.amount(Decimal(5))
            changed = await self.shop.client.patch(
                f"/orders/{order['id']}", json={"shipping_total": str(shipping + more)}
            )
            total += more if changed.status_code == 200 else ZERO  # a shipped order keeps its amounts
        if chance() < 0.3:
            await self.complete(order)
        if chance() < 0.1:
            await self.shop.client.put(f"/orders/{order['id']}/status", json={"status": "cancelled"})
        self.expected[order["number"]] = total, refunded

    async def edit(self, order: Body) -> tuple[Decimal, Decimal] | None:
        """Remove a unit of a line item without discounts and taxes after it was paid, and refund it; returns both amounts."""
        plain = [
            line
            for line in order["line_items"]
            if Decimal(line["total"]) == Decimal(line["unit_price"]) * line["quantity"]
        ]
        plain = [line for line in plain if line["quantity"] > 1]
        if not plain:
            return None
        line = self.random.choice(plain)
        removed = await self.shop.client.patch(
            f"/orders/{order['id']}/products/{line['id']}", json={"quantity": line["quantity"] - 1}
        )
        if removed.status_code == 422:
            return None  # the discount of the order would exceed its cost
        assert removed.status_code == 200, removed.text
        price = Decimal(line["unit_price"])
        if Decimal(order["amount_paid"]) < price:
            return price, ZERO
        await self.put(order, {"refund": {"line_items": [{"line_item_id": line["id"], "quantity": 1}]}})
        return price, price

    async def relocate(self, order: Body) -> Body:
        """Move the reservation of a line item to another location."""
        lines = [line for line in order["line_items"] if line["sku"]]
        if not lines:
            return order
        line = self.random.choice(lines)
        address = f"/orders/{order['id']}/products/{line['id']}"
        moved = await self.shop.client.patch(address, json={"location": self.random.choice(("annex", "default"))})
        assert moved.status_code == 200, moved.text
        return moved.json()["data"]

    async def grow(self, order: Body, total: Decimal) -> tuple[Decimal, Decimal]:
        """Refund a part of an order, add a line item, and take the payment that is then due; returns the total and the refunds."""
        refunded = ZERO
        if paid := Decimal(order["amount_paid"]):
            refunded = self.amount(paid / 2) + self.unit
            await self.put(order, {"refund": {"amount": str(refunded)}})
        price = self.amount(Decimal(80)) + self.unit
        line: Body = {"sku": "PEN", "quantity": 2, "unit_price": str(price)}
        added = await self.shop.client.post(f"/orders/{order['id']}/products", json={"line_items": [line]})
        assert added.status_code == 201, added.text
        grown = (await self.shop.client.get(f"/orders/{order['id']}")).json()["data"]
        if Decimal(grown["amount_due"]):
            await self.put(order, {"payment": {"amount": grown["amount_due"]}})
            grown = (await self.shop.client.get(f"/orders/{order['id']}")).json()["data"]
            assert Decimal(grown["balance"]) == ZERO
        return total + price * 2, refunded

    async def give_back(self, order: Body, line: Body, units: int) -> Decimal:
        """Take units back: into the stock that they came from, at another location, or not at all, by a return or a refund, whose
        amount is returned."""
        part: Body = {"id": line["id"], "quantity": units}
        price = self.share(Decimal(line["total"]), line["quantity"], units)
        way = self.random.choice(("lost", "returned", "elsewhere", "refund"))
        if way == "refund" and ZERO < price <= Decimal(order["amount_paid"]):
            refund = {"line_item_id": line["id"], "quantity": units, "restock": True, "location": "annex"}
            done = await self.put(order, {"refund": {"line_items": [refund]}})
        else:
            price = ZERO
            part |= {"location": "annex"} if way == "elsewhere" else {}
            restock = {"restock": False} if way == "lost" else {}
            done = await self.put(order, {"status": "returned", "line_items": [part], **restock})
        if done and way != "lost" and line["sku"]:
            self.restocked[line["sku"]] += units
        return price

    async def hold(self) -> None:
        """Place a pending order that waits for its payment, which some get in part, and some never."""
        body = {"line_items": [{"sku": "PEN", "quantity": 2, "unit_price": "3"}], "hold_for": 3600}
        answer = await self.shop.client.post("/orders", json=body)
        assert answer.status_code == 201, answer.text
        order = answer.json()["data"]
        assert order["expires_at"] is not None
        if self.random.random() < 0.5:
            await self.put(order, {"payment": {"amount": "1"}})
        else:
            self.expiring.append(order["id"])
        self.expected[order["number"]] = Decimal(6), ZERO

    async def end_holds(self, db: Database) -> None:
        """Let the holds of the orders that were never paid end, which cancels them and releases their units."""
        await db.execute(
            """UPDATE orders SET expires_at = now() - interval '1 second',
                      head = regexp_replace(head, '"expires_at":"[^"]*"', '"expires_at":"' || rfc3339(now() - interval '1 second') || '"')
                WHERE store_id = $1 AND id = ANY ($2::bigint[])""",
            self.shop.store_id,
            self.expiring,
        )
        while await expire_orders(db):
            pass
        statuses = {
            (await self.shop.client.get(f"/orders/{each}")).json()["data"]["status"] for each in self.expiring[:3]
        }
        assert statuses == {"cancelled"}

    async def move(self) -> None:
        """Store an order of another shop, which was paid, shipped, and perhaps refunded, without any effect on stock."""
        price, quantity = self.amount(Decimal(80)) + self.unit, self.random.randint(1, 5)
        total, refunded = price * quantity, price if self.random.random() < 0.5 else ZERO
        number = 100 + len(self.moved)
        paid, shipped = "2024-02-03T10:00:00Z", "2024-02-04T10:00:00Z"
        order: Body = {
            "historical": True, "number": number, "status": "completed", "placed_at": paid, "completed_at": shipped,
            "line_items": [{"sku": "BOOK", "quantity": quantity, "unit_price": str(price)}],
            "payments": [{"amount": str(total), "created_at": paid, "external_id": f"ch-{number}"}],
            "fulfillments": [{"line_items": [{"line_item": 0, "quantity": quantity}], "shipped_at": shipped, "location": "annex"}],
            "customer_id": self.random.choice(self.customers),
        }  # fmt: skip
        if refunded:
            line = {"line_item": 0, "quantity": 1, "amount": str(price)}
            order["refunds"] = [{"amount": str(price), "created_at": shipped, "line_items": [line]}]
        answer = await self.shop.client.post("/orders", json=order)
        assert answer.status_code == 201, answer.text
        self.moved.append(number)
        self.expected[number] = total, refunded

    async def pay_in_parts(self, order: Body) -> Body:
        """Pay some of the unpaid orders in parts: a deposit, and perhaps the rest or more."""
        due, chance = Decimal(order["amount_due"]), self.random.random
        if due and chance() < 0.7:
            await self.put(order, {"payment": {"amount": str(self.amount(due / 2) + self.unit), "external_id": "tr-1"}})
            if chance() < 0.6:
                await self.put(order, {"payment_status": "paid"})
            if chance() < 0.3:
                await self.put(order, {"payment": {"amount": str(self.amount(due) + self.unit), "method": "cash"}})
            return (await self.shop.client.get(f"/orders/{order['id']}")).json()["data"]
        return order

    async def continue_story(self, order: Body) -> Decimal:
        """Ship and return units, and refund some; returns the refunds that the guide predicts."""
        chance, lines, refunded = self.random.random, order["line_items"], ZERO
        if chance() < 0.6:
            line = self.random.choice(lines)
            part = [{"id": line["id"], "quantity": self.random.randint(1, line["quantity"])}]
            await self.put(order, {"status": "shipped"} | ({"line_items": part} if chance() < 0.5 else {}))
            if chance() < 0.2:
                await self.void(order)
            elif chance() < 0.4 and (refund := await self.give_back(order, line, part[0]["quantity"])):
                return refund
        if not Decimal(order["amount_paid"]) or chance() < 0.3:
            return refunded
        line = self.random.choice(lines)
        total, quantity, done = Decimal(line["total"]), line["quantity"], 0
        for _ in range(self.random.randint(1, quantity)):
            units = self.random.randint(1, quantity - done)
            wanted = {"line_items": [{"line_item_id": line["id"], "quantity": units}]}
            expected = self.share(total, quantity, done + units) - self.share(total, quantity, done)
            if expected > Decimal(order["amount_paid"]) - refunded or not expected:
                answer = await self.shop.client.put(f"/orders/{order['id']}/status", json={"refund": wanted})
                assert answer.status_code in (409, 422), answer.text
                return refunded
            refunded += expected
            await self.put(order, {"refund": wanted})
            done += units
            if done == quantity:
                break
        left = Decimal(order["amount_paid"]) - refunded
        further = self.amount(left / 2)
        if further and chance() < 0.5:
            refunded += further
            await self.put(order, {"refund": {"amount": str(further), "shipping_amount": str(self.amount(further))}})
        return refunded

    async def void(self, order: Body) -> None:
        """Void the shipment, as if the parcel had not been handed over."""
        answer = await self.shop.client.put(f"/orders/{order['id']}/status", json={"fulfillment_id": 1, "void": True})
        assert answer.status_code == 200, answer.text

    async def complete(self, order: Body) -> None:
        """Complete the order if its status allows it; with money due it is refused."""
        now = (await self.shop.client.get(f"/orders/{order['id']}")).json()["data"]
        if "completed" in now["allowed_transitions"]:
            answer = await self.shop.client.put(f"/orders/{order['id']}/status", json={"status": "completed"})
            assert answer.status_code == (409 if Decimal(now["amount_due"]) else 200), answer.text

    def share(self, total: Decimal, quantity: int, units: int) -> Decimal:
        """The guide: the first units together get their part of the line item's total, rounded down."""
        return (total * units / quantity).quantize(self.unit, ROUND_DOWN)

    async def put(self, order: Body, body: Body) -> bool:
        answer = await self.shop.client.put(f"/orders/{order['id']}/status", json=body)
        if body.get("status") == "returned" and answer.status_code == 422:
            return False  # less was shipped than the part that should come back
        assert answer.status_code == 200, answer.text
        return True

    async def check(self, books: Books) -> None:
        assert books.differences == []
        assert {each.number: (each.totals["total"], each.refunded) for each in books.postings} == self.expected
        by_sku: Counter[str] = Counter()
        for (sku, _), units in books.restocked.items():
            by_sku[sku] += units
        assert by_sku == self.restocked
        assert by_sku.total() > 0
        await self.check_stock(books.stock(without=self.moved))
        assert books.sum_of("total") == sum((total for total, _ in self.expected.values()), ZERO)
        for customer_id in self.customers:
            customer = (await self.shop.client.get(f"/customers/{customer_id}")).json()["data"]
            shown = customer["orders_count"], Decimal(customer["total_spent"])
            assert shown == books.received_from(customer_id)

    async def check_stock(self, stock: Stock) -> None:
        """What the orders say has left each location, and is reserved there, is what the stock levels show."""
        for sku in SKUS:
            for place, (on_hand, reserved) in (await levels(self.shop, sku)).items():
                opening = ANNEX if place == "annex" else OPENING - ANNEX
                assert (opening - on_hand, reserved) == stock.get((sku, place), (0, 0)), f"{sku} at {place}"


@pytest.fixture(params=["USD", *(pytest.param(each, marks=pytest.mark.long) for each in ("JPY", "KWD"))])
async def shop(request: pytest.FixtureRequest, application: Application, db: Database) -> AsyncIterator[Shop]:
    opened = await open_shop(application, db, currency=request.param)
    yield opened
    await opened.client.aclose()


async def test_an_accounting_export_reproduces_every_total(shop: Shop, db: Database) -> None:
    till = Till(shop, seed=20_261_116)
    await till.open()
    for n in range(ORDERS[shop.store.currency]):
        await till.place()
        if n % 5 == 0:
            await till.move()
            await till.hold()
    await till.end_holds(db)
    await till.check(await export(shop.client))


async def test_the_export_notices_a_total_that_is_off_by_one(shop: Shop) -> None:
    till = Till(shop, seed=7)
    await till.open()
    await till.place()
    order = (await shop.client.get("/orders")).json()["data"][0]
    for name in ("total", "subtotal", "balance", "amount_due", "amount_paid", "amount_refunded"):
        changed = order | {name: str(Decimal(order[name]) + till.unit)}
        assert [words.split()[0] for words in posting_of(changed).differences] == [name]
