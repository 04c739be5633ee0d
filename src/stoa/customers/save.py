"""Loads working copies of customers under lock, and saves them with metadata and events in one call."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa.customers import queries
from stoa.customers.consents import dated, stored_state
from stoa.customers.contract import CustomerExists, email_key
from stoa.customers.documents import EDITION, metadata_of, section_start, shown_of, terms_of
from stoa.customers.events import events_of
from stoa.customers.rules import with_defaults
from stoa.customers.working_copy import CustomerCopy, entries_changed
from stoa.db.documents import fields_of, head_of
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor, InputRow, json_of, json_rows
from stoa.events.outbox import Cause, views_json
from stoa.rest.problems import ExternalIdTaken


class CustomerRow(InputRow):
    """A customer to store. `index` is its position in the list, from 1."""

    arguments = ("save_customers.in_customers",)

    index: int
    id: int | None
    is_new: bool
    external_id: str | None
    email: str | None
    email_key: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None
    status: str
    email_consent: str | None
    sms_consent: str | None
    head: str
    edition: int
    shown: str
    terms: str
    visible: bool  # whether every app sees the change
    created_at: datetime | None  # of a new one; None: now


class EntryRow(InputRow):
    """A metadata entry to store, or to delete if it has no value. Without an app it is shared."""

    arguments = ("save_customers.in_entries",)

    customer_index: int
    app_id: int | None
    key: str
    value: str | None


class EventRow(InputRow):
    """An event of a customer of the same call. With an audience, only that app receives it."""

    arguments = ("save_customers.in_events",)

    index: int
    customer_index: int
    type: str
    changes: str
    audience: int | None
    section: str | None  # the start of the metadata that the audience sees
    app_views: str | None  # what single apps see, if there is no audience


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
    """Working copies of all customers with these keys, locked in the order of their ids if `lock`."""
    keys = [email_key(email) for email in emails]
    rows = await (queries.LOCK if lock else queries.READ).all(
        db, store_id, list(ids), keys, list(phones), list(external_ids)
    )
    return [_copy(row) for row in rows]


def _copy(row: queries.StoredCustomer) -> CustomerCopy:
    fields, metadata = fields_of(row.head), metadata_of(row.shown)
    return CustomerCopy(row.id, fields, metadata, row.version, before=fields, metadata_before=metadata)


async def save(
    db: Executor, store_id: int, digits: int, customers: Sequence[CustomerCopy], cause: Cause, *, events: bool = True
) -> list[CustomerCopy | None]:
    """Save every touched copy, with its events unless they are not wanted. Returns each saved copy, or None if its keys were taken in the meantime."""
    touched = await _identified(db, [_with_dated_consents(each) for each in customers if each.touched])
    if not touched:
        return list(customers)
    rows: list[CustomerRow] = []
    entries: list[EntryRow] = []
    event_rows: list[EventRow] = []
    for index, customer in enumerate(touched, 1):
        rows.append(_row(customer, index, store_id))
        entries += [EntryRow(index, each.app_id, each.key, each.new) for each in entries_changed(customer)]
        for each in events_of(customer) if events else ():
            section = section_start(each.audience) if each.audience is not None else None
            given = (json_of(each.changes), each.audience, section, views_json(each.views))
            event_rows.append(EventRow(len(event_rows), index, each.kind.name, *given))
    try:
        saved = await queries.SAVE.one(
            db,
            store_id,
            digits,
            cause.app_id,
            cause.actor_json,
            cause.request_id,
            json_rows(rows),
            json_rows(entries),
            json_rows(event_rows),
        )
    except PostgresError as error:
        # Another request took the key after the copies were loaded.
        if violates(error, "customers_email_key") or violates(error, "customers_phone_key"):
            raise CustomerExists("Another customer has this email address or phone number.") from error
        if violates(error, "customers_external_id_key"):
            raise ExternalIdTaken("Another customer has this external id.") from error
        raise
    ids: list[int | None] = [*saved.customer_ids]
    copies = iter(
        msgspec.structs.replace(customer, id=customer_id) if customer_id is not None else None
        for customer, customer_id in zip(touched, ids, strict=True)
    )
    return [next(copies) if customer.touched else customer for customer in customers]


async def save_or_refuse(
    db: Executor, store_id: int, digits: int, customers: Sequence[CustomerCopy], cause: Cause, *, events: bool = True
) -> list[CustomerCopy]:
    """Save all copies, or refuse."""
    results = await save(db, store_id, digits, customers, cause, events=events)
    saved = [customer for customer in results if customer is not None]
    if len(saved) < len(customers):
        raise CustomerExists("Another request created this customer at the same time.")
    return saved


def _with_dated_consents(customer: CustomerCopy) -> CustomerCopy:
    return msgspec.structs.replace(customer, fields=dated(customer.fields, customer.before))


async def _identified(db: Executor, customers: list[CustomerCopy]) -> list[CustomerCopy]:
    """The copies with ids for new addresses, and with times for new and changed addresses."""
    undated = [customer for customer in customers if any(a["updated_at"] is None for a in customer.fields["addresses"])]
    if not undated:
        return customers
    new = sum(customer.id is None for customer in undated)
    added = sum(address["id"] is None for customer in undated for address in customer.fields["addresses"])
    drawn = await queries.DRAW.one(db, new, added)
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


def _row(customer: CustomerCopy, index: int, store_id: int) -> CustomerRow:
    fields = customer.fields
    return CustomerRow(
        index=index,
        id=customer.id,
        is_new=customer.is_new,
        external_id=fields["external_id"],
        email=fields["email"],
        email_key=email_key(fields["email"]) if fields["email"] else None,
        phone=fields["phone"],
        first_name=fields["first_name"],
        last_name=fields["last_name"],
        status=fields["status"],
        email_consent=stored_state(fields, "email"),
        sms_consent=stored_state(fields, "sms"),
        head=head_of(fields),
        edition=EDITION,
        shown=shown_of(customer.metadata),
        terms=terms_of(fields, customer.metadata, store_id),
        visible=customer.visibly_touched,
        created_at=customer.created_at,
    )
