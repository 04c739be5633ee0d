"""Customers as orders need them: found, or made from what a buyer gave."""

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
    """Who places an order, found by e-mail address, else by phone number, else made; one of the two is needed."""


def inline_faults(wanted: InlineCustomer, at: str = "/customer") -> list[Fault]:
    """What is wrong with an inline customer beyond its form, to be named with the order's other faults."""
    return profile_faults(wanted, at)


async def find_or_create(db: Executor, store_id: int, wanted: InlineCustomer, cause: Cause) -> FoundCustomer:
    """The customer with this e-mail address, else this phone number, else a new one; of two who ask at once both get one.

    What is known of one that is found stays as it is.
    """
    refuse(inline_faults(wanted))
    phone = e164(wanted.phone) if wanted.phone else None
    for _ in range(_TRIES):
        [found] = await find(db, store_id, [wanted])
        if found is not None:
            return found
        digits = money.digits(await queries.CURRENCY.one(db, store_id))
        new = NewCustomer(**{name: getattr(wanted, name) for name in wanted.__struct_fields__})
        [made] = await save(db, store_id, digits, [new_customer(new, {}, cause.app_id)], cause)
        if made is not None and made.id is not None:
            return FoundCustomer(made.id, wanted.email, phone, wanted.first_name, wanted.last_name)
    # Made and erased again by others, each time in between.
    raise ServiceUnavailable("The customer is being changed by others.", headers=[(b"retry-after", b"1")])


async def find(db: Executor, store_id: int, wanted: Sequence[InlineCustomer]) -> list[FoundCustomer | None]:
    """Those who are known already, each by e-mail address, else by phone number."""
    keys = [email_key(each.email) if each.email else None for each in wanted]
    phones = [e164(each.phone) if each.phone else None for each in wanted]
    found: list[FoundCustomer | None] = [None] * len(wanted)
    for each in await queries.FIND.all(db, store_id, keys, phones):
        found[each.place - 1] = FoundCustomer(each.id, each.email, each.phone, each.first_name, each.last_name)
    return found


async def get_contacts(db: Executor, store_id: int, customer_ids: Sequence[int]) -> dict[int, FoundCustomer]:
    """Customers by their ids, as far as there are any."""
    return {found.id: found for found in await queries.CONTACTS.all(db, store_id, list(customer_ids))}


async def get_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer; None when there is none, or no longer."""
    return await queries.CONTACT.maybe(db, store_id, customer_id)


async def hold_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer, who cannot be erased until the transaction ends."""
    return await queries.HOLD.maybe(db, store_id, customer_id)


__all__ = [
    "FoundCustomer",
    "InlineCustomer",
    "find",
    "find_or_create",
    "get_contact",
    "get_contacts",
    "hold_contact",
    "inline_faults",
]
