"""The events of customers: one event for each kind of change, none if nothing changed.

Events show shared metadata only, except those of an app's own metadata, which only that app receives.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stoa.customers.contract import Customer
from stoa.customers.documents import value_of
from stoa.customers.working_copy import CustomerCopy, entries_changed
from stoa.events.outbox import Event
from stoa.rest.lists import Tombstone
from stoa.rest.patch import changes_between


class CustomerCreated(Event):
    """A customer was created, with its addresses and metadata."""

    name, scope, resource_type = "customer.created", "customers:read", "customer"
    resource = Customer


class CustomerUpdated(Event):
    """Fields of a customer changed."""

    name, scope, resource_type = "customer.updated", "customers:read", "customer"
    resource = Customer


class CustomerDeleted(Event):
    """The personal data of a customer was erased; erase your copy too."""

    name, scope, resource_type = "customer.deleted", "customers:read", "customer"
    resource = Tombstone


class ErasedCustomer(msgspec.Struct):
    """An erased customer: nothing but the id."""

    id: Annotated[int, Meta(description="The id of the erased customer. It is never used again.")]


class CustomerErased(Event):
    """The personal data of a customer was erased; erase your copy too. Sent to the app's own endpoint, whatever its scopes."""

    name, scope, resource_type = "customer.erased", "customers:read", "customer"
    resource = ErasedCustomer
    app_only = True


class CustomerAddressChanged(Event):
    """An address of a customer was added, changed or deleted, or became a default."""

    name, scope, resource_type = "customer.address_changed", "customers:read", "customer"
    resource = Customer


class CustomerMetadataChanged(Event):
    """Metadata of a customer changed: shared keys, or keys of your own app. Only your app receives events of its own keys."""

    name, scope, resource_type = "customer.metadata_changed", "customers:read", "customer"
    resource = Customer


_ADDRESS_FIELDS = frozenset({"addresses", "default_shipping_address_id", "default_billing_address_id"})


class Caused(msgspec.Struct, frozen=True):
    """An event that a change causes. With an audience, only that app receives it, and `data` shows what that app sees."""

    kind: type[Event]
    changes: dict[str, tuple[Any, Any]]
    audience: int | None = None


def events_of(customer: CustomerCopy) -> list[Caused]:
    """The events of a changed customer."""
    if customer.before is None:
        return [Caused(CustomerCreated, {})]
    caused: list[Caused] = []
    changes = changes_between(customer.before, customer.fields)
    of_profile = {name: pair for name, pair in changes.items() if name not in _ADDRESS_FIELDS}
    if of_profile:
        caused.append(Caused(CustomerUpdated, of_profile))
    if changes.keys() & _ADDRESS_FIELDS:
        caused.append(Caused(CustomerAddressChanged, _address_changes(changes)))
    entries = entries_changed(customer)
    # One event for a request: if shared keys changed too, it is about them, and the owner of the other keys receives it as well.
    for owner in dict.fromkeys(each.app_id for each in entries):
        changed = [each for each in entries if each.app_id == owner]
        old = {each.key: value_of(each.old) for each in changed if each.old is not None}
        new = {each.key: value_of(each.new) for each in changed if each.new is not None}
        caused.append(Caused(CustomerMetadataChanged, {"metadata": (old, new)}, owner))
        if owner is None:
            break
    return caused


def _address_changes(changes: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """The changes of addresses, limited to the addresses that differ."""
    found = {name: pair for name, pair in changes.items() if name in _ADDRESS_FIELDS}
    if "addresses" in found:
        before, after = found["addresses"]
        found["addresses"] = (
            [each for each in before if each not in after],
            [each for each in after if each not in before],
        )
    return found
