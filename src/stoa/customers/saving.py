"""Working copies in and out of the database: loaded under lock, stored with metadata and events in one call."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stoa.customers import queries
from stoa.customers.contract import CustomerExists, email_key
from stoa.customers.copies import CustomerCopy, entries_changed
from stoa.customers.documents import shown_of, spaces_of, terms_of
from stoa.customers.events import events_of
from stoa.customers.rules import with_defaults
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor
from stoa.ids import new_id
from stoa.products.contract import ExternalIdTaken
from stoa.products.documents import fields_of, head_of, json_of
from stoa.products.saving import Cause, columns


class CustomerRow(msgspec.Struct):
    """A customer's columns, in the order in which the statement takes them."""

    id: int | None
    made: bool
    external_id: str | None
    email: str | None
    email_key: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None
    status: str
    head: str
    shown: str
    terms: str


class EntryRow(msgspec.Struct):
    """A metadata entry likewise; `customer` counts the customer rows of the same call, from 1."""

    customer: int
    namespace: int
    key: str
    value: str | None


class EventRow(msgspec.Struct):
    id: str
    type: str
    customer: int
    changes: str


async def load(
    db: Executor,
    store_id: int,
    *,
    ids: Iterable[int] = (),
    emails: Iterable[str] = (),
    phones: Iterable[str] = (),
    external_ids: Iterable[str] = (),
    lock: bool = True,
) -> list[CustomerCopy]:
    """Working copies of every customer that these name, locked in the order of their ids unless only looked at."""
    keys = [email_key(email) for email in emails]
    rows = await (queries.LOCK if lock else queries.LOOK).all(
        db, store_id, list(ids), keys, list(phones), list(external_ids)
    )
    return [_copy(row) for row in rows]


def _copy(row: queries.StoredCustomer) -> CustomerCopy:
    fields, spaces = fields_of(row.head), spaces_of(row.shown)
    return CustomerCopy(row.id, fields, spaces, row.version, before=fields, spaces_before=spaces)


async def save(
    db: Executor, store_id: int, digits: int, customers: Sequence[CustomerCopy], cause: Cause
) -> list[CustomerCopy | None]:
    """Store every touched copy with its events; answers each as it is stored, None where its names were taken meanwhile."""
    touched = await _identified(db, [customer for customer in customers if customer.touched])
    if not touched:
        return list(customers)
    rows: list[CustomerRow] = []
    entries: list[EntryRow] = []
    events: list[EventRow] = []
    for place, customer in enumerate(touched, 1):
        rows.append(_row(customer, store_id))
        entries += [EntryRow(place, each.space, each.key, each.new) for each in entries_changed(customer)]
        events += [EventRow(new_id("evt"), kind.name, place, json_of(told)) for kind, told in events_of(customer)]
    try:
        saved = await queries.SAVE.one(
            db,
            store_id,
            digits,
            cause.app_id,
            cause.actor,
            cause.request_id,
            *columns(CustomerRow, rows),
            *columns(EntryRow, entries),
            *columns(EventRow, events),
        )
    except PostgresError as error:
        # Another request took it between our look and our write; the first look names the rest.
        if violates(error, "customers_email_key") or violates(error, "customers_phone_key"):
            raise CustomerExists("Another customer has taken this e-mail address or phone number.") from error
        if violates(error, "customers_external_id_key"):
            raise ExternalIdTaken("Another customer has taken this external id.") from error
        raise
    ids: list[int | None] = [*saved.customer_ids]
    copies = iter(
        msgspec.structs.replace(customer, id=customer_id) if customer_id is not None else None
        for customer, customer_id in zip(touched, ids, strict=True)
    )
    return [next(copies) if customer.touched else customer for customer in customers]


async def save_or_refuse(
    db: Executor, store_id: int, digits: int, customers: Sequence[CustomerCopy], cause: Cause
) -> list[CustomerCopy]:
    """Store all, or refuse."""
    stored = await save(db, store_id, digits, customers, cause)
    kept = [customer for customer in stored if customer is not None]
    if len(kept) < len(customers):
        raise CustomerExists("Another request made this customer in the same moment.")
    return kept


async def _identified(db: Executor, customers: list[CustomerCopy]) -> list[CustomerCopy]:
    """The copies, their new addresses with ids, and what is new or changed with its date."""
    undated = [customer for customer in customers if any(a["updated_at"] is None for a in customer.fields["addresses"])]
    if not undated:
        return customers
    made = sum(customer.id is None for customer in undated)
    added = sum(address["id"] is None for customer in undated for address in customer.fields["addresses"])
    drawn = await queries.DRAW.one(db, made, added)
    customer_ids, address_ids = iter(drawn.customer_ids), iter(drawn.address_ids)
    dated: dict[int, CustomerCopy] = {}
    for customer in undated:
        customer_id = customer.id or next(customer_ids)
        addresses = [
            _dated(address, customer_id, address_ids, drawn.moment) for address in customer.fields["addresses"]
        ]
        fields = with_defaults({**customer.fields, "addresses": addresses})
        dated[id(customer)] = msgspec.structs.replace(customer, id=customer_id, fields=fields)
    return [dated.get(id(customer), customer) for customer in customers]


def _dated(address: dict[str, Any], customer_id: int, ids: Iterator[int], moment: str) -> dict[str, Any]:
    if address["updated_at"] is not None:
        return address
    address_id = next(ids) if address["id"] is None else address["id"]
    since = address["created_at"] or moment
    return {**address, "id": address_id, "customer_id": customer_id, "created_at": since, "updated_at": moment}


def _row(customer: CustomerCopy, store_id: int) -> CustomerRow:
    fields = customer.fields
    return CustomerRow(
        id=customer.id,
        made=customer.is_new,
        external_id=fields["external_id"],
        email=fields["email"],
        email_key=email_key(fields["email"]) if fields["email"] else None,
        phone=fields["phone"],
        first_name=fields["first_name"],
        last_name=fields["last_name"],
        status=fields["status"],
        head=head_of(fields),
        shown=shown_of(customer.spaces),
        terms=terms_of(fields, customer.spaces, store_id),
    )
