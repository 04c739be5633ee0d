"""Finds the customers of orders, or creates them from inline data."""

from collections.abc import Sequence

from stoa import money
from stoa.customers import queries
from stoa.customers.bodies import NewCustomer, Profile
from stoa.customers.contract import email_key
from stoa.customers.phones import e164
from stoa.customers.queries import FoundCustomer
from stoa.customers.rules import new_customer, profile_faults, refuse
from stoa.customers.save import save
from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.rest.problems import Fault, ServiceUnavailable

_TRIES = 5


class InlineCustomer(Profile, forbid_unknown_fields=True):
    """The customer of an order: found by email address, else by phone number, else created. `email` or `phone` is required."""


def inline_faults(wanted: InlineCustomer, at: str = "/customer") -> list[Fault]:
    """The faults of an inline customer beyond its types, to report with the order's other faults."""
    return profile_faults(wanted, at)


async def find_or_create(
    db: Executor, store_id: int, wanted: InlineCustomer, cause: Cause, *, events: bool = True
) -> FoundCustomer:
    """The customer with this email address, else with this phone number, else a new one.

    Concurrent calls get the same customer. An existing customer stays unchanged.
    """
    refuse(inline_faults(wanted))
    phone = e164(wanted.phone) if wanted.phone else None
    for _ in range(_TRIES):
        [found] = await find(db, store_id, [wanted])
        if found is not None:
            return found
        digits = money.digits(await queries.CURRENCY.one(db, store_id))
        new = NewCustomer(**{name: getattr(wanted, name) for name in wanted.__struct_fields__})
        [created] = await save(db, store_id, digits, [new_customer(new, {}, cause.app_id)], cause, events=events)
        if created is not None and created.id is not None:
            return FoundCustomer(created.id, wanted.email, phone, wanted.first_name, wanted.last_name)
    # Each time, another request created the customer and erased it again.
    raise ServiceUnavailable("The customer is being changed by other requests.", headers=[(b"retry-after", b"1")])


async def find(db: Executor, store_id: int, wanted: Sequence[InlineCustomer]) -> list[FoundCustomer | None]:
    """The existing customers, each by email address, else by phone number."""
    keys = [email_key(each.email) if each.email else None for each in wanted]
    phones = [e164(each.phone) if each.phone else None for each in wanted]
    found: list[FoundCustomer | None] = [None] * len(wanted)
    for each in await queries.FIND.all(db, store_id, keys, phones):
        found[each.index - 1] = FoundCustomer(each.id, each.email, each.phone, each.first_name, each.last_name)
    return found


async def get_contacts(db: Executor, store_id: int, customer_ids: Sequence[int]) -> dict[int, FoundCustomer]:
    """The existing customers by their ids."""
    return {found.id: found for found in await queries.CONTACTS.all(db, store_id, list(customer_ids))}


async def get_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer, or None if it does not exist or is erased."""
    return await queries.CONTACT.maybe(db, store_id, customer_id)


async def lock_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer, locked against erasure until the transaction ends."""
    return await queries.LOCK_CONTACT.maybe(db, store_id, customer_id)


__all__ = [
    "FoundCustomer",
    "InlineCustomer",
    "find",
    "find_or_create",
    "get_contact",
    "get_contacts",
    "inline_faults",
    "lock_contact",
]
