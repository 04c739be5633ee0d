"""The rows that the stored functions of orders take."""

from datetime import datetime

from stoa.db.editions import Part, edition_of
from stoa.db.query import InputRow
from stoa.orders.contract import Order
from stoa.orders.line_items import LineItem

# The members about the buyer, which an erasure empties.
PERSON = frozenset({"contact", "shipping_address", "billing_address", "tracking", "note", "metadata"})
PARTS = (
    Part(
        "order_purchase",
        "head",
        Order,
        frozenset(Order.__struct_fields__) - PERSON - {"line_items"},
        derived=("head_with_payments", "lines"),
    ),
    Part("order_items", "lines", LineItem, items=True),
    Part("order_person", "person", Order, PERSON),
)
EDITION = edition_of(PARTS)


class RelatedQuery(InputRow):
    """A new order as the search for related orders takes it."""

    arguments = ("related_orders.in_orders",)

    index: int
    external_id: str | None
    customer_id: int | None
    email: str | None
    phone: str | None
    basket: str
    address: str | None
    since: datetime
    until: datetime


class OrderColumns(InputRow):
    """The columns of `orders` that are written both for a new and for a changed order."""

    id: int
    external_id: str | None
    status: str
    payment_status: str
    customer_id: int | None
    email: str | None
    phone: str | None
    total: int
    suspected_duplicates: int
    basket: str
    address: str | None
    head: str
    lines: str
    person: str
    edition: int


class OrderRow(OrderColumns):
    """A new row of `orders`."""

    arguments = ("place_orders.in_orders",)

    number: int
    placed_at: datetime
    duplicate_of: int | None
    fulfillment_status: str
    terms: str


class PlacementRow(InputRow):
    """What placing an order adds to its customer and its timeline, and who placed it."""

    arguments = ("place_orders.in_placements",)

    order_id: int
    number: int
    customer_id: int | None
    customer_orders: int
    customer_spent: int
    placed_at: datetime
    entry: str
    author: str
    actor: str
    request_id: str


class NewLineRow(InputRow):
    """A line of a new order, and the units of it to reserve."""

    arguments = ("place_orders.in_lines",)

    order_id: int
    id: int
    product_id: int | None
    variant_id: int | None
    sku: str | None
    quantity: int
    fulfilled_quantity: int  # of a historical order
    returned_quantity: int
    reserved: int
    elsewhere: int  # of the reserved units, those at locations other than the default


class AllocationRow(InputRow):
    """Units of a line that are reserved at a location other than the default."""

    arguments = ("place_orders.in_allocations",)

    line_id: int
    location: str
    units: int


class NewEventRow(InputRow):
    """An event of a new order; `n` counts the events of the call."""

    arguments = ("place_orders.in_events",)

    order_id: int
    n: int
    id: str
    type: str
    changes: str
    suspected_duplicates: int


class SuspectRow(InputRow):
    """A pair of orders that may be one purchase: the new order, and the one placed before it."""

    arguments = ("place_orders.in_suspects",)

    order_id: int
    other_id: int
    score: int
    reasons: str
    seconds_apart: int


class ChangedOrderRow(OrderColumns):
    """The changed columns of an order, and the differences that it makes to its customer."""

    arguments = ("update_order.in_order",)

    fulfillment_status: str
    terms: str | None  # None: as they are
    customer_orders: int
    customer_spent: int
    last_order_at: (
        datetime | None
    )  # if the order begins to count; if it stops counting, the database finds the last one


class LineRow(InputRow):
    """A line of a changed order."""

    arguments = ("update_order.in_lines",)

    id: int
    variant_id: int | None
    sku: str | None
    quantity: int
    fulfilled_quantity: int
    returned_quantity: int


class EntryRow(InputRow):
    """A timeline entry for a change."""

    arguments = ("update_order.in_entries",)

    type: str
    body: str | None
    changes: str


class EventRow(InputRow):
    """An event of a changed order; `n` is its position among them."""

    arguments = ("update_order.in_events",)

    n: int
    id: str
    type: str
    changes: str
