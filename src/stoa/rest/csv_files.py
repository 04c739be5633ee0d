"""Documents as records of a CSV file: the columns of the import, or those of the resource, and cells that are safe to open."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import inspect

from stoa.db.query import json_of
from stoa.rest import csv_rows
from stoa.rest.csv_rows import EXPORTED, MOST_COLUMNS, Cell, Columns, quoted

DELETED = "deleted_at"
CELLS_AT_ONCE = 2_000  # are written before other requests have the event loop
_WORDS = (inspect.StrType, inspect.IntType, inspect.LiteralType)
_OPTION = "option."
_LAST = ("json", EXPORTED)  # the last columns of a file that can be imported
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?\Z")  # a spreadsheet reads it as what it is


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_of(value)


def _images(value: Sequence[Mapping[str, Any]]) -> str:
    return "|".join(f"{each['url']} {each['alt']}" if each["alt"] else each["url"] for each in value)


def _collections(value: Sequence[Mapping[str, Any]]) -> str:
    chosen = [each for each in value if not each["by_rule"]]
    return "|".join(
        f"{each['handle']}:{each['position']}" if each["position"] is not None else each["handle"] for each in chosen
    )


# How the cell of a column is written: the inverse of how it is read.
_WRITERS: dict[Cell, Callable[[Any], str]] = {
    csv_rows.words: lambda value: "|".join(map(str, value)),
    csv_rows.images: _images,
    csv_rows.collections: _collections,
}


@cache
def columns_of_resource(kind: type[msgspec.Struct]) -> Columns:
    """The columns of a resource that has no import: its fields in order, nested objects as `contact.email`, lists of words
    joined by bars, and anything else as JSON."""
    return Columns(resource=dict(_columns(kind, "")), imported=False)


def _columns(kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Cell]]:
    for field in msgspec.structs.fields(kind):
        info, name = _bare(inspect.type_info(field.type)), prefix + field.encode_name
        if isinstance(info, inspect.StructType):
            yield from _columns(info.cls, f"{name}.")
        else:
            words = isinstance(info, inspect.ListType) and isinstance(_bare(info.item_type), _WORDS)
            yield name, csv_rows.words if words else csv_rows.text


def _bare(info: inspect.Type) -> inspect.Type:
    """A type without its annotations and without null."""
    if isinstance(info, inspect.Metadata):
        return _bare(info.type)
    if isinstance(info, inspect.UnionType):
        return next(bare for each in info.types if not isinstance(bare := _bare(each), inspect.NoneType))
    return info


class Field(msgspec.Struct, frozen=True):
    """A column of the file, and where its value is in a document: in the resource or in one of its members."""

    name: str
    path: tuple[str, ...]
    read: Cell
    of_member: bool = False
    of_key: bool = False  # of one of the arbitrary keys of an object

    def value(self, of: Any) -> Any:
        for name in self.path:
            if not isinstance(of, dict):
                return None
            of = cast("dict[str, Any]", of).get(name)
        return of

    def cell(self, value: Any) -> str:
        if value is None:
            return ""
        text = _WRITERS.get(self.read, _text)(value)
        return text if _NUMBER.match(text) else quoted(text)

    def keeps(self, value: Any) -> bool:
        """Whether an import reads the value back from its cell. An empty cell changes nothing."""
        if value is None:
            return True
        text = _WRITERS.get(self.read, _text)(value)
        if self.read is csv_rows.images:
            value = [{"url": each["url"], "alt": each["alt"]} for each in value]
        if self.read is csv_rows.collections:  # those by rule follow from the rules
            value = [{"handle": e["handle"], "position": e["position"]} for e in value if not e["by_rule"]]
        return not text or (text != "null" and self.read(text.strip()) == value)


class CsvFile:
    """The file of one stream. Its columns are those of its first rows: metadata keys and options that occur only later or
    do not fit, and values that a cell cannot hold exactly, are in the column `json`, which an import reads instead of the
    cells."""

    def __init__(
        self,
        columns: Columns,
        docs: Sequence[bytes],
        fields: frozenset[str] | None,
        omitted: frozenset[str],
        *,
        deleted: bool,
    ) -> None:
        self._columns = columns
        self._exported_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._fields = fields
        self._omitted = omitted - {columns.members}
        shown = [field for field in self._expanded([self._row(doc) for doc in docs]) if self._shows(field)]
        if deleted and not any(field.name == DELETED for field in shown):
            shown.append(Field(DELETED, (DELETED,), csv_rows.text))
        self._shown = _fitting(shown)
        # Of objects with arbitrary keys, by whether they belong to the members: the keys that have a column.
        self._keys: dict[bool, dict[str, set[str]]] = {False: {}, True: {}}
        for of_member, bases in ((False, _bases(columns.resource)), (True, [*_bases(columns.member), "option_values"])):
            for base in bases:
                if self._shows(Field(base, (base,), csv_rows.text, of_member)):
                    found = [field for field in self._shown if field.of_member == of_member and field.path[0] == base]
                    self._keys[of_member][base] = {field.path[1] for field in found}

    def _shows(self, field: Field) -> bool:
        """Whether the request asks for the field of the document that the column is taken from."""
        columns, top = self._columns, field.path[0]
        name = columns.members if field.of_member else columns.drawn_from.get(top, top)
        return name not in self._omitted and (self._fields is None or name in self._fields or field.name == "id")

    def header(self) -> bytes:
        """The names of the columns."""
        names = [field.name for field in self._shown]
        return _csv([[*names, *_LAST] if self._columns.imported else names])

    def pieces(self, docs: Iterable[bytes]) -> Iterator[bytes]:
        """The records of documents, some cells at a time; a resource with several members has a record for each."""
        records: list[list[str]] = []
        for doc in docs:
            for record in self._records(doc):
                records.append(record)
                if len(records) * len(record) >= CELLS_AT_ONCE:
                    yield _csv(records)
                    records = []
        if records:
            yield _csv(records)

    def _row(self, doc: bytes) -> dict[str, Any]:
        row = _decode(doc)
        return self._columns.shown(row) if self._columns.shown else row

    def _members(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        return row.get(self._columns.members) or []

    def _expanded(self, rows: Sequence[dict[str, Any]]) -> Iterator[Field]:
        """The columns, with one for each metadata key and option of these rows."""
        members = [member for row in rows for member in self._members(row)]
        for of_member, known, found in ((False, self._columns.resource, rows), (True, self._columns.member, members)):
            for name, read in known.items():
                path = tuple(name.removeprefix("variant.").strip(".").split("."))
                if not name.endswith("."):
                    yield Field(name, path, read, of_member)
                    continue
                for key in _keys(found, path[0]):
                    yield Field(name + key, (path[0], key), read, of_member, of_key=True)
        for key in _keys(members, "option_values"):
            yield Field(_OPTION + key, ("option_values", key), csv_rows.text, of_member=True, of_key=True)

    def _records(self, doc: bytes) -> Iterator[list[str]]:
        row = self._row(doc)
        members = self._members(row) or [{}]
        if not self._columns.imported:
            yield [field.cell(field.value(row)) for field in self._shown]
        elif DELETED not in row or row[DELETED] is None:
            if self._exact(row, members):
                for index, member in enumerate(members):
                    yield [*self._cells(row, member, first=index == 0), "", self._exported_at]
            else:
                cells = [str(row["id"]) if field.name == "id" else "" for field in self._shown]
                yield [*cells, self._json(doc), self._exported_at]
        else:
            yield [
                *(field.cell(field.value(row)) if not field.of_member else "" for field in self._shown),
                "",
                self._exported_at,
            ]

    def _cells(self, row: dict[str, Any], member: dict[str, Any], *, first: bool) -> Iterator[str]:
        for field in self._shown:
            if field.of_member:
                yield field.cell(field.value(member))
            else:
                yield field.cell(field.value(row)) if first or field.name == "id" else ""

    def _exact(self, row: dict[str, Any], members: Sequence[dict[str, Any]]) -> bool:
        """Whether an import of the cells changes nothing."""
        parts = [(False, row), *((True, member) for member in members)]
        return all(
            all(field.keeps(field.value(part)) for field in self._shown if field.of_member == of_member)
            and all(set(_keys_of(part, base)) <= keys for base, keys in self._keys[of_member].items())
            for of_member, part in parts
        )

    def _json(self, doc: bytes) -> str:
        if self._fields is None:
            return doc.decode()
        members = msgspec.json.decode(doc, type=dict[str, msgspec.Raw])
        kept = {name: raw for name, raw in members.items() if name == "id" or name in self._fields}
        return msgspec.json.encode(kept).decode()


def _fitting(fields: Sequence[Field]) -> list[Field]:
    """All columns with a fixed name, and as many of those of keys as an import accepts beside them."""
    keys = [field.name for field in fields if field.of_key]
    room = MOST_COLUMNS - len(_LAST) - (len(fields) - len(keys))
    left_out = {*keys[room:]}
    return [field for field in fields if field.name not in left_out]


def _bases(known: Mapping[str, Cell]) -> list[str]:
    return [name.removeprefix("variant.").strip(".") for name in known if name.endswith(".")]


def _keys(rows: Iterable[dict[str, Any]], name: str) -> list[str]:
    """The keys of an object in these rows that the name of a column can hold, one line without outer spaces; of those that
    differ only in case, one."""
    found = (key for row in rows for key in _keys_of(row, name))
    return sorted({key.lower(): key for key in found if key.strip().splitlines() == [key]}.values())


def _keys_of(row: dict[str, Any], name: str) -> list[str]:
    return [*cast("dict[str, Any]", row.get(name) or {})]


def _csv(records: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
