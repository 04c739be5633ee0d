"""Faults of an imported file in the words of a spreadsheet: lines and columns instead of rows and pointers."""

from collections.abc import Sequence

import msgspec

from stoa.rest.csv_rows import Header
from stoa.rest.problems import Fault

# Columns of the variant that have no prefix, because a product with one variant has them too.
_WITHOUT_PREFIX = ("sku", "barcode", "stock")
# The first lines of a file to begin with; the second is an example.
TEMPLATES: dict[str, Sequence[Sequence[str]]] = {
    "products": (
        ("sku", "name", "price", "status", "brand", "category", "tags", "description", "stock.on_hand", "variant.gtin"),
        ("MUG-1", "Stoneware Mug", "12.50", "draft", "Kiln", "Home/Kitchen", "mug|gift", "Holds 300 ml.", "30", "4006381333931"),
    ),
    "customers": (
        ("email", "first_name", "last_name", "phone", "company", "tags"),
        ("ada@example.com", "Ada", "Byron", "+32470123456", "Mill Lane Ltd", "wholesale|vip"),
    ),
}  # fmt: skip


class Place(msgspec.Struct, frozen=True):
    """The column of a fault, and the record of its row, from 0; a product with several variants has several."""

    column: str
    record: int = 0


def place_of(pointer: str) -> Place | None:
    """Where a fault is in a file; None if it concerns the whole row."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    record, prefix = 0, ""
    if parts[:1] == ["variants"]:
        record = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
        parts = parts[2:]
        prefix = "" if parts[:1] and parts[0] in _WITHOUT_PREFIX else "variant."
    if not parts:
        return None
    if parts[0] == "option_values":
        return Place(f"option.{parts[1]}" if len(parts) > 1 else "option.", record)
    named = parts[:1] if len(parts) > 1 and parts[1].isdigit() else parts  # an item of a list has no column of its own
    return Place(prefix + ".".join(named), record)


def line_of(row: int, header: Header | None) -> int:
    """The line of a row: in a CSV file, the header is line 1."""
    return row + 1 if header else row


def marked_cells(faults: Sequence[Fault], columns: Sequence[str]) -> dict[str, str]:
    """What is wrong with each cell of a row, by its record and the position of its column."""
    marked: dict[str, str] = {}
    known = [name.strip().lower() for name in columns]
    for fault in faults:
        place = place_of(fault.pointer)
        if place is None:
            continue
        wanted = place.column.lower()
        found = next(
            (n for n, name in enumerate(known) if name == wanted or (wanted == "option." and name.startswith(wanted))),
            None,
        )
        if found is not None:
            marked.setdefault(f"{place.record}.{found}", fault.detail)
    return marked


def in_words(fault: Fault) -> str:
    """A fault as a sentence about its column, with the column that was probably meant."""
    place = place_of(fault.pointer)
    meant = (fault.meta or {}).get("did_you_mean")
    detail = "is no column that Stoa knows" if fault.code == "unknown_field" and place else fault.detail
    sentence = f"{place.column} {detail}" if place else f"{detail[:1].upper()}{detail[1:]}"
    return f"{sentence}. Did you mean {meant}?" if meant else f"{sentence}."
