"""The forms of defined metadata on the pages of products, customers and orders."""

from typing import Annotated, Any

import msgspec

from stoa.access.queries import DEFINITIONS
from stoa.portal.kit.forms import RELOAD, FormError, OnceForm, text
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.writes import Change
from stoa.rest.metadata import Definitions, definitions_in_force
from stoa.rest.metadata_types import MOST_DEFINITIONS, Resource

_Texts = Annotated[dict[str, str], text("Reload the page.", max_length=MOST_DEFINITIONS * 10, multiline=True)]


class MetadataForm(OnceForm):
    """The values of defined keys as texts, and those that the page showed; an empty value removes its key."""

    shown: list[str] = msgspec.field(default_factory=list[str])
    values: _Texts = msgspec.field(default_factory=dict[str, str])
    seen: _Texts = msgspec.field(default_factory=dict[str, str])

    @property
    def changes(self) -> dict[str, str | None]:
        """The keys whose values differ from what the page showed, so that other keys keep what others wrote meanwhile."""
        return {key: self.values.get(key) for key in self.shown if self.values.get(key) != self.seen.get(key)}

    def fields(self, at: str) -> dict[str, str]:
        """The field of each pointer, for faults."""
        return {f"{at}/{key}": f"values[{key}]" for key in self.shown}


async def metadata_change(visit: Visit, form: MetadataForm, resource: Resource, id_: int, at: str) -> Change:
    """What a form of metadata does; the audit log names the keys that it changes, and has no entry if there are none.

    Only defined keys are accepted: an entry outlives the erasure of a customer, so it contains no text that a form made up.
    """
    definitions, keys = await definitions_for(visit), sorted(form.changes)
    if not all(definitions.get(resource, key) for key in keys):
        raise FormError({"": RELOAD})
    action = f"{resource}.changed" if keys else ""
    return Change(action, f"{resource}:{id_}", form.fields(at), {"metadata": keys})


class NewMetadata(OnceForm):
    """A new resource with values of defined keys, as texts; `defined` are the keys that the page shows."""

    defined: list[str] = msgspec.field(default_factory=list[str])
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def metadata_members(self, definitions: Definitions, resource: Resource) -> dict[str, Any]:
        return {"metadata": definitions.read(resource, self.metadata)} if self.metadata else {}

    @property
    def metadata_fields(self) -> dict[str, str]:
        """The field of each pointer, for faults."""
        return {f"/metadata/{key}": f"metadata[{key}]" for key in self.defined}


async def definitions_for(visit: Visit) -> Definitions:
    """The definitions that people follow on the store."""
    return definitions_in_force(await DEFINITIONS.one(visit.db, visit.store.id), None)
