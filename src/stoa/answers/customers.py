"""Answers about customers: the customer of the examples, with her addresses and metadata."""

from typing import Any

import msgspec

from stoa.answers.parts import APP_ID, CHANGED, CREATED, STORE, Answers, Resource, books, one, page
from stoa.customers import examples
from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer
from stoa.customers.documents import value_of
from stoa.customers.rules import add_address, change_address, change_customer, merged, new_customer, with_defaults
from stoa.customers.working_copy import CustomerCopy
from stoa.rest.body import convert

CUSTOMER_ID, ADDRESS_ID = 77, 301


def resources() -> dict[str, Resource]:
    customer = _created()
    return {
        "Customer": _customer(customer),
        "Address": customer.fields["addresses"][0],
        "MetadataEntry": _entries(customer)[0],
    }


def answers() -> Answers:
    entries = _entries(_merged())
    return {
        "update_customer": one(_customer(_changed(), version=2)),
        "create_customer_address": one(_with_workshop().fields["addresses"][1]),
        "update_customer_address": one(_moved().fields["addresses"][1]),
        "update_customer_metadata": page(*entries, limit=len(entries)),
    }


def _created() -> CustomerCopy:
    sent = examples.NEW_CUSTOMER
    return _stored(new_customer(convert(sent, NewCustomer, digits=STORE.digits), sent["metadata"], APP_ID))


def _stored(customer: CustomerCopy) -> CustomerCopy:
    """A customer with the ids and times that it has once it is stored."""
    addresses: list[Resource] = customer.fields["addresses"]
    known = [
        {**each, "id": ADDRESS_ID + place, "customer_id": CUSTOMER_ID, **books(each["version"])}
        for place, each in enumerate(addresses)
    ]
    fields = with_defaults({**customer.fields, "addresses": known})
    return msgspec.structs.replace(customer, id=CUSTOMER_ID, fields=fields, before=fields)


def _changed() -> CustomerCopy:
    patch = examples.CUSTOMER_CHANGES
    return change_customer(_created(), convert(patch, CustomerChanges, digits=STORE.digits), patch, APP_ID)


def _with_workshop() -> CustomerCopy:
    return _stored(add_address(_created(), convert(examples.NEW_ADDRESS, NewAddress, digits=STORE.digits)))


def _moved() -> CustomerCopy:
    customer, patch = _with_workshop(), examples.ADDRESS_CHANGES
    body = convert(patch, AddressChanges, digits=STORE.digits)
    return _stored(change_address(customer, customer.fields["addresses"][1], body, patch))


def _merged() -> CustomerCopy:
    customer = _created()
    metadata, _ = merged(customer.metadata, examples.METADATA_CHANGES, APP_ID, "")
    return msgspec.structs.replace(customer, metadata=metadata)


def _customer(customer: CustomerCopy, version: int = 1) -> Resource:
    metadata = {each["key"]: each["value"] for each in _entries(customer)}
    counted: dict[str, Any] = {"orders_count": 0, "total_spent": "0.00", "last_order_at": None}
    return {"id": customer.id, **customer.fields, "metadata": metadata, **counted, **books(version), "deleted_at": None}


def _entries(customer: CustomerCopy) -> list[Resource]:
    changed = examples.METADATA_CHANGES
    owners = (None, APP_ID)  # shared keys first
    entries = {key: text for owner in owners for key, text in sorted(customer.metadata.get(owner, {}).items())}
    return [
        {
            "key": key,
            "value": (value := value_of(text)),
            "updated_at": CHANGED if changed.get(key) == value else CREATED,
            "updated_by": {"app_id": APP_ID},
        }
        for key, text in entries.items()
    ]
