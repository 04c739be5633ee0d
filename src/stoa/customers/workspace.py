"""The customers that a request works on, found by what names them, each name belonging to one."""

from collections.abc import Iterable, Iterator
from typing import Literal

from stoa.customers.contract import CustomerExists, email_key
from stoa.customers.working_copy import CustomerCopy
from stoa.rest.problems import ExternalIdTaken, Fault

MatchBy = Literal["email", "phone", "external_id", "id"]


class CustomerWorkspace:
    """Everything loaded or made in one transaction; an edited copy takes the place of the one before."""

    def __init__(self, customers: Iterable[CustomerCopy]) -> None:
        self._named: dict[tuple[str, int | str], CustomerCopy] = {}
        for customer in customers:
            self._add(customer)

    def find(self, by: MatchBy, value: int | str) -> CustomerCopy | None:
        """By a value as it is compared: an e-mail address lowered, a phone number in E.164."""
        return self._named.get((by, value))

    def put(self, customer: CustomerCopy, before: CustomerCopy | None = None) -> CustomerCopy:
        """Add a new customer, or an edit of one that is here; refused where it takes another's name."""
        faults: list[Fault] = []
        existing: list[int | None] = []
        for by, value in _names(customer):
            holder = self._named.get((by, value))
            if holder is not None and holder is not before:
                code = "external_id_taken" if by == "external_id" else "customer_exists"
                faults.append(Fault(f"/{by}", code, "is another customer's"))
                existing.append(holder.id)
        if faults:
            kind = CustomerExists if any(fault.code == "customer_exists" for fault in faults) else ExternalIdTaken
            place = next(n for n, fault in enumerate(faults) if fault.code == kind.code)
            raise kind("A customer's names belong to one customer.", faults=faults, existing_id=existing[place])
        if before is not None:
            self._remove(before)
        self._add(customer)
        return customer

    def _add(self, customer: CustomerCopy) -> None:
        self._named |= dict.fromkeys(_names(customer), customer)

    def _remove(self, customer: CustomerCopy) -> None:
        for name in _names(customer):
            del self._named[name]


def _names(customer: CustomerCopy) -> Iterator[tuple[str, int | str]]:
    fields = customer.fields
    if customer.id is not None:
        yield "id", customer.id
    if fields["email"] is not None:
        yield "email", email_key(fields["email"])
    for name in ("phone", "external_id"):
        if fields[name] is not None:
            yield name, fields[name]
