"""Allocation of line items to locations, as pure rules."""

from stoa.orders.allocation import Level, Levels, between, settle
from stoa.orders.contract import Status
from stoa.orders.line_items import Allocation
from stoa.orders.rules import stock_effects
from stoa.orders.state import LineState, OrderState


def levels(*, unlimited: bool = False, **available: int) -> Levels:
    return Levels(Level(1, code, units, unlimited and code == "default") for code, units in available.items())


def line(quantity: int, *allocations: tuple[str, int], location: str | None = None, shipped: int = 0) -> LineState:
    return LineState(
        7,
        1,
        1,
        "TEA",
        "Tea",
        "",
        {},
        quantity,
        shipped,
        location=location,
        allocations=[Allocation(*a) for a in allocations],
    )


def order(*lines: LineState, status: Status = "pending") -> OrderState:
    return OrderState(status=status, currency="USD", lines=list(lines))


def pairs(allocations: list[Allocation] | None) -> list[tuple[str, int]] | None:
    return None if allocations is None else [(each.location, each.quantity) for each in allocations]


def effects(before: OrderState | None, after: OrderState) -> list[tuple[str, str, int, int]]:
    return [(each.kind, each.location, each.on_hand, each.reserved) for each in stock_effects(before, after)]


def test_units_are_taken_by_priority_and_split_if_necessary() -> None:
    stock = levels(east=2, default=3, west=5)
    assert pairs(stock.take(1, 4)) == [("east", 2), ("default", 2)]
    assert pairs(stock.take(1, 3)) == [("default", 1), ("west", 2)]
    assert (stock.available(1), stock.available(1, "west"), stock.available(1, "east")) == (3, 3, 0)


def test_nothing_is_taken_if_there_is_too_little() -> None:
    stock = levels(east=2, default=1)
    assert (stock.take(1, 4), stock.take(1, 3, "east"), stock.take(2, 1)) == (None, None, None)
    assert pairs(stock.take(1, 3)) == [("east", 2), ("default", 1)]


def test_a_named_location_is_the_only_one() -> None:
    stock = levels(default=9, east=2)
    assert pairs(stock.take(1, 2, "east")) == [("east", 2)]
    assert stock.take(1, 1, "east") is None


def test_backorders_are_reserved_at_the_default_location() -> None:
    stock = levels(unlimited=True, east=2, default=-4, west=1)
    assert pairs(stock.take(1, 5)) == [("east", 2), ("west", 1), ("default", 2)]
    assert pairs(stock.take(1, 1, "default")) == [("default", 1)]


def test_a_backorder_is_not_reserved_elsewhere_than_at_the_named_location() -> None:
    stock = levels(unlimited=True, default=9, west=1)
    assert stock.take(1, 2, "west") is None
    assert pairs(stock.take(1, 1, "west")) == [("west", 1)]


def test_allocations_follow_the_status() -> None:
    draft = order(line(3), status="draft")
    assert settle(draft, levels(east=9)) == []
    assert draft.lines[0].allocations == []
    draft.status = "pending"
    settle(draft, levels(east=2, default=9))
    assert pairs(draft.lines[0].allocations) == [("east", 2), ("default", 1)]
    draft.status = "cancelled"
    settle(draft)
    assert draft.lines[0].allocations == []


def test_a_cancelled_order_keeps_the_allocations_of_shipped_units() -> None:
    cancelled = order(line(5, ("east", 2), ("default", 3), shipped=3), status="cancelled")
    settle(cancelled)
    assert pairs(cancelled.lines[0].allocations) == [("east", 2), ("default", 1)]


def test_a_smaller_quantity_gives_back_the_last_units() -> None:
    smaller = order(line(2, ("east", 2), ("default", 3)))
    settle(smaller)
    assert pairs(smaller.lines[0].allocations) == [("east", 2)]


def test_further_units_join_the_same_location_unless_units_are_shipped() -> None:
    larger = order(line(6, ("east", 2), ("default", 3)))
    settle(larger, levels(east=1))
    assert pairs(larger.lines[0].allocations) == [("east", 3), ("default", 3)]
    shipped = order(line(6, ("east", 2), ("default", 3), shipped=1))
    settle(shipped, levels(east=1))
    assert pairs(shipped.lines[0].allocations) == [("east", 2), ("default", 3), ("east", 1)]


def test_a_location_that_is_no_longer_active_is_ignored() -> None:
    pinned = order(line(2, location="east"))
    assert settle(pinned, levels(default=9), ["default"]) == []
    assert pairs(pinned.lines[0].allocations) == [("default", 2)]


def test_short_line_items_are_returned() -> None:
    short = order(line(2), line(2))
    assert settle(short, levels(default=3)) == [short.lines[1]]


def test_units_are_counted_from_the_first() -> None:
    allocations = [Allocation("east", 2), Allocation("default", 3)]
    assert pairs(between(allocations, 1, 4)) == [("east", 1), ("default", 2)]
    assert pairs(between(allocations, 2, 2)) == []


def test_stock_effects_are_told_by_location() -> None:
    held = order(line(5, ("east", 2), ("default", 3)), status="processing")
    assert effects(None, held) == [("reserve", "east", 0, 2), ("reserve", "default", 0, 3)]
    part = order(line(5, ("east", 2), ("default", 3), shipped=3), status="processing")
    assert effects(held, part) == [("commit", "east", -2, -2), ("commit", "default", -1, -1)]
    cancelled = order(line(5, ("east", 2), ("default", 1), shipped=3), status="cancelled")
    assert effects(part, cancelled) == [("release", "default", 0, -2)]
    returned = order(line(5, ("east", 2), ("default", 1), shipped=3), status="cancelled")
    returned.lines[0].returned_quantity = 3
    assert effects(cancelled, returned) == [("restock", "east", 2, 0), ("restock", "default", 1, 0)]
    assert effects(held, order(line(6, ("east", 3), ("default", 3)), status="processing")) == [
        ("reserve", "east", 0, 1)
    ]
