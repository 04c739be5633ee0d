"""A customer as one row of a file: a merge patch that may carry addresses and metadata."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer
from stoa.customers.contract import Address, Customer
from stoa.customers.rules import add_address, change_address, change_customer, new_customer, same_place
from stoa.customers.working_copy import CustomerCopy
from stoa.rest.body import convert
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# What an exported row carries and an import leaves as it is: the service's own book-keeping.
_KEPT_BOOKS = _names(Customer) - _names(NewCustomer)
_KEPT_BOOKS_OF_ADDRESS = _names(Address) - _names(NewAddress)
_FLAGS = ("is_default_shipping", "is_default_billing")


def customer_from_row(row: Mapping[str, Any], app_id: int | None, digits: int) -> CustomerCopy:
    """A new customer from a row; `address` is its only one, as a sheet has room for."""
    members = {name: value for name, value in row.items() if name not in _KEPT_BOOKS and name != "address"}
    if "address" in row:
        members.setdefault("addresses", [row["address"]])
    if isinstance(members.get("addresses"), list):
        members["addresses"] = [_new_address(each) for each in cast("list[Any]", members["addresses"])]
    # What a patch clears, a new one does not have.
    present = {name: value for name, value in members.items() if value is not None}
    metadata = present.get("metadata")
    if isinstance(metadata, dict):
        present["metadata"] = {k: v for k, v in cast("dict[str, Any]", metadata).items() if v is not None}
    body = convert(present, NewCustomer, digits=digits)
    return new_customer(body, present.get("metadata") or {}, app_id)


def change_by_row(customer: CustomerCopy, row: Mapping[str, Any], app_id: int | None, digits: int) -> CustomerCopy:
    """The customer with a row applied; addresses that the row leaves out stay."""
    if row.get("id") not in (None, customer.id):
        raise ValidationFailed(
            "The row names another customer.", faults=[Fault("/id", "read_only_field", "is another customer's id")]
        )
    patch = {n: v for n, v in row.items() if n not in _KEPT_BOOKS and n not in ("address", "addresses")}
    after = change_customer(customer, convert(patch, CustomerChanges, digits=digits), patch, app_id)
    if row.get("address") is not None:
        after = _at("/address", lambda: _default_address(after, row["address"], digits))
    sent: Any = row.get("addresses") or []
    if not isinstance(sent, list):
        fault = Fault("/addresses", "invalid_type", "must be an array")
        raise ValidationFailed("The row's addresses cannot be read.", faults=[fault])
    for place, each in enumerate(cast("list[Any]", sent)):
        current = after
        after = _at(f"/addresses/{place}", lambda: _one_address(current, each, digits))  # noqa: B023
    return after


def _at(pointer: str, edit: Any) -> CustomerCopy:
    """Run an edit; its faults are of the row's member at this place."""
    try:
        return edit()
    except Refusal as refusal:
        for fault in refusal.faults:
            fault.pointer = pointer + fault.pointer
        raise


def _default_address(customer: CustomerCopy, sent: Any, digits: int) -> CustomerCopy:
    """The address of a sheet: it patches the one to which is shipped, or is the first."""
    found = next((each for each in customer.fields["addresses"] if each["is_default_shipping"]), None)
    if found is None:
        return add_address(customer, convert(_new_address(sent), NewAddress, digits=digits))
    return _patched(customer, found, sent, digits)


def _one_address(customer: CustomerCopy, sent: Any, digits: int) -> CustomerCopy:
    """An address of a list: found by its id, else by saying the same; one that is not found is added."""
    members = _object(sent)
    addresses: list[dict[str, Any]] = customer.fields["addresses"]
    found = next((each for each in addresses if each["id"] is not None and each["id"] == members.get("id")), None)
    if found is None:
        new = convert(_new_address(members), NewAddress, digits=digits)
        plain = {name: value for name, value in members.items() if name in _names(NewAddress)}
        found = next((each for each in addresses if same_place(each, plain)), None)
        if found is None:
            return add_address(customer, new)
    return _patched(customer, found, members, digits)


def _patched(customer: CustomerCopy, address: dict[str, Any], sent: Any, digits: int) -> CustomerCopy:
    # That it is no default is said of every other one in a list, and takes nothing away.
    patch = {
        name: value
        for name, value in _object(sent).items()
        if name not in _KEPT_BOOKS_OF_ADDRESS and not (name in _FLAGS and value is False)
    }
    return change_address(customer, address, convert(patch, AddressChanges, digits=digits), patch)


def _new_address(sent: Any) -> Any:
    if not isinstance(sent, dict):
        return sent  # pyright: ignore[reportUnknownVariableType]
    members = cast("dict[str, Any]", sent)
    return {n: v for n, v in members.items() if n not in _KEPT_BOOKS_OF_ADDRESS}


def _object(sent: Any) -> dict[str, Any]:
    if not isinstance(sent, dict):
        raise ValidationFailed("An address must be an object.", faults=[Fault("", "invalid_type", "must be an object")])
    return cast("dict[str, Any]", sent)
