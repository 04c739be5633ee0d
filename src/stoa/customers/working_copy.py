"""Working copies of customers, which a request edits before it saves anything."""

from datetime import datetime
from typing import Any

import msgspec

from stoa.customers.documents import Metadata


class CustomerCopy(msgspec.Struct, frozen=True):
    """A working copy of a customer. An edit returns another copy; `id` is None until it is stored."""

    id: int | None
    fields: dict[str, Any]
    metadata: Metadata
    version: int = 0
    before: dict[str, Any] | None = None  # as stored; None: new
    metadata_before: Metadata = {}
    created_at: datetime | None = None  # of a new customer that was created elsewhere; None: now

    @property
    def stored_id(self) -> int:
        if self.id is None:
            raise ValueError("the copy is not saved yet")
        return self.id

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def touched(self) -> bool:
        return self.fields != self.before or self.metadata != self.metadata_before

    @property
    def visibly_touched(self) -> bool:
        """Whether something changed that every app sees. Only then does the customer get a new version."""
        return self.fields != self.before or self.metadata.get(None, {}) != self.metadata_before.get(None, {})

    def address(self, address_id: int) -> dict[str, Any] | None:
        return next((each for each in self.fields["addresses"] if each["id"] == address_id), None)


class ChangedEntry(msgspec.Struct):
    """A metadata entry that differs from the stored one; `new` is None if it is removed."""

    app_id: int | None  # None: shared
    key: str
    old: str | None
    new: str | None


def entries_changed(customer: CustomerCopy) -> list[ChangedEntry]:
    """The changed metadata entries: the shared ones, then those of each app."""
    changed: list[ChangedEntry] = []
    owners = customer.metadata.keys() | customer.metadata_before.keys()
    for app_id in [None, *sorted(owner for owner in owners if owner is not None)]:
        before, after = customer.metadata_before.get(app_id, {}), customer.metadata.get(app_id, {})
        changed += [
            ChangedEntry(app_id, key, before.get(key), after.get(key))
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
    return changed
