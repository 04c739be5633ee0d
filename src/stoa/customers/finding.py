"""Customers as orders need them: found, or made from what a buyer gave."""

from stoa import money
from stoa.customers import queries
from stoa.customers.bodies import NewCustomer, Profile
from stoa.customers.contract import email_key
from stoa.customers.phones import e164
from stoa.customers.queries import FoundCustomer
from stoa.customers.rules import new_customer, profile_faults, refuse
from stoa.customers.saving import save
from stoa.db.query import Executor
from stoa.products.saving import Cause
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
    key = email_key(wanted.email) if wanted.email else None
    phone = e164(wanted.phone) if wanted.phone else None
    for _ in range(_TRIES):
        found = await queries.FIND.maybe(db, store_id, key, phone)
        if found is not None:
            return found
        digits = money.digits(await queries.CURRENCY.one(db, store_id))
        new = NewCustomer(**{name: getattr(wanted, name) for name in wanted.__struct_fields__})
        [made] = await save(db, store_id, digits, [new_customer(new, {}, cause.app_id)], cause)
        if made is not None and made.id is not None:
            return FoundCustomer(made.id, wanted.email, phone, wanted.first_name, wanted.last_name)
    # Made and erased again by others, each time in between.
    raise ServiceUnavailable("The customer is being changed by others.", headers=[(b"retry-after", b"1")])


async def get_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer; None when there is none, or no longer."""
    return await queries.CONTACT.maybe(db, store_id, customer_id)


async def hold_contact(db: Executor, store_id: int, customer_id: int) -> FoundCustomer | None:
    """The customer, who cannot be erased until the transaction ends."""
    return await queries.HOLD.maybe(db, store_id, customer_id)


__all__ = ["FoundCustomer", "InlineCustomer", "find_or_create", "get_contact", "hold_contact", "inline_faults"]
