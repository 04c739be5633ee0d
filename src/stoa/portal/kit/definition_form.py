"""The form of a metadata definition, which merchants and developers share."""

import re
from collections.abc import Awaitable
from typing import Annotated, Any

import msgspec

from stoa.access.contract import AccessRefused
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.rest.metadata_types import RESOURCES, TYPES, Definition
from stoa.store_data.definitions import InvalidDefinition, read_definition

_WHOLE, _FRACTION = re.compile(r"-?[0-9]{1,18}\Z"), re.compile(r"-?[0-9]{1,18}\.[0-9]{1,9}\Z")
_Line = Annotated[str, text("Enter at most 255 characters.", max_length=255)]
_Text = Annotated[str, text("Enter at most 5,000 characters.", max_length=5000)]
CHOICES = {"resources": RESOURCES, "types": TYPES}  # what the form offers


class ShownDefinition(msgspec.Struct, frozen=True):
    """A definition in a list, with its owner, and whether it is in force."""

    definition: Definition
    app: str | None = None  # None: the merchant, or the app whose page it is
    in_force: bool = True


class DefinitionForm(msgspec.Struct):
    resource: _Line = ""
    definition_key: _Line = ""
    type: _Line = ""
    min: _Line = ""
    max: _Line = ""
    max_length: _Line = ""
    choices: _Text = ""
    description: Annotated[str, text("Enter at most 500 characters.", max_length=500)] = ""
    required_from: _Line = ""

    def read(self, *, of_app: bool) -> Definition:
        """The definition that the form describes, or the faults of its fields."""
        members: dict[str, Any] = {
            "resource": self.resource,
            "key": self.definition_key,
            "type": self.type,
            "min": _number(self.min),
            "max": _number(self.max),
            "max_length": _number(self.max_length),
            "choices": [each.strip() for each in self.choices.split(",") if each.strip()],
            "description": self.description,
            "required_from": self.required_from or None,
        }
        try:
            return read_definition(members, of_app=of_app)
        except InvalidDefinition as refusal:
            raise FormError(_faults(refusal)) from refusal


class NamedDefinitionForm(msgspec.Struct):
    """The definition that a button removes."""

    resource: _Line = ""
    definition_key: _Line = ""


async def carried_out(work: Awaitable[None]) -> None:
    """Run a change of definitions; a refusal is shown above the form."""
    try:
        await work
    except InvalidDefinition as refusal:
        raise FormError(_faults(refusal)) from refusal
    except AccessRefused as refusal:
        raise FormError({"": sentence(refusal)}) from refusal


def _faults(refusal: InvalidDefinition) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in refusal.faults:
        name = each.pointer.strip("/").partition("/")[0]
        found.setdefault("definition_key" if name == "key" else name, f"{each.detail[:1].upper()}{each.detail[1:]}.")
    return found


def _number(given: str) -> int | float | str | None:
    """A number as JSON has it; any other text stays, and is refused unless it is a date."""
    if not given or _WHOLE.match(given):
        return int(given) if given else None
    return float(given) if _FRACTION.match(given) else given
