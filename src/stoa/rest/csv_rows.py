"""CSV files: the meaning of their columns, and the conversion of the records of one resource to one row."""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, cast

import msgspec
from msgspec import inspect

from stoa.rest.checks import unknown_field
from stoa.rest.problems import Fault, ValidationFailed, counted, printable

MOST_COLUMNS = 500
# A spreadsheet computes a cell that begins with one of these, some also in their full-width and small forms, or after a
# space. A leading apostrophe makes it text.
_COMPUTED = r"(?:[\t\r\n]|[\s\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b])"
_FORMULA, _QUOTED_FORMULA = re.compile(f"'*{_COMPUTED}"), re.compile(f"'+{_COMPUTED}")
REPORT_COLUMNS = ("error_code", "error_detail")
EXPORTED = "exported_at"  # the last column of an exported file
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?\Z")  # programs write 0.30000000000000004

# Converts a cell. An invalid cell stays text, so that the validation of the resource reports it.
Cell = Callable[[str], Any]


def text(cell: str) -> Any:
    return cell


def integer(cell: str) -> Any:
    return int(cell) if _WHOLE.match(cell) else cell


def number(cell: str) -> Any:
    return Decimal(cell) if _NUMBER.match(cell) else cell


def flag(cell: str) -> Any:
    return {"true": True, "false": False}.get(cell.lower(), cell)


def words(cell: str) -> Any:
    return [word.strip() for word in cell.split("|") if word.strip()]


def images(cell: str) -> Any:
    """URLs separated by bars; the text after a URL and a space is its alternative text."""
    pairs = [each.partition(" ") for each in words(cell)]
    return [{"url": url, "alt": alt.strip() or None} for url, _, alt in pairs]


def collections(cell: str) -> Any:
    """Handles separated by bars; the number after a handle and a colon is the position."""
    pairs = [each.partition(":") for each in words(cell)]
    return [
        {"handle": handle, "position": int(place) if _WHOLE.match(place) else None}
        if not colon or _WHOLE.match(place)
        else {"handle": f"{handle}:{place}"}
        for handle, colon, place in pairs
    ]


def image_sources(cell: str) -> Any:
    """Likewise, of pictures that Stoa fetches."""
    return [{"source_url": each.pop("url"), **each} for each in images(cell)]


def document(cell: str) -> Any:
    """A list of objects or an object with arbitrary keys, as JSON."""
    return msgspec.json.decode(cell)


def columns_of(kind: type[msgspec.Struct], prefix: str = "") -> dict[str, Cell]:
    """A column for each field of a body that one cell can hold, with the conversion that its type needs."""
    cells = {field.encode_name: _cell(inspect.type_info(field.type)) for field in msgspec.structs.fields(kind)}
    return {prefix + name: cell for name, cell in cells.items() if cell is not None}


def _cell(info: inspect.Type) -> Cell | None:
    if isinstance(info, inspect.Metadata):
        extra = cast("dict[str, Any]", info.extra or {})  # pyright: ignore[reportUnknownMemberType]
        return text if "money" in extra else _cell(info.type)
    if isinstance(info, inspect.UnionType):
        return next((cell for each in info.types if (cell := _cell(each)) is not None), None)
    return _CELLS.get(type(info))


_CELLS: dict[type[inspect.Type], Cell] = {
    inspect.StrType: text,
    inspect.LiteralType: text,
    inspect.IntType: integer,
    inspect.DecimalType: number,
    inspect.BoolType: flag,
}


Target = Literal["resource", "member", "option", "json", "nothing", "nameless"]


def quoted(cell: str) -> str:
    """A cell of a report, safe to open in a spreadsheet."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unquoted(cell: str) -> str:
    """The original cell: the inverse of `quoted`, whatever the cell contains."""
    return cell[1:] if _QUOTED_FORMULA.match(cell) else cell


class Header(msgspec.Struct, omit_defaults=True):
    """The first record of a file, stored for the runner and the report, and how the file is written."""

    delimiter: str
    columns: list[str]
    marked: bool = msgspec.field(default=False, name="byte_order_mark")  # begins with the mark of UTF-8

    @property
    def is_ours(self) -> bool:
        """Whether the file is a report or an export that was downloaded, so that its cells are quoted."""
        return any(name.strip().lower() in (*REPORT_COLUMNS, EXPORTED) for name in self.columns)

    def read(self, cells: list[str]) -> list[str]:
        """The cells of a record as they were sent at first."""
        return [unquoted(cell) for cell in cells] if self.is_ours else cells


class Column(msgspec.Struct):
    """The target of a cell: the resource, one of its members, the options of the member, or nothing."""

    of: Target
    path: tuple[str, ...] = ()
    read: Cell = text


class Columns(msgspec.Struct, frozen=True):
    """The columns of a resource. A name that ends in a dot accepts any key after it."""

    resource: Mapping[str, Cell]
    member: Mapping[str, Cell] = {}
    members: str = ""  # the field of the resource that lists its members, such as variants
    flat: frozenset[str] = frozenset()  # fields of a single member that can be set on the resource itself
    grouped_by: tuple[str, ...] = ()  # consecutive records with the same value are one resource
    grouped_with_options: str = ""  # likewise, in a file with options
    imported: bool = True  # whether such a file can be imported
    shown: Callable[[dict[str, Any]], dict[str, Any]] | None = (
        None  # adds to a document what its columns show otherwise
    )
    only_read: Mapping[str, tuple[str, Cell]] = {}  # columns that only an import has, each with the field that it sets
    drawn_from: Mapping[str, str] = {}  # the field of the document that `shown` takes a column's value from

    def read_header(self, header: Header, match_by: str, *, ignore_unknown: bool = False) -> "Sheet":
        """The columns of a file; a refusal names all unusable ones."""
        if len(header.columns) > MOST_COLUMNS:
            raise ValidationFailed(f"A file must have at most {MOST_COLUMNS} columns.")
        found: list[Column] = []
        faults: list[Fault] = []
        names: list[str] = []
        for given in header.columns:
            name, column = self._column(given)
            if not name:
                column = Column("nameless")
            elif column is None and not ignore_unknown:
                known = [*self.resource, *self.only_read, *self.member, "option.", "json"]
                faults.append(unknown_field(given, "", known, faults))
            elif column is not None and (name in names or _sets_again(column, found)):
                faults.append(Fault(f"/{printable(given)}", "invalid_format", "appears twice in the header"))
            names.append(name)
            found.append(column or Column("nothing"))
        if "json" not in names and not faults and match_by not in names:
            words_ = f"is required to match rows; the file has {', '.join(names[:20])}"
            faults.append(Fault(f"/{match_by}", "required", printable(words_, 200)))
        if faults:
            raise ValidationFailed(
                f"{counted(len(faults), 'column')} of the header cannot be used.", faults=faults[:100]
            )
        return Sheet(self, names, found, self._group(names, found))

    def _column(self, given: str) -> tuple[str, Column | None]:
        prefix, dot, rest = given.strip().partition(".")
        name = prefix.lower() + dot + (rest.strip() if prefix.lower() in ("option", "metadata") else rest.lower())
        if name == "json":
            return name, Column("json")
        if name in ("row", *REPORT_COLUMNS, EXPORTED):
            return name, Column("nothing")
        if self.member and name.startswith("option.") and rest.strip():
            return name, Column("option", ("option_values", rest.strip()))
        targets: dict[Target, Mapping[str, Cell]] = {"resource": self.resource, "member": self.member}
        for of, known in targets.items():
            path = tuple(name.removeprefix("variant.").split(".")) if of == "member" else tuple(name.split("."))
            if name in known and not name.endswith("."):
                return name, Column(of, path, known[name])
            for each, read in known.items():
                if each.endswith(".") and name.startswith(each) and len(name) > len(each):
                    base = tuple(each.removeprefix("variant.").strip(".").split("."))
                    return name, Column(of, (*base, given.strip()[len(each) :]), read)
        if name in self.only_read:
            field, read = self.only_read[name]
            return name, Column("resource", (field,), read)
        return name, None

    def _group(self, names: list[str], found: list[Column]) -> int | None:
        optional = any(column.of == "option" for column in found)
        keys = [*self.grouped_by, *([self.grouped_with_options] if optional else [])]
        return next((names.index(key) for key in keys if key in names), None)


def _sets_again(column: Column, others: Sequence[Column]) -> bool:
    """Whether another column sets the same field of the resource."""
    return column.of == "resource" and any(each.of == "resource" and each.path == column.path for each in others)


class Sheet(msgspec.Struct):
    """The interpreted columns of a file."""

    columns: Columns
    names: list[str]
    found: list[Column]
    group: int | None  # the index of the cell by which records are grouped

    def group_of(self, record: Sequence[str]) -> str:
        """The value that a record shares with the other records of its resource; empty for a single record."""
        return record[self.group].strip() if self.group is not None and self.group < len(record) else ""

    def row(self, records: Sequence[Sequence[str]]) -> tuple[Any, dict[str, Any]]:
        """The records of one resource as one row, and the members that apply only if the row creates it."""
        resource: Any = {}
        listed: list[dict[str, Any]] = []
        faults: list[Fault] = []
        options: dict[str, list[str]] = {}
        for index, record in enumerate(records):
            if any(cell.strip() for cell in record[len(self.found) :]):
                faults.append(Fault("", "invalid_format", "has more cells than the header"))
            member: dict[str, Any] = {}
            for column, cell in zip(self.found, record, strict=False):
                content = cell.strip()
                if not content or column.of == "nothing":
                    continue  # an empty cell leaves its field unchanged
                if column.of == "nameless":
                    faults.append(Fault("", "invalid_format", "has a value in a column without a name"))
                    continue
                if column.of == "json":
                    return msgspec.Raw(content.encode()), {}
                value = None if content == "null" else column.read(content)
                if column.of == "resource":
                    if _put(resource, column.path, value) not in (None, value) and index:
                        words_ = "must equal the first record of the same product"
                        faults.append(Fault("/" + "/".join(column.path), "invalid_format", words_))
                    continue
                _put(member, column.path, value)
                if column.of == "option":
                    values = options.setdefault(column.path[1], [])
                    values += [content] if content not in values else []
            listed.append(member)
        if faults:
            raise ValidationFailed(f"{counted(len(faults), 'cell')} cannot be used.", faults=faults)
        if len(listed) == 1 and listed[0].keys() <= self.columns.flat:
            return {**resource, **listed[0]}, {}
        return (
            {**resource, self.columns.members: listed},
            {"options": [{"name": name, "values": values} for name, values in options.items()]},
        )


def _put(members: dict[str, Any], path: tuple[str, ...], value: Any) -> Any:
    """Set the value at a path unless it has one, and return the value that it then has."""
    *inner, last = path
    for name in inner:
        members = members.setdefault(name, {})
    return members.setdefault(last, value)
