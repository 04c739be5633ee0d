"""What is told of customers: one event for each kind of change, none when nothing changed; of metadata only what is shared."""

from typing import Any

from stoa.customers.contract import Customer
from stoa.customers.documents import value_of
from stoa.customers.working_copy import CustomerCopy, entries_changed
from stoa.events.outbox import Event
from stoa.rest.lists import Tombstone
from stoa.rest.patch import changes_between


class CustomerCreated(Event):
    """A customer was created, addresses and metadata with it."""

    name, scope, resource_type = "customer.created", "customers:read", "customer"
    resource = Customer


class CustomerUpdated(Event):
    """A customer's own fields changed."""

    name, scope, resource_type = "customer.updated", "customers:read", "customer"
    resource = Customer


class CustomerDeleted(Event):
    """A customer's personal data was erased: forget it too."""

    name, scope, resource_type = "customer.deleted", "customers:read", "customer"
    resource = Tombstone


class CustomerAddressChanged(Event):
    """An address of a customer was added, changed or removed, or became a default."""

    name, scope, resource_type = "customer.address_changed", "customers:read", "customer"
    resource = Customer


class CustomerMetadataChanged(Event):
    """Metadata of a customer changed; `changes` and `data` show shared keys only."""

    name, scope, resource_type = "customer.metadata_changed", "customers:read", "customer"
    resource = Customer


_OF_ADDRESSES = frozenset({"addresses", "default_shipping_address_id", "default_billing_address_id"})

Told = tuple[type[Event], dict[str, tuple[Any, Any]]]


def events_of(customer: CustomerCopy) -> list[Told]:
    """The events of one customer's change."""
    if customer.before is None:
        return [(CustomerCreated, {})]
    told: list[Told] = []
    changes = changes_between(customer.before, customer.fields)
    own = {name: pair for name, pair in changes.items() if name not in _OF_ADDRESSES}
    if own:
        told.append((CustomerUpdated, own))
    if changes.keys() & _OF_ADDRESSES:
        told.append((CustomerAddressChanged, _address_changes(changes)))
    entries = entries_changed(customer)
    if entries:
        shared = [each for each in entries if each.app_id is None]
        old = {each.key: value_of(each.old) for each in shared if each.old is not None}
        new = {each.key: value_of(each.new) for each in shared if each.new is not None}
        told.append((CustomerMetadataChanged, {"metadata": (old, new)} if shared else {}))
    return told


def _address_changes(changes: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Of the addresses, only those that differ."""
    found = {name: pair for name, pair in changes.items() if name in _OF_ADDRESSES}
    if "addresses" in found:
        before, after = found["addresses"]
        found["addresses"] = (
            [each for each in before if each not in after],
            [each for each in after if each not in before],
        )
    return found
