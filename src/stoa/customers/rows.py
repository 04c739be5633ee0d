"""A customer as a row of a file: a merge patch that may include addresses and metadata."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer
from stoa.customers.contract import Address, Customer
from stoa.customers.rules import add_address, change_address, change_customer, has_same_values, new_customer
from stoa.customers.working_copy import CustomerCopy
from stoa.rest.body import convert
from stoa.rest.call import Store
from stoa.rest.checks import together_with
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# Fields that an export contains and an import ignores, because the service maintains them.
_MAINTAINED = _names(Customer) - _names(NewCustomer)
_MAINTAINED_OF_ADDRESS = _names(Address) - _names(NewAddress)
_FLAGS = ("is_default_shipping", "is_default_billing")


def customer_from_row(row: Mapping[str, Any], app_id: int | None, store: Store) -> CustomerCopy:
    """A new customer from a row; `address` is the only address that a CSV row can contain."""
    members = {name: value for name, value in row.items() if name not in _MAINTAINED and name != "address"}
    if "address" in row:
        members.setdefault("addresses", [row["address"]])
    if isinstance(members.get("addresses"), list):
        members["addresses"] = [_new_address(each) for each in cast("list[Any]", members["addresses"])]
    # null in a new customer means absent.
    present = {name: value for name, value in members.items() if value is not None}
    metadata = present.get("metadata")
    if isinstance(metadata, dict):
        present["metadata"] = {k: v for k, v in cast("dict[str, Any]", metadata).items() if v is not None}
    body = convert(present, NewCustomer, digits=store.digits)
    return new_customer(body, present.get("metadata") or {}, app_id, store.definitions)


def change_by_row(customer: CustomerCopy, row: Mapping[str, Any], app_id: int | None, store: Store) -> CustomerCopy:
    """The customer with a row applied. Addresses that the row omits stay."""
    foreign = row.get("id") not in (None, customer.id)
    with together_with([Fault("/id", "read_only_field", "is the id of another customer")] if foreign else []):
        return _changed_by_row(customer, row, app_id, store)


def _changed_by_row(customer: CustomerCopy, row: Mapping[str, Any], app_id: int | None, store: Store) -> CustomerCopy:
    digits = store.digits
    patch = {n: v for n, v in row.items() if n not in _MAINTAINED and n not in ("address", "addresses")}
    body = convert(patch, CustomerChanges, digits=digits)
    after = change_customer(customer, body, patch, app_id, store.definitions)
    if row.get("address") is not None:
        after = _at("/address", lambda: _default_address(after, row["address"], digits))
    sent: Any = row.get("addresses") or []
    if not isinstance(sent, list):
        fault = Fault("/addresses", "invalid_type", "must be an array")
        raise ValidationFailed("addresses must be an array.", faults=[fault])
    for index, each in enumerate(cast("list[Any]", sent)):
        current = after
        after = _at(f"/addresses/{index}", lambda: _one_address(current, each, digits))  # noqa: B023
    return after


def _at(pointer: str, edit: Any) -> CustomerCopy:
    """Run an edit, and prefix the pointers of its faults."""
    try:
        return edit()
    except Refusal as refusal:
        for fault in refusal.faults:
            fault.pointer = pointer + fault.pointer
        raise


def _default_address(customer: CustomerCopy, sent: Any, digits: int) -> CustomerCopy:
    """Apply the address of a CSV row: it patches the default shipping address, or becomes the first address."""
    found = next((each for each in customer.fields["addresses"] if each["is_default_shipping"]), None)
    if found is None:
        return add_address(customer, convert(_new_address(sent), NewAddress, digits=digits))
    return _patched(customer, found, sent, digits)


def _one_address(customer: CustomerCopy, sent: Any, digits: int) -> CustomerCopy:
    """Apply an address of a list: found by its id, else by equal values, else added."""
    members = _object(sent)
    addresses: list[dict[str, Any]] = customer.fields["addresses"]
    found = next((each for each in addresses if each["id"] is not None and each["id"] == members.get("id")), None)
    if found is None:
        new = convert(_new_address(members), NewAddress, digits=digits)
        plain = {name: value for name, value in members.items() if name in _names(NewAddress)}
        found = next((each for each in addresses if has_same_values(each, plain)), None)
        if found is None:
            return add_address(customer, new)
    return _patched(customer, found, members, digits)


def _patched(customer: CustomerCopy, address: dict[str, Any], sent: Any, digits: int) -> CustomerCopy:
    # A false flag in an export only says that another address is the default.
    patch = {
        name: value
        for name, value in _object(sent).items()
        if name not in _MAINTAINED_OF_ADDRESS and not (name in _FLAGS and value is False)
    }
    return change_address(customer, address, convert(patch, AddressChanges, digits=digits), patch)


def _new_address(sent: Any) -> Any:
    if not isinstance(sent, dict):
        return sent  # pyright: ignore[reportUnknownVariableType]
    members = cast("dict[str, Any]", sent)
    return {n: v for n, v in members.items() if n not in _MAINTAINED_OF_ADDRESS}


def _object(sent: Any) -> dict[str, Any]:
    if not isinstance(sent, dict):
        raise ValidationFailed("An address must be an object.", faults=[Fault("", "invalid_type", "must be an object")])
    return cast("dict[str, Any]", sent)
