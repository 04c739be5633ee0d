"""The forms of defined metadata on the pages of products, customers and orders."""

import msgspec

from stoa.access.queries import DEFINITIONS
from stoa.portal.kit.forms import OnceForm
from stoa.portal.kit.visit import Visit
from stoa.rest.metadata import Definitions, definitions_in_force


class MetadataForm(OnceForm):
    """The values of defined keys as texts, and those that the page showed; an empty value removes its key."""

    shown: list[str] = msgspec.field(default_factory=list[str])
    values: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    seen: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def changes(self) -> dict[str, str | None]:
        """The keys whose values differ from what the page showed, so that other keys keep what others wrote meanwhile."""
        return {key: self.values.get(key) for key in self.shown if self.values.get(key) != self.seen.get(key)}

    def fields(self, at: str) -> dict[str, str]:
        """The field of each pointer, for faults."""
        return {f"{at}/{key}": f"values[{key}]" for key in self.shown}


async def definitions_for(visit: Visit) -> Definitions:
    """The definitions that people follow on the store."""
    return definitions_in_force(await DEFINITIONS.one(visit.db, visit.store.id), None)
