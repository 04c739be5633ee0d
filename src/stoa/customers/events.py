"""The events of customers: one event for each kind of change, none if nothing changed.

Every app sees the shared metadata and its own. A change of own metadata alone causes an event for that app only.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stoa.customers.contract import Customer
from stoa.customers.documents import value_of
from stoa.customers.working_copy import ChangedEntry, CustomerCopy, entries_changed
from stoa.events.outbox import AppView, Event
from stoa.rest.lists import Tombstone
from stoa.rest.patch import changes_between

_ADDRESS_FIELDS = frozenset({"addresses", "default_shipping_address_id", "default_billing_address_id"})


class CustomerCreated(Event):
    """A customer was created, with its addresses and metadata."""

    name, scope, resource_type = "customer.created", "customers:read", "customer"
    resource = Customer


class CustomerUpdated(Event):
    """Fields of a customer changed."""

    name, scope, resource_type = "customer.updated", "customers:read", "customer"
    resource = Customer
    recorded = frozenset(Customer.__struct_fields__).difference(
        _ADDRESS_FIELDS,
        {
            "id",
            "metadata",
            "orders_count",
            "total_spent",
            "last_order_at",
            "created_at",
            "updated_at",
            "version",
            "deleted_at",
        },
    )


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
    recorded = _ADDRESS_FIELDS


class CustomerMetadataChanged(Event):
    """Metadata of a customer changed: shared keys, or keys of your own app. Only your app receives events of its own keys."""

    name, scope, resource_type = "customer.metadata_changed", "customers:read", "customer"
    resource = Customer
    recorded = frozenset({"metadata"})


class Caused(msgspec.Struct, frozen=True):
    """An event that a change causes. With an audience, only that app receives it, and `data` shows what that app sees."""

    kind: type[Event]
    changes: dict[str, tuple[Any, Any]]
    audience: int | None = None
    views: Mapping[int, AppView] = {}  # without an audience: the own metadata of each app


def events_of(customer: CustomerCopy) -> list[Caused]:
    """The events of a changed customer."""
    own = {app_id: entries for app_id, entries in customer.metadata.items() if app_id is not None and entries}
    views = {app_id: AppView(data=_metadata_seen_by(customer, app_id)) for app_id in own}
    if customer.before is None:
        return [Caused(CustomerCreated, {}, views=views)]
    caused: list[Caused] = []
    changes = changes_between(customer.before, customer.fields)
    of_profile = {name: pair for name, pair in changes.items() if name not in _ADDRESS_FIELDS}
    if of_profile:
        caused.append(Caused(CustomerUpdated, of_profile, views=views))
    if changes.keys() & _ADDRESS_FIELDS:
        caused.append(Caused(CustomerAddressChanged, _address_changes(changes), views=views))
    entries = entries_changed(customer)
    owners = dict.fromkeys(each.app_id for each in entries)
    if None not in owners:
        return caused + [
            Caused(CustomerMetadataChanged, _metadata_changes(entries, [owner]), owner) for owner in owners
        ]
    # One event for a request: every app sees the change of shared keys, and the owner of other keys also theirs.
    both = {
        owner: AppView(_metadata_seen_by(customer, owner), dict(_metadata_changes(entries, [None, owner])))
        for owner in owners
        if owner is not None
    }
    return [*caused, Caused(CustomerMetadataChanged, _metadata_changes(entries, [None]), views=views | both)]


def _metadata_seen_by(customer: CustomerCopy, app_id: int) -> dict[str, Any]:
    """The metadata of a customer as an app sees it: the shared keys and its own."""
    seen = {**customer.metadata.get(None, {}), **customer.metadata.get(app_id, {})}
    return {"metadata": {key: msgspec.Raw(text.encode()) for key, text in seen.items()}}


def _metadata_changes(
    entries: Sequence[ChangedEntry], owners: Sequence[int | None]
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The changed entries of these owners, before and after."""
    changed = [each for each in entries if each.app_id in owners]
    old = {each.key: value_of(each.old) for each in changed if each.old is not None}
    new = {each.key: value_of(each.new) for each in changed if each.new is not None}
    return {"metadata": (old, new)}


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
