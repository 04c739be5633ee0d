"""Turns request bodies into orders: lines priced as of now, amounts checked, all faults named at once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.customers.lookup import FoundCustomer, InlineCustomer, inline_faults
from stoa.customers.phones import e164
from stoa.customers.rules import COUNTRIES
from stoa.db.query import Executor
from stoa.orders import queries
from stoa.orders.allocation import location_faults
from stoa.orders.amounts import new_amounts
from stoa.orders.bodies import READ_CUSTOMERS, NewOrder
from stoa.orders.contract import UNPAID, Contact, OrderAddress
from stoa.orders.documents import actor_of
from stoa.orders.line_items import NewLine
from stoa.orders.payments import Occasion, change_payment
from stoa.orders.queries import Offer
from stoa.orders.state import NO_CONTACT, LineState, OrderState, line_faults, sum_faults
from stoa.products.contract import WeightUnit
from stoa.rest.call import Call, Store
from stoa.rest.checks import MOST_FAULTS
from stoa.rest.limits import DOCUMENT_BYTES
from stoa.rest.metadata import NO_DEFINITIONS
from stoa.rest.problems import ExternalIdTaken, Fault, Refusal, ValidationFailed, counted, first_sent

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def draft(
    call: Call,
    body: NewOrder,
    offers: "Offers",
    customer: FoundCustomer | None,
    locations: Collection[str],
    *,
    history: Mapping[str, Any] | None = None,
) -> OrderState:
    """The order that a body describes; refuses with every fault in it.

    `customer` is the stored customer that the body names, by `customer_id` or inline; `locations` are the active ones. The body of
    a historical order is `history` as it was sent; its payments and its hold are left to the caller.
    """
    digits = call.store.digits
    sent = call.patch if history is None else history
    include = call.store.prices_include_tax if body.prices_include_tax is None else body.prices_include_tax
    priced = price(call.store, body.line_items, offers, prices_include_tax=include)
    faults = [*priced.faults, *_body_faults(call, body)]
    if history is None:
        faults += _hold_faults(body)
    if call.store.definitions is not NO_DEFINITIONS:
        faults += call.store.definitions.faults_of_new("order", body.metadata)
    if body.location is not None or any(line.location for line in body.line_items):
        faults += location_faults(body.line_items, locations, body.location)
        for line in priced.lines:
            line.location = (line.location or body.location) if line.variant_id is not None else None
    order = OrderState(
        status=body.status,
        currency=call.store.currency,
        customer_id=customer.id if customer else None,
        lines=priced.lines,
        source={"app_id": call.app_id, "name": call.author},
        external_id=body.external_id,
        discount_total=_minor(body.discount_total, digits),
        shipping_total=_minor(body.shipping_total, digits),
        tax_total=_minor(body.tax_total, digits),
        shipping_method=body.shipping_method,
        payment_method=body.payment_method,
        tags=list(dict.fromkeys(body.tags)),
        note=body.note,
        metadata=body.metadata,
        shipping_address=snapshot(body.shipping_address),
        billing_address=snapshot(body.billing_address),
        contact=NO_CONTACT,
        prices_include_tax=include,
    )
    unsound = bool(priced.faults)
    if body.discounts or body.tax_lines:
        found: list[Fault] = []
        base = None if unsound else order.discounted_cost
        new_amounts(body, base, digits, "", found).apply(order)
        faults += found
        unsound = unsound or bool(found)
    if unsound:  # sums would only repeat the faults
        faults += line_faults(order.lines, priced.pointers, sent)
    else:
        total = money.to_minor(body.total, digits) if body.total is not None else None
        faults += sum_faults(order, priced.pointers, digits, sent, total)
    if body.customer_id is not None and customer is None:
        faults.append(unknown_customer())
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults[:MOST_FAULTS])
    order.contact = contact_of(body, customer if call.may(READ_CUSTOMERS) else None)
    if history is None and body.payment_status != "unpaid":
        change_payment(order, body.payment_status, None, Occasion("", actor_of(call)))
    return order


def _body_faults(call: Call, body: NewOrder) -> list[Fault]:
    """The faults that show without a database."""
    faults: list[Fault] = []
    if body.currency is not None and body.currency != call.store.currency:
        words = f"must be {call.store.currency}, the currency of this store"
        faults.append(Fault("/currency", "currency_mismatch", words, {"expected": call.store.currency}))
    if body.customer_id is not None and body.customer is not None:
        faults.append(Fault("/customer", "invalid_format", "specify either customer_id or customer, not both"))
    if body.customer is not None:
        faults += inline_faults(body.customer)
    if body.contact is not None:
        faults += phone_faults(body.contact.phone, "/contact/phone")
    faults += country_faults(body.shipping_address, "/shipping_address")
    faults += country_faults(body.billing_address, "/billing_address")
    if body.placed_at is not None and not _EARLIEST <= body.placed_at <= datetime.now(UTC) + timedelta(days=1):
        faults.append(Fault("/placed_at", "out_of_range", "must be between 1970 and tomorrow"))
    return faults


def _hold_faults(body: NewOrder) -> list[Fault]:
    """The faults of a hold, except its time, which is compared with the clock of the database."""
    sent = [name for name in ("expires_at", "hold_for") if getattr(body, name) is not None]
    if len(sent) == 2:
        return [Fault("/hold_for", "invalid_format", "specify either expires_at or hold_for, not both")]
    if sent and (body.status != "pending" or body.payment_status not in UNPAID):
        words = "must not be sent unless the order is pending and not paid"
        return [Fault(f"/{sent[0]}", "invalid_format", words)]
    return []


def _minor(amount: Decimal | None, digits: int) -> int:
    return money.to_minor(amount, digits) if amount is not None else 0


# --- contact and addresses -----------------------------------------------------------------------------------------


def phone_faults(phone: str | None, at: str) -> list[Fault]:
    if phone is None or e164(phone) is not None:
        return []
    return [Fault(at, "invalid_format", "must be a phone number with its country code, such as +15550100123")]


def country_faults(address: OrderAddress | None, at: str) -> list[Fault]:
    code = address.country_code if address else None
    if code is None or code.upper() in COUNTRIES:
        return []
    return [Fault(f"{at}/country_code", "invalid_format", "must be a country code of ISO 3166-1, such as US")]


def snapshot(address: OrderAddress | None) -> dict[str, Any] | None:
    """An address as an order stores it; None if all its members are null."""
    if address is None:
        return None
    members = msgspec.structs.asdict(address)
    if members["country_code"]:
        members["country_code"] = members["country_code"].upper()
    return members if any(value is not None for value in members.values()) else None


def unknown_customer() -> Fault:
    return Fault("/customer_id", "unknown_customer", "no customer of this store has this id")


def contact_of(body: NewOrder, customer: FoundCustomer | None) -> dict[str, Any]:
    """The contact of a new order: what the body says, then the inline customer, then the stored one.

    `customer` is None if the caller may not read customers: the order then contains only what the caller sent.
    """
    contact = _members(customer) if customer else dict(NO_CONTACT)
    if body.customer is not None:
        contact |= {name: value for name, value in _members(body.customer).items() if value is not None}
    return merged_contact(contact, body.contact)


def _members(person: FoundCustomer | InlineCustomer) -> dict[str, Any]:
    return {name: getattr(person, name) for name in NO_CONTACT}


def merged_contact(known: dict[str, Any], given: Contact | None) -> dict[str, Any]:
    """A contact with the given members, and the known ones for the rest; its phone number is normalized."""
    contact = dict(known)
    if given is not None:
        contact |= {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    if contact["phone"] is not None:
        contact["phone"] = e164(contact["phone"])
    return contact


# --- lines -----------------------------------------------------------------------------------------------------------


class VariantMembers(msgspec.Struct):
    """The members of a variant's document that a line item needs."""

    title: str
    option_values: dict[str, str]
    track_inventory: bool
    weight: Decimal | None
    requires_shipping: bool | None = None  # None: as the product
    taxable: bool | None = None


class ProductMembers(msgspec.Struct):
    """The members of a product's document that a line item needs."""

    requires_shipping: bool
    taxable: bool
    weight: Decimal | None
    weight_unit: WeightUnit


_variant_decoder = msgspec.json.Decoder(VariantMembers)
_product_decoder = msgspec.json.Decoder(ProductMembers)


class Snapshot(msgspec.Struct):
    """What a line item copies from a variant and its product."""

    variant: VariantMembers
    product: ProductMembers


class Offers:
    """The variants that can be ordered, with current prices and stock."""

    def __init__(self, found: Sequence[Offer]) -> None:
        self.by_id = {offer.id: offer for offer in found}
        self.by_sku: dict[str | None, Offer] = {offer.sku: offer for offer in found}
        self._snapshots: dict[int, Snapshot] = {}

    def snapshot(self, offer: Offer) -> Snapshot:
        """The members of the variant and its product; decoded once, however many line items order it."""
        known = self._snapshots.get(offer.id)
        if known is None:
            variant = _variant_decoder.decode("{" + offer.head[1:] + "}")
            product = _product_decoder.decode(b"{%b}" % offer.product_head[1:])
            known = self._snapshots[offer.id] = Snapshot(variant, product)
        return known

    def available(self) -> dict[int, int]:
        """The available units of each variant that may run out."""
        return {offer.id: offer.available for offer in self.by_id.values() if not offer.unlimited}

    def large(self) -> dict[int, int]:
        """The size of each variant whose document is so large that an event with it costs further requests."""
        return {offer.id: len(offer.head) for offer in self.by_id.values() if len(offer.head) >= DOCUMENT_BYTES}

    @property
    def elsewhere(self) -> bool:
        """Whether some of the stock is at another location than the default."""
        return any(offer.elsewhere for offer in self.by_id.values())


class Priced(msgspec.Struct):
    """The lines without faults, and the faults of the others."""

    lines: list[LineState]
    pointers: dict[int, str]  # of the lines in the request body, by index
    faults: list[Fault]


async def offers_of(db: Executor, store: Store, wanted: Sequence[NewLine]) -> Offers:
    """The offers for all variants that the lines name."""
    return await offers_for(
        db,
        store,
        [line.variant_id for line in wanted if line.variant_id is not None],
        [line.sku for line in wanted if line.sku is not None],
    )


def price(store: Store, wanted: Sequence[NewLine], offers: Offers, *, prices_include_tax: bool) -> Priced:
    """Price lines. A line with a fault is left out; the others are priced nevertheless."""
    priced = Priced([], {}, [])
    for index, line in enumerate(wanted):
        at = f"/line_items/{index}"
        faults = _selection_faults(line, at)
        offer = None
        if not faults and line.name is None:
            offer = offers.by_id.get(line.variant_id) if line.variant_id is not None else offers.by_sku.get(line.sku)
            if offer is None:
                faults.append(_unknown(line, at))
        unit_price = money.to_minor(line.unit_price, store.digits) if line.unit_price is not None else None
        if unit_price is None and offer is not None:
            unit_price = offer.price
        amounts = None
        if line.discounts or line.tax_lines:
            base = unit_price * line.quantity if unit_price is not None else None
            amounts = new_amounts(line, base, store.digits, at, faults)
        if faults or unit_price is None:
            priced.faults.extend(faults)
            continue
        state = _custom_line(line) if offer is None else _line(line, offer, offers.snapshot(offer))
        state.unit_price, state.prices_include_tax = unit_price, prices_include_tax
        if amounts is None:
            state.discount_total = _minor(line.discount_total, store.digits)
            state.tax_total = _minor(line.tax_total, store.digits)
        else:
            amounts.apply(state)
        priced.pointers[len(priced.lines)] = at
        priced.lines.append(state)
    return priced


def _selection_faults(line: NewLine, at: str) -> list[Fault]:
    """The faults in what a line names: one variant, by id or by SKU, or a custom line item with a name and a price."""
    own = line.requires_shipping is not None or line.taxable is not None
    if line.name is None and not own and (line.variant_id is None) != (line.sku is None):
        return []
    faults: list[Fault] = []
    if line.variant_id is not None and line.sku is not None:
        faults.append(Fault(f"{at}/sku", "invalid_format", "specify either variant_id or sku, not both"))
    if line.variant_id is not None or line.sku is not None:
        faults += [
            Fault(f"{at}/{name}", "invalid_format", "must not be sent with variant_id or sku")
            for name in ("name", "requires_shipping", "taxable")
            if getattr(line, name) is not None
        ]
    elif line.name is None and not own:
        faults.append(Fault(f"{at}/variant_id", "required", "is required unless sku or name is given"))
    else:
        faults += [
            Fault(f"{at}/{name}", "required", "is required for a custom line item")
            for name in ("name", "unit_price")
            if getattr(line, name) is None
        ]
    return faults


def _unknown(line: NewLine, at: str) -> Fault:
    if line.sku is not None:
        return Fault(f"{at}/sku", "unknown_sku", "no variant of this store has this SKU")
    return Fault(f"{at}/variant_id", "unknown_variant", "no variant of this store has this id")


async def offers_for(db: Executor, store: Store, variant_ids: Sequence[int], skus: Sequence[str]) -> Offers:
    return Offers(await queries.OFFERS.all(db, store.id, list(variant_ids), list(skus)))


def _line(line: NewLine, offer: Offer, known: Snapshot) -> LineState:
    variant, product = known.variant, known.product
    weight = product.weight if variant.weight is None else variant.weight
    return LineState(
        id=0,
        product_id=offer.product_id,
        variant_id=offer.id,
        sku=offer.sku,
        name=offer.name,
        variant_title=variant.title,
        option_values=variant.option_values,
        quantity=line.quantity,
        metadata=line.metadata,
        requires_shipping=product.requires_shipping if variant.requires_shipping is None else variant.requires_shipping,
        taxable=product.taxable if variant.taxable is None else variant.taxable,
        location=line.location,
        weight=weight,
        weight_unit=product.weight_unit if weight is not None else None,
        tracked=variant.track_inventory,
    )


def _custom_line(line: NewLine) -> LineState:
    return LineState(
        id=0,
        product_id=None,
        variant_id=None,
        sku=None,
        name=line.name or "",
        variant_title="",
        option_values={},
        quantity=line.quantity,
        metadata=line.metadata,
        requires_shipping=line.requires_shipping is not False,
        taxable=line.taxable is not False,
    )


# --- refusals -------------------------------------------------------------------------------------------------------


def external_id_taken(existing_id: int) -> ExternalIdTaken:
    fault = Fault("/external_id", ExternalIdTaken.code, "belongs to another order")
    return ExternalIdTaken("Another order has this external id.", faults=[fault], existing_id=existing_id)


def customer_sum_too_large(call: Call) -> Refusal:
    at = first_sent(call.patch, "/customer_id", "/customer", "/payment_status", "/status", "/line_items")
    words = "makes the customer's total exceed the largest amount that Stoa can store"
    fault = Fault(at, "out_of_range", words)
    return ValidationFailed("The total amount spent by the customer would be too large.", faults=[fault])
