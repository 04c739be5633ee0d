"""The metadata definitions of a store: those that a writer must follow, and the faults of the metadata that it sends."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoa.rest.metadata_types import Definition, Resource
from stoa.rest.problems import Fault


class OwnDefinitions(msgspec.Struct, frozen=True):
    """The definitions of one owner: an app, or without an app the merchant."""

    app_id: int | None
    definitions: list[Definition]


class Definitions:
    """The definitions that a writer of a store must follow: one for each key."""

    __slots__ = ("_by_key", "_required")

    def __init__(self, owners: Sequence[OwnDefinitions] = (), app_id: int | None = None) -> None:
        """Combine the owners in order: of several definitions of one key, the first is in force.

        `app_id` is the app that writes; None is a person or an operator. An app requires its keys only of itself.
        """
        self._by_key: dict[tuple[Resource, str], Definition] = {}
        self._required: dict[Resource, list[Definition]] = {}
        for owner in owners:
            for each in owner.definitions:
                if each.is_private and owner.app_id != app_id:
                    continue
                if self._by_key.setdefault((each.resource, each.key), each) is not each:
                    continue
                if each.required_from is not None and owner.app_id in (None, app_id):
                    self._required.setdefault(each.resource, []).append(each)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def get(self, resource: Resource, key: str) -> Definition | None:
        return self._by_key.get((resource, key))

    def of(self, resource: Resource) -> list[Definition]:
        """The definitions of a resource, by their keys."""
        return sorted((each for each in self._by_key.values() if each.resource == resource), key=lambda each: each.key)

    def faults_of_new(self, resource: Resource, entries: Mapping[str, Any], at: str = "/metadata") -> list[Fault]:
        """The faults of the metadata of a new resource, including required keys that it lacks."""
        if not self._by_key:
            return []
        sent = {key: value for key, value in entries.items() if value is not None}
        missing = [each for each in self._required_now(resource) if each.key not in sent]
        return [
            *self.faults_of_changes(resource, sent, at),
            *(_required(each, f"{at}/{each.key}" if entries else at) for each in missing),
        ]

    def faults_of_changes(
        self, resource: Resource, entries: Mapping[str, Any] | None, at: str = "/metadata"
    ) -> list[Fault]:
        """The faults of a merge patch of metadata. None clears all keys. Stored values that it omits are not checked."""
        if not self._by_key:
            return []
        if entries is None:
            return [_required(each, at) for each in self._required_now(resource)]
        faults: list[Fault] = []
        for key, value in entries.items():
            definition = self._by_key.get((resource, key))
            if definition is None:
                continue
            if value is not None:
                faults += definition.faults(value, f"{at}/{key}")
            elif definition in self._required_now(resource):
                faults.append(_required(definition, f"{at}/{key}"))
        return faults

    def _required_now(self, resource: Resource) -> list[Definition]:
        return [each for each in self._required.get(resource, ()) if each.requires_now()]

    def read(self, resource: Resource, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Metadata from a file or a form, whose values are texts, with the values of defined keys in their types."""
        return {
            key: definition.read(value)
            if isinstance(value, str) and (definition := self._by_key.get((resource, key))) is not None
            else value
            for key, value in entries.items()
        }


NO_DEFINITIONS = Definitions()
_owners = msgspec.json.Decoder(list[OwnDefinitions])


def definitions_in_force(stored: str | None, app_id: int | None) -> Definitions:
    """The definitions for a writer from the JSON of all owners; None is a store without definitions."""
    return Definitions(_owners.decode(stored), app_id) if stored else NO_DEFINITIONS


def _required(definition: Definition, at: str) -> Fault:
    words = f"must have the key {definition.key}, which is required since {definition.required_from}"
    if at.endswith(f"/{definition.key}"):
        words = f"is required since {definition.required_from}, as its metadata definition says"
    return Fault(at, "required", words)
