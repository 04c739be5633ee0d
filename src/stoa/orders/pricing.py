"""Lines as they are sent become lines of an order: found in the catalogue, priced as of now, every fault named."""

from collections.abc import Sequence

import msgspec

from stoa import money
from stoa.db.query import Executor
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.bodies import NewLine
from stoa.orders.queries import Offer
from stoa.orders.saving import short_fault
from stoa.orders.states import LineState
from stoa.rest.endpoint import Store
from stoa.rest.problems import Fault, counted


class Described(msgspec.Struct):
    """What a line keeps of a variant's document."""

    title: str
    option_values: dict[str, str]


_described = msgspec.json.Decoder(Described)


class Offers:
    """What can be bought now."""

    def __init__(self, found: Sequence[Offer]) -> None:
        self.by_id = {offer.id: offer for offer in found}
        self.by_sku: dict[str | None, Offer] = {offer.sku: offer for offer in found}

    def left(self) -> dict[int, int]:
        """How many units there are of each variant that may run out."""
        return {offer.id: offer.available for offer in self.by_id.values() if not offer.endless}


class Priced(msgspec.Struct):
    """Lines as far as something was found for them."""

    lines: list[LineState]
    pointers: dict[int, str]  # where in the body a line stands, by its place
    faults: list[Fault]


async def offers_of(db: Executor, store: Store, wanted: Sequence[NewLine]) -> Offers:
    """What is on offer of all that lines name."""
    return await offers_for(
        db,
        store,
        [line.variant_id for line in wanted if line.variant_id is not None],
        [line.sku for line in wanted if line.sku is not None],
    )


def price(store: Store, wanted: Sequence[NewLine], offers: Offers) -> Priced:
    """Price what is wanted; lines that name nothing are faults, and the others are priced all the same."""
    faults: list[Fault] = []
    for place, line in enumerate(wanted):
        if line.variant_id is None and line.sku is None:
            faults.append(Fault(f"/line_items/{place}/variant_id", "required", "is required, unless sku is given"))
        elif line.variant_id is not None and line.sku is not None:
            faults.append(
                Fault(f"/line_items/{place}/sku", "invalid_format", "give either variant_id or sku, not both")
            )
    lines: list[LineState] = []
    pointers: dict[int, str] = {}
    for place, line in enumerate(wanted):
        offer = offers.by_id.get(line.variant_id) if line.variant_id is not None else offers.by_sku.get(line.sku)
        if offer is not None:
            pointers[len(lines)] = f"/line_items/{place}"
            lines.append(_line(line, offer, store.digits))
        elif line.sku is not None:
            faults.append(Fault(f"/line_items/{place}/sku", "unknown_sku", "no variant of this store has this SKU"))
        elif line.variant_id is not None:
            words = "no variant of this store has this id"
            faults.append(Fault(f"/line_items/{place}/variant_id", "unknown_variant", words))
    return Priced(lines, pointers, faults)


async def offers_for(db: Executor, store: Store, variant_ids: Sequence[int], skus: Sequence[str]) -> Offers:
    return Offers(await queries.OFFERS.all(db, store.id, list(variant_ids), list(skus)))


def _line(line: NewLine, offer: Offer, digits: int) -> LineState:
    described = _described.decode("{" + offer.head[1:] + "}")
    return LineState(
        id=0,
        product_id=offer.product_id,
        variant_id=offer.id,
        sku=offer.sku,
        name=offer.name,
        variant_title=described.title,
        option_values=described.option_values,
        quantity=line.quantity,
        unit_price=offer.price if line.unit_price is None else money.to_minor(line.unit_price, digits),
        discount_total=money.to_minor(line.discount_total, digits) if line.discount_total is not None else 0,
        tax_total=money.to_minor(line.tax_total, digits) if line.tax_total is not None else 0,
        metadata=line.metadata,
    )


def check_available(lines: Sequence[LineState], left: dict[int, int], *, sent: bool = True) -> None:
    """Take what lines need of what is left, or refuse, naming every line that there is not enough for.

    Lines that the caller did not send are named by their ids.
    """
    faults: list[Fault] = []
    for place, line in enumerate(lines):
        if line.variant_id not in left:
            continue
        if line.quantity > left[line.variant_id]:
            pointer = f"/line_items/{place}/quantity" if sent else None
            faults.append(short_fault(line, pointer, left[line.variant_id]))
        else:
            left[line.variant_id] -= line.quantity
    if faults:
        raise InsufficientStock(f"{counted(len(faults), 'line')} cannot be had.", faults=faults)
