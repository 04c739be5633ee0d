"""Where the units of line items are: allocated to locations by priority, shipped in order, and released in the reverse order."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from stoa.orders.contract import HOLDING, Status
from stoa.orders.line_items import Allocation, NewLine
from stoa.orders.state import LineState, OrderState
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.problems import Fault


class Level(msgspec.Struct):
    """The available units of a variant at a location."""

    variant_id: int
    location: str
    available: int
    unlimited: bool  # backorders are allowed, or stock is not tracked


class Levels:
    """Levels in the order in which orders reserve them; units that are taken are no longer available."""

    def __init__(self, found: Iterable[Level]) -> None:
        self._available: dict[int, dict[str, int]] = {}
        self._unlimited: set[int] = set()
        for level in found:
            self._available.setdefault(level.variant_id, {})[level.location] = level.available
            if level.unlimited:
                self._unlimited.add(level.variant_id)

    def copy(self) -> "Levels":
        """The same levels, from which others take nothing."""
        copy = Levels(())
        copy._available = {variant_id: dict(free) for variant_id, free in self._available.items()}
        copy._unlimited = self._unlimited
        return copy

    def available(self, variant_id: int | None, location: str | None = None) -> int:
        """The units that can be taken at a location, or at all of them."""
        free = self._available.get(variant_id, {}) if variant_id is not None else {}
        return sum(max(0, units) for code, units in free.items() if location in (None, code))

    def take(self, variant_id: int, units: int, location: str | None = None) -> list[Allocation] | None:
        """Take units at a location, or at several by priority; None if there are too few, and then nothing is taken.

        What no location has of a variant that may run out is reserved at the default location, as a backorder, unless
        another location is the only one that may be used.
        """
        free = self._available.setdefault(variant_id, {})
        taken: dict[str, int] = {}
        left = units
        for code in [location] if location is not None else list(free):
            found = min(left, max(0, free.get(code, 0)))
            if found:
                taken[code] = found
                left -= found
        if left:
            if variant_id not in self._unlimited or location not in (None, DEFAULT_LOCATION):
                return None
            taken[DEFAULT_LOCATION] = taken.get(DEFAULT_LOCATION, 0) + left
        for code, found in taken.items():
            free[code] = free.get(code, 0) - found
        return [Allocation(code, found) for code, found in taken.items()]


def settle(
    order: OrderState, levels: Levels | None = None, active: Collection[str] = (DEFAULT_LOCATION,)
) -> list[LineState]:
    """Make the allocations of all line items agree with the order's status; returns the line items with too little stock.

    Without `levels`, new units are allocated to the default location. A line item that names a location which is not
    `active` is allocated by priority. Further units of a line item that is not tracked are not allocated.
    """
    short: list[LineState] = []
    for line in order.lines:
        wanted, allocated = held_units(line, order.status), line.allocated
        if wanted < allocated:
            line.allocations = between(line.allocations, 0, wanted)
        elif wanted > allocated and line.tracked:
            units = wanted - allocated
            location = line.location if line.location in active else None
            more: list[Allocation] | None = [Allocation(DEFAULT_LOCATION, units)]
            if levels is not None and line.variant_id is not None:
                more = levels.take(line.variant_id, units, location)
            if more is None:
                short.append(line)
            else:
                line.allocations = _joined(line.allocations, more, shipped=line.fulfilled_quantity > 0)
    return short


def held_units(line: LineState, status: Status) -> int:
    """The units of a line item that locations give or hold for it if it is tracked: the shipped and the reserved ones."""
    if line.variant_id is None:
        return 0  # a custom line item has no stock
    return line.quantity if status in HOLDING else line.fulfilled_quantity


def between(allocations: Sequence[Allocation], start: int, stop: int) -> list[Allocation]:
    """The allocations of the units from `start` to `stop`, counted from the first unit.

    The first units of a line item are the shipped ones, and the first of these are the returned ones.
    """
    found: list[Allocation] = []
    position = 0
    for each in allocations:
        first, last = max(start, position), min(stop, position + each.quantity)
        if first < last:
            found.append(Allocation(each.location, last - first))
        position += each.quantity
    return found


def reserved_units(line: LineState, location: str | None = None) -> int:
    """The units of a line item that are allocated and not shipped, at a location or at all of them."""
    open_units = between(line.allocations, line.fulfilled_quantity, line.allocated)
    return sum(each.quantity for each in open_units if location in (None, each.location))


def bring_forward(line: LineState, units: int, location: str) -> None:
    """Make reserved units at a location the next ones to ship."""
    shipped = between(line.allocations, 0, line.fulfilled_quantity)
    chosen, others = list[Allocation](), list[Allocation]()
    for each in between(line.allocations, line.fulfilled_quantity, line.allocated):
        taken = min(units, each.quantity) if each.location == location else 0
        units -= taken
        chosen.append(Allocation(each.location, taken))
        others.append(Allocation(each.location, each.quantity - taken))
    line.allocations = _compact([*shipped, *chosen, *others])


def leave_others(line: LineState, location: str) -> None:
    """Give up the reserved units at other locations; `settle` reserves them at the location that the line item names."""
    shipped = between(line.allocations, 0, line.fulfilled_quantity)
    rest = between(line.allocations, line.fulfilled_quantity, line.allocated)
    line.allocations = [*shipped, *(each for each in rest if each.location == location)]


def take_out(line: LineState, start: int, stop: int) -> list[Allocation]:
    """Remove the allocations of the units from `start` to `stop`."""
    taken = between(line.allocations, start, stop)
    kept = [*between(line.allocations, 0, start), *between(line.allocations, stop, line.allocated)]
    line.allocations = _compact(kept)
    return taken


def put_in(line: LineState, allocations: Sequence[Allocation]) -> None:
    """Add allocations of units that are to be shipped next."""
    shipped = line.fulfilled_quantity
    first, rest = between(line.allocations, 0, shipped), between(line.allocations, shipped, line.allocated)
    line.allocations = _compact([*first, *allocations, *rest])


def restocked(units: Counter[str], named: Iterable[Allocation]) -> Counter[str]:
    """Where returned units go: to the named locations first, the others to where they were shipped from."""
    left, found = Counter(units), Counter[str]()
    for each in named:
        wanted = each.quantity
        for code in units:
            taken = min(wanted, left[code])
            left[code] -= taken
            found[each.location] += taken
            wanted -= taken
    return +(found + left)


def _compact(allocations: Iterable[Allocation]) -> list[Allocation]:
    """Allocations without empty ones, neighbors at one location joined."""
    found: list[Allocation] = []
    for each in allocations:
        if found and found[-1].location == each.location:
            found[-1] = Allocation(each.location, found[-1].quantity + each.quantity)
        elif each.quantity:
            found.append(each)
    return found


def by_location(line: LineState | None, start: int, stop: int) -> Counter[str]:
    """The allocated units from `start` to `stop` of a line item, by location."""
    units: Counter[str] = Counter()
    if line is not None:
        for each in between(line.allocations, start, stop):
            units[each.location] += each.quantity
    return units


def _joined(allocations: Sequence[Allocation], more: Sequence[Allocation], *, shipped: bool) -> list[Allocation]:
    """Allocations with further ones. Once units are shipped, their order says which, so that only the last may grow."""
    joined = list(allocations)
    for each in more:
        index = next((n for n, known in enumerate(joined) if known.location == each.location), None)
        if index is not None and (not shipped or index == len(joined) - 1):
            joined[index] = Allocation(each.location, joined[index].quantity + each.quantity)
        else:
            joined.append(each)
    return joined


# --- faults -----------------------------------------------------------------------------------------------------------


def location_faults(lines: Sequence[NewLine], active: Collection[str], whole: str | None = None) -> list[Fault]:
    """The faults of line items, and of an order as a whole, that name a location which does not exist or is inactive."""
    named = [("/location", whole), *((f"/line_items/{n}/location", line.location) for n, line in enumerate(lines))]
    return [
        *(unknown_location(at) for at, code in named if code is not None and code not in active),
        *(
            Fault(f"/line_items/{n}/location", "invalid_format", "must not be sent for a custom line item")
            for n, line in enumerate(lines)
            if line.name is not None and line.location is not None
        ),
    ]


def unknown_location(at: str) -> Fault:
    return Fault(at, "unknown_location", "no active location of this store has this code")
