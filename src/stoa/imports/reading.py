"""Files in, parts out: an upload is cut into parts of whole rows, and a part is read back into its rows."""

import csv
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

import msgspec

from stoa.imports.contract import CSV, JSON, MOST_ITEMS, MOST_ROWS, Options, TooManyRows
from stoa.imports.csv_rows import Columns, Header, Sheet
from stoa.rest.body import parse
from stoa.rest.problems import (
    Fault,
    MalformedJson,
    PayloadTooLarge,
    Refusal,
    UnsupportedMediaType,
    ValidationFailed,
    shown,
)

PART_ROWS, PART_BYTES = 500, 256 * 1024
ROW_BYTES = 1024 * 1024
JSON_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = (",", ";", "\t")


class Part(msgspec.Struct):
    """Some rows of a file, whole and as they came."""

    first_row: int
    rows: int
    data: bytes


class Row(msgspec.Struct):
    """A row as it was sent; `refusal` tells why it cannot be read."""

    number: int
    raw: str
    members: dict[str, Any] = {}
    creating: dict[str, Any] = {}  # what is added only where the row makes something new
    refusal: Refusal | None = None


class Items(msgspec.Struct, forbid_unknown_fields=True):
    items: list[msgspec.Raw]


def cut(file: BinaryIO, media: str, columns: Columns, options: Options) -> tuple[Header | None, Iterator[Part]]:
    """What a file says of itself, and its parts; a file that cannot be read is refused here or while they are read."""
    if media == JSON:
        return None, _parts([raw] for raw in _items(file))
    lines = _lines(file)
    if media != CSV:
        return None, _parts([line] for line in lines if not line.isspace())
    header, sheet = _header(lines, columns, options.match_by)
    return header, _parts(_groups(lines, header, sheet))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, each found to be UTF-8; none is longer than a row may be."""
    start = file.read(3)
    if start.startswith(_WIDE):
        raise UnsupportedMediaType("The file is in UTF-16: save it as UTF-8.")
    file.seek(3 if start == _BOM else 0)
    number = 0
    while line := file.readline(ROW_BYTES + 1):
        number += 1
        if len(line) > ROW_BYTES:
            words = f"Line {number} is longer than {ROW_BYTES:,} bytes."
            raise PayloadTooLarge(words, max_bytes=ROW_BYTES)
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise UnsupportedMediaType(f"Line {number} is not UTF-8: save the whole file as UTF-8.") from error
        if b"\x00" in line:
            raise UnsupportedMediaType(f"Line {number} holds NUL: save the file as UTF-8 text.")
        yield line


def _items(file: BinaryIO) -> Iterator[bytes]:
    data = file.read(JSON_BYTES + 1).removeprefix(_BOM)
    if len(data) > JSON_BYTES:
        words = f"As JSON a file may have at most {JSON_BYTES:,} bytes; send NDJSON instead."
        raise PayloadTooLarge(words, max_bytes=JSON_BYTES)
    try:
        data.decode()
        items = msgspec.json.decode(data, type=Items).items
    except UnicodeDecodeError as error:
        raise MalformedJson("The body is not valid UTF-8.") from error
    except msgspec.ValidationError as error:
        raise ValidationFailed('Send {"items": [...]}, each item a row.') from error
    except msgspec.DecodeError as error:
        raise MalformedJson(f"{error}.") from error
    if len(items) > MOST_ITEMS:
        words = f"As JSON a file has at most {MOST_ITEMS:,} items; send NDJSON, which takes {MOST_ROWS:,}."
        raise TooManyRows(words, max_rows=MOST_ITEMS)
    for number, item in enumerate(items, 1):
        if len(bytes(item)) > ROW_BYTES:
            raise PayloadTooLarge(f"Item {number} is longer than {ROW_BYTES:,} bytes.", max_bytes=ROW_BYTES)
        yield bytes(item).replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"  # no string holds a bare one


def _header(lines: Iterator[bytes], columns: Columns, match_by: str) -> tuple[Header, Sheet]:
    first = next((line for line in lines if not line.isspace()), b"").decode().strip("\r\n")
    delimiter = max(_DELIMITERS, key=first.count)
    cells = [cell for record, _ in _records([first], delimiter) for cell in record]
    if not any(cell.strip() for cell in cells):
        raise ValidationFailed("The file has no header: its first line names the columns.")
    header = Header(delimiter, cells)
    return header, columns.read_header(header, match_by)


def _records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[list[str], bytes]]:
    """Records with the very text that each was read from: quoted cells may go over several lines."""
    held: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            held.append(line)
            yield line

    number = 0
    try:
        for cells in csv.reader(watched(), delimiter=delimiter, strict=True):
            number += 1
            raw = "".join(held).encode()
            held.clear()
            yield cells, raw
    except csv.Error as error:
        words = f"{shown(error)} in the record after {number} others; is a quote not closed, or not doubled?"
        if any("\r" in line.rstrip("\r\n") for line in held):
            words = f"a carriage return stands alone in the record after {number} others; lines end in LF or CR LF"
        raise ValidationFailed("The file is no CSV.", faults=[Fault("", "invalid_format", words)]) from error


def _groups(lines: Iterator[bytes], header: Header, sheet: Sheet) -> Iterator[list[bytes]]:
    """The records of one resource each, as they came."""
    held: list[bytes] = []
    shared = ""
    number = size = 0
    for cells, raw in _records((line.decode() for line in lines), header.delimiter):
        if not any(cell.strip() for cell in cells):
            continue
        number += 1
        mine = sheet.group_of(cells)
        if held and (not mine or mine != shared):
            yield held
            held, size = [], 0
        shared = mine
        held.append(raw if raw.endswith(b"\n") else raw + b"\n")
        size += len(raw)
        if size > ROW_BYTES:
            words = f"Row {number} and those that belong to it are longer than {ROW_BYTES:,} bytes."
            raise PayloadTooLarge(words, max_bytes=ROW_BYTES)
    if held:
        yield held


def _parts(groups: Iterable[list[bytes]]) -> Iterator[Part]:
    """Rows gathered into parts; a row of several records is never cut."""
    held: list[bytes] = []
    first = number = 1
    rows = size = 0
    for group in groups:
        if held and (len(held) + len(group) > PART_ROWS or size + sum(map(len, group)) > PART_BYTES):
            yield _part(first, rows, held)
            held, rows, size, first = [], 0, 0, number
        held += group
        rows += 1
        number += len(group)
        size += sum(map(len, group))
        if number > MOST_ROWS + 1:
            raise TooManyRows(f"A file has at most {MOST_ROWS:,} rows.", max_rows=MOST_ROWS)
    if not held:
        raise ValidationFailed("The file holds no rows.")
    yield _part(first, rows, held)


def _part(first: int, rows: int, held: list[bytes]) -> Part:
    return Part(first, rows, zlib.compress(b"".join(held), 1))


# --- back again ------------------------------------------------------------------------------------------------------


def read_part(first_row: int, data: bytes, sheet: Sheet | None, delimiter: str) -> list[Row]:
    """The rows of a part; one that cannot be read says so itself."""
    content = zlib.decompress(data).decode()
    if sheet is not None:
        return _read_records(first_row, content, sheet, delimiter)
    lines = content.removesuffix("\n").split("\n")
    return [_read_line(number, line) for number, line in enumerate(lines, first_row)]


def _read_line(number: int, raw: str) -> Row:
    try:
        return Row(number, raw, _object(parse(raw.encode())))
    except Refusal as refusal:
        return Row(number, raw, refusal=refusal)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationFailed("A row must be a JSON object.", faults=[Fault("", "invalid_type", "must be an object")])
    return cast("dict[str, Any]", value)


def _read_records(first_row: int, content: str, sheet: Sheet, delimiter: str) -> list[Row]:
    rows: list[Row] = []
    held: list[tuple[list[str], bytes]] = []
    number = first_row
    shared = ""

    def finish() -> None:
        raw = b"".join(raw for _, raw in held).decode()
        try:
            members, creating = sheet.row([cells for cells, _ in held])
            if isinstance(members, msgspec.Raw):
                members = _object(parse(bytes(members)))
            rows.append(Row(number, raw, members, creating))
        except Refusal as refusal:
            rows.append(Row(number, raw, refusal=refusal))

    for record in _records(io.StringIO(content, newline=""), delimiter):
        mine = sheet.group_of(record[0])
        if held and (not mine or mine != shared):
            finish()
            number += len(held)
            held.clear()
        shared = mine
        held.append(record)
    finish()
    return rows


def cells_of(raw: str, delimiter: str) -> Iterator[list[str]]:
    """The cells of a kept row, record by record."""
    return (cells for cells, _ in _records(io.StringIO(raw, newline=""), delimiter))


def without_rows(data: bytes, header: Header | None, is_meant: Callable[[str], bool]) -> bytes | None:
    """A part in which the rows that are meant are empty, each still in its place; None when it has none of them."""
    content = zlib.decompress(data).decode()
    if header is None:
        rows, empty = content.removesuffix("\n").split("\n"), "{}"
        kept = "".join(f"{empty if is_meant(row) else row}\n" for row in rows)
    else:
        records = [raw.decode() for _, raw in _records(io.StringIO(content, newline=""), header.delimiter)]
        kept = "".join(f"{header.delimiter}\n" if is_meant(raw) else raw for raw in records)
    return zlib.compress(kept.encode(), 1) if kept != content else None
