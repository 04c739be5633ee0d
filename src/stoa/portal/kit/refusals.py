"""Shows the refusals of endpoints beside the fields of the form that caused them."""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import cast

from stoa.inventory.contract import StaleQuantity
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, outdated_form
from stoa.rest.problems import Fault, NotFound, Refusal, VersionConflict

_STALE = (
    "Somebody changed this while your page was open. The page now shows the current state: check it, and submit again."
)


@asynccontextmanager
async def refusals_as_faults(
    fields: Collection[str] | Mapping[str, str] = (), *, replaces: bool = False
) -> AsyncGenerator[None]:
    """Convert an endpoint's refusal to form faults; faults of other fields are shown above the form.

    `fields` are the names of the form's fields, or the field for each JSON Pointer; the longest pointer wins.
    A form that `replaces` stored values stays refused if these have changed; any other can be submitted again.
    """
    pointers = (
        cast("Mapping[str, str]", fields) if isinstance(fields, Mapping) else {f"/{name}": name for name in fields}
    )
    try:
        yield
    except NotFound as refusal:
        raise not_found() from refusal
    except VersionConflict as refusal:
        raise (outdated_form() if replaces else FormError({"": _STALE}, status=409)) from refusal
    except Refusal as refusal:
        faults: dict[str, str] = {}
        stale: set[str] = set()
        for fault in refusal.faults:
            name = _field(fault.pointer, pointers)
            message = _message(fault)
            faults.setdefault(name, message if name else f"{refusal.detail} {message}".strip())
            if _is_stale_level(fault):
                stale.add(name)
        raise FormError(faults or {"": refusal.detail}, stale=stale) from refusal


def _message(fault: Fault) -> str:
    """The text beside a field; a merchant knows no names of API fields."""
    if _is_stale_level(fault) and fault.meta:
        return f"The stock on hand is {fault.meta['on_hand']} now. Check it, and submit again."
    return f"{fault.detail[:1].upper()}{fault.detail[1:]}."


def _is_stale_level(fault: Fault) -> bool:
    """Whether a fault names the level of stock that a form must know."""
    return fault.code == StaleQuantity.code and "on_hand" in (fault.meta or {})


def _field(pointer: str, pointers: Mapping[str, str]) -> str:
    """The field of a fault; empty if the form has none for it."""
    matching = [each for each in pointers if pointer == each or pointer.startswith(f"{each}/")]
    return pointers[max(matching, key=len)] if matching else ""
