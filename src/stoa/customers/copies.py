"""Working copies of customers, on which a request tries its edits before anything is stored."""

from typing import Any

import msgspec

from stoa.customers.documents import Spaces


class CustomerCopy(msgspec.Struct, frozen=True):
    """A customer being worked on: an edit gives another copy. `id` is None until it is stored."""

    id: int | None
    fields: dict[str, Any]
    spaces: Spaces
    version: int = 0
    before: dict[str, Any] | None = None  # as stored; None when new
    spaces_before: Spaces = {}

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def touched(self) -> bool:
        return self.fields != self.before or self.spaces != self.spaces_before

    def address(self, address_id: int) -> dict[str, Any] | None:
        return next((each for each in self.fields["addresses"] if each["id"] == address_id), None)


class Entry(msgspec.Struct):
    """A metadata entry that differs from what is stored; no value where it goes."""

    space: int
    key: str
    old: str | None
    new: str | None


def entries_changed(customer: CustomerCopy) -> list[Entry]:
    found: list[Entry] = []
    for space in sorted(customer.spaces.keys() | customer.spaces_before.keys()):
        before, after = customer.spaces_before.get(space, {}), customer.spaces.get(space, {})
        found += [
            Entry(space, key, before.get(key), after.get(key))
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
    return found
