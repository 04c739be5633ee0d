"""The working copies of a request, indexed by their keys; each key belongs to one customer."""

from collections.abc import Iterable, Iterator
from typing import Literal

from stoa.customers.contract import CustomerExists, email_key
from stoa.customers.working_copy import CustomerCopy
from stoa.rest.problems import ExternalIdTaken, Fault

MatchBy = Literal["email", "phone", "external_id", "id"]


class CustomerWorkspace:
    """The customers that one transaction loaded or created. An edited copy replaces the previous one."""

    def __init__(self, customers: Iterable[CustomerCopy]) -> None:
        self._by_key: dict[tuple[str, int | str], CustomerCopy] = {}
        for customer in customers:
            self._add(customer)

    def find(self, by: MatchBy, value: int | str) -> CustomerCopy | None:
        """Find by a value in the form in which it is compared: email in lower case, phone in E.164."""
        return self._by_key.get((by, value))

    def put(self, customer: CustomerCopy, before: CustomerCopy | None = None) -> CustomerCopy:
        """Add a new customer, or the edit of an existing one. A key of another customer is refused."""
        faults: list[Fault] = []
        existing: list[int | None] = []
        for by, value in _keys(customer):
            holder = self._by_key.get((by, value))
            if holder is not None and holder is not before:
                code = "external_id_taken" if by == "external_id" else "customer_exists"
                faults.append(Fault(f"/{by}", code, f"is the {by} of another customer"))
                existing.append(holder.id)
        if faults:
            kind = CustomerExists if any(fault.code == "customer_exists" for fault in faults) else ExternalIdTaken
            index = next(n for n, fault in enumerate(faults) if fault.code == kind.code)
            raise kind("Another customer has the same keys.", faults=faults, existing_id=existing[index])
        if before is not None:
            self._remove(before)
        self._add(customer)
        return customer

    def _add(self, customer: CustomerCopy) -> None:
        self._by_key |= dict.fromkeys(_keys(customer), customer)

    def _remove(self, customer: CustomerCopy) -> None:
        for key in _keys(customer):
            del self._by_key[key]


def _keys(customer: CustomerCopy) -> Iterator[tuple[str, int | str]]:
    fields = customer.fields
    if customer.id is not None:
        yield "id", customer.id
    if fields["email"] is not None:
        yield "email", email_key(fields["email"])
    for name in ("phone", "external_id"):
        if fields[name] is not None:
            yield name, fields[name]
