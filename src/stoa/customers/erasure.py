"""Forgetting a person: a slice that writes personal data appends to REACHES what empties it, or to SEARCHES what finds it.

All run inside the erasing transaction, in the order in which they were appended, while nobody else can hold the customer;
what must be held before the customer is in HOLDS.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import msgspec

from stoa.access import audit
from stoa.customers.contract import email_key
from stoa.customers.events import CustomerDeleted
from stoa.customers.phones import e164
from stoa.db.query import Command, Executor, Query
from stoa.events.outbox import Actor, emit
from stoa.products.documents import fields_of, head_of
from stoa.products.saving import Cause

_NO_DIGITS = re.compile(r"[^0-9]+")


class Person(msgspec.Struct, frozen=True):
    """Whom to forget, with every name that was ever theirs: what was written of them may only show one of these."""

    store_id: int
    customer_id: int
    emails: frozenset[str]  # lowered
    phones: frozenset[str]  # E.164
    external_ids: frozenset[str]
    cause: Cause  # who asks for it

    def is_named_in(self, text: str) -> bool:
        """Whether a text carries an address or a number of theirs, however it is written."""
        lowered = text.lower()
        if any(email in lowered for email in self.emails):
            return True
        digits = _NO_DIGITS.sub("", text) if self.phones else ""
        return any(phone[1:] in digits for phone in self.phones)


Search = Callable[[Executor, Person], Awaitable[None]]

EVENTS_OF_CUSTOMER = Command(
    """UPDATE events SET changes = '{}', data = '{"id":' || resource_id || '}'
        WHERE store_id = $1 AND resource_type = 'customer' AND resource_id = $2"""
)
# A replay answers the same status, and says only that the person is gone.
REMEMBERED_ANSWERS = Command(
    """UPDATE idempotency_keys SET body = convert_to('{"data":{"id":' || subject_id || '},"meta":{}}', 'UTF8')
        WHERE store_id = $1 AND subject_type = 'customer' AND subject_id = $2 AND length(body) > 0"""
)
METADATA = Command("DELETE FROM customer_metadata WHERE store_id = $1 AND customer_id = $2")

# Commands that take the store's and the customer's id.
REACHES: list[Command] = [EVENTS_OF_CUSTOMER, REMEMBERED_ANSWERS, METADATA]
# What must be held before the customer, because whoever changes it holds it first; takes the same two ids.
HOLDS: list[Query[int]] = []
# What must look into texts to know a person.
SEARCHES: list[Search] = []


class Held(msgspec.Struct):
    version: int
    head: str


# Waits for every order that holds the customer; from here on none can.
HOLD = Query(
    Held, "SELECT version, head FROM customers WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE"
)


class Told(msgspec.Struct):
    changes: str
    data: str


TOLD = Query(
    Told, "SELECT changes, data FROM events WHERE store_id = $1 AND resource_type = 'customer' AND resource_id = $2"
)


class Erased(msgspec.Struct):
    version: int
    doc: str


ERASE = Command(
    """UPDATE customers
          SET external_id = NULL, email = NULL, email_key = NULL, phone = NULL, first_name = NULL, last_name = NULL,
              status = 'erased', head = $3, shown = ',"metadata":{}', terms = '', deleted_at = greatest(updated_at, now()),
              updated_at = greatest(updated_at, now()), version = version + 1
        WHERE store_id = $1 AND id = $2"""
)
TOMBSTONE = Query(
    Erased, "SELECT version, customer_document(c) AS doc FROM customers c WHERE store_id = $1 AND id = $2"
)
COUNT = Command("INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'customers', -1)")


async def hold(db: Executor, store_id: int, customer_id: int) -> Held | None:
    for first in HOLDS:
        await first.all(db, store_id, customer_id)
    return await HOLD.maybe(db, store_id, customer_id)


async def erase(db: Executor, store_id: int, customer_id: int, held: Held, cause: Cause) -> None:
    """Remove a held customer's personal data everywhere, and tell of it."""
    told = await TOLD.all(db, store_id, customer_id)
    person = _person(store_id, customer_id, held, told, cause)
    for reach in REACHES:
        await reach.run(db, store_id, customer_id)
    for search in SEARCHES:
        await search(db, person)
    await ERASE.run(db, store_id, customer_id, head_of({"status": "erased"}))
    await COUNT.run(db, store_id)
    gone = await TOMBSTONE.one(db, store_id, customer_id)
    actor = Actor("app", cause.app_id) if cause.app_id else Actor("operator")
    event = CustomerDeleted(customer_id, gone.version, gone.doc, {})
    await emit(db, store_id, event, actor=actor, request_id=cause.request_id)
    await audit.record(
        db,
        store_id,
        "customer.erased",
        actor=f"app:{cause.app_id}" if cause.app_id else "operator",
        subject=f"customer:{customer_id}",
        detail={},
        request_id=cause.request_id,
    )


def _person(store_id: int, customer_id: int, held: Held, told: Iterable[Told], cause: Cause) -> Person:
    """All names that the customer has, and had as far as past events tell."""
    names: dict[str, set[str]] = {"email": set(), "phone": set(), "external_id": set()}
    known: list[dict[str, Any]] = [fields_of(held.head)]
    for each in told:
        known.append(msgspec.json.decode(each.data))
        changes = cast("dict[str, Any]", msgspec.json.decode(each.changes))
        known += [{name: value} for name in names for value in changes.get(name, [])]
    for members in known:
        for name, found in names.items():
            if isinstance(value := members.get(name), str):
                found.add(value)
    return Person(
        store_id,
        customer_id,
        frozenset(map(email_key, names["email"])),
        frozenset(number for phone in names["phone"] if (number := e164(phone)) is not None),
        frozenset(names["external_id"]),
        cause,
    )
