"""Splits an upload into parts of whole rows, and reads the rows of a part."""

import csv
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, cast

import msgspec

from stoa.imports.contract import MOST_ITEMS, MOST_ROWS, Options, TooManyRows
from stoa.rest.body import MOST_DEPTH, parse
from stoa.rest.checks import MOST_FAULTS
from stoa.rest.csv_rows import Columns, Header, Sheet
from stoa.rest.headers import CSV, JSON, NDJSON
from stoa.rest.problems import (
    Fault,
    MalformedJson,
    PayloadTooLarge,
    Refusal,
    UnsupportedMediaType,
    ValidationFailed,
    counted,
    printable,
)

PART_ROWS, PART_BYTES = 500, 256 * 1024
ROW_BYTES = 1024 * 1024
JSON_BYTES = 16 * 1024 * 1024
csv.field_size_limit(ROW_BYTES)  # a cell can be a whole row; the limit is the process's, and only this module reads CSV
_BOM = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = (",", ";", "\t")
MEDIA = {".ndjson": NDJSON, ".jsonl": NDJSON, ".csv": CSV, ".json": JSON}  # by the end of the name of a file


class Part(msgspec.Struct):
    """Some rows of a file, complete and unchanged, compressed."""

    first_row: int
    rows: int
    data: bytes


class Row(msgspec.Struct):
    """A row as it was sent; `refusal` is the reason if it cannot be parsed."""

    number: int
    raw: str
    members: dict[str, Any] = {}
    creating: dict[str, Any] = {}  # members that apply only if the row creates a resource
    refusal: Refusal | None = None


class Items(msgspec.Struct, forbid_unknown_fields=True):
    items: list[msgspec.Raw]


_items_decoder = msgspec.json.Decoder(Items)  # here, because several threads must not be the first to use a type


def cut(file: BinaryIO, media: str, columns: Columns, options: Options) -> tuple[Header | None, Iterator[Part]]:
    """The header of a CSV file, and the parts of the file. A malformed file is refused here or while the parts are read."""
    if media == JSON:
        return None, _parts([raw] for raw in _items(file))
    marked = file.read(3) == _BOM
    file.seek(0)
    lines = _lines(file)
    if media != CSV:
        return None, _parts([line] for line in lines if not line.isspace())
    header = _header(lines, marked=marked)
    sheet = columns.read_header(header, options.match_by, ignore_unknown=options.unknown_columns == "ignore")
    return header, _parts(_groups(lines, header, sheet))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, each valid UTF-8 and at most as long as a row may be."""
    start = file.read(3)
    if start.startswith(_WIDE):
        raise UnsupportedMediaType("The file is in UTF-16. Save it as UTF-8.")
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
            raise UnsupportedMediaType(f"Line {number} is not UTF-8. Save the whole file as UTF-8.") from error
        if b"\x00" in line:
            raise UnsupportedMediaType(f"Line {number} contains a NUL byte. Save the file as UTF-8 text.")
        yield line


def _items(file: BinaryIO) -> Iterator[bytes]:
    data = file.read(JSON_BYTES + 1).removeprefix(_BOM)
    if len(data) > JSON_BYTES:
        words = f"A JSON file must have at most {JSON_BYTES:,} bytes. Send NDJSON instead."
        raise PayloadTooLarge(words, max_bytes=JSON_BYTES)
    try:
        data.decode()
        items = _items_decoder.decode(data).items
    except UnicodeDecodeError as error:
        raise MalformedJson("The body is not valid UTF-8.") from error
    except msgspec.ValidationError as error:
        raise ValidationFailed('Send {"items": [...]} with one item for each row.') from error
    except msgspec.DecodeError as error:
        raise MalformedJson(f"{error}.") from error
    except RecursionError as error:
        raise MalformedJson(f"JSON may be nested at most {MOST_DEPTH} levels deep.") from error
    if len(items) > MOST_ITEMS:
        words = f"A JSON file must have at most {MOST_ITEMS:,} items. Send NDJSON, which can have {MOST_ROWS:,} rows."
        raise TooManyRows(words, max_rows=MOST_ITEMS)
    faults: list[Fault] = []
    for number, item in enumerate(items):
        if len(bytes(item)) > ROW_BYTES:
            raise PayloadTooLarge(f"Item {number + 1} is longer than {ROW_BYTES:,} bytes.", max_bytes=ROW_BYTES)
        if not bytes(item).lstrip().startswith(b"{"):
            faults.append(Fault(f"/items/{number}", "invalid_type", "must be an object"))
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'item')} cannot be used.", faults=faults[:MOST_FAULTS])
    for item in items:
        # JSON strings contain no unescaped line breaks.
        yield bytes(item).replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def _header(lines: Iterator[bytes], *, marked: bool) -> Header:
    first = next((line for line in lines if not line.isspace()), b"").decode().strip("\r\n")
    delimiter = max(_DELIMITERS, key=first.count)
    cells = [cell for record, _ in _records([first], Header(delimiter, [])) for cell in record]
    if not any(cell.strip() for cell in cells):
        raise ValidationFailed("The file has no header. The first line must name the columns.")
    header = Header(delimiter, cells, marked)
    header.columns = header.read(cells)
    return header


def _records(lines: Iterable[str], header: Header) -> Iterator[tuple[list[str], bytes]]:
    """Records with their source text; a quoted cell may span several lines."""
    consumed: list[str] = []
    is_ours = header.is_ours

    def recorded() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line

    number = 0
    try:
        for cells in csv.reader(recorded(), delimiter=header.delimiter, strict=True):
            number += 1
            raw = "".join(consumed).encode()
            consumed.clear()
            yield header.read(cells) if is_ours else cells, raw
    except csv.Error as error:
        words = f"{printable(error)} in record {number + 1}; check for a quote that is not closed or not doubled"
        if any("\r" in line.rstrip("\r\n") for line in consumed):
            words = f"a carriage return without a line feed in record {number + 1}; lines must end in LF or CR LF"
        raise ValidationFailed("The file is not valid CSV.", faults=[Fault("", "invalid_format", words)]) from error


def _groups(lines: Iterator[bytes], header: Header, sheet: Sheet) -> Iterator[list[bytes]]:
    """The records of each resource, unchanged."""
    pending: list[bytes] = []
    previous = ""
    number = size = 0
    for cells, raw in _records((line.decode() for line in lines), header):
        if not any(cell.strip() for cell in cells):
            continue
        number += 1
        group = sheet.group_of(cells)
        if pending and (not group or group != previous):
            yield pending
            pending, size = [], 0
        previous = group
        pending.append(raw if raw.endswith(b"\n") else raw + b"\n")
        size += len(raw)
        if size > ROW_BYTES:
            words = f"Row {number} and the records of the same resource are longer than {ROW_BYTES:,} bytes."
            raise PayloadTooLarge(words, max_bytes=ROW_BYTES)
    if pending:
        yield pending


def _parts(groups: Iterable[list[bytes]]) -> Iterator[Part]:
    """Rows collected into parts; the records of one row stay together."""
    pending: list[bytes] = []
    first = number = 1
    rows = size = 0
    for group in groups:
        if pending and (len(pending) + len(group) > PART_ROWS or size + sum(map(len, group)) > PART_BYTES):
            yield _part(first, rows, pending)
            pending, rows, size, first = [], 0, 0, number
        pending += group
        rows += 1
        number += len(group)
        size += sum(map(len, group))
        if number > MOST_ROWS + 1:
            raise TooManyRows(f"A file must have at most {MOST_ROWS:,} rows.", max_rows=MOST_ROWS)
    if not pending:
        raise ValidationFailed("The file has no rows.")
    yield _part(first, rows, pending)


def _part(first: int, rows: int, pending: list[bytes]) -> Part:
    return Part(first, rows, zlib.compress(b"".join(pending), 1))


# --- parts -----------------------------------------------------------------------------------------------------------


def read_part(first_row: int, data: bytes, sheet: Sheet | None, header: Header | None) -> list[Row]:
    """The rows of a part; a row that cannot be parsed has a refusal."""
    content = zlib.decompress(data).decode()
    if sheet is not None and header is not None:
        return _read_records(first_row, content, sheet, header)
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


def _read_records(first_row: int, content: str, sheet: Sheet, header: Header) -> list[Row]:
    rows: list[Row] = []
    pending: list[tuple[list[str], bytes]] = []
    number = first_row
    previous = ""

    def finish() -> None:
        raw = b"".join(raw for _, raw in pending).decode()
        try:
            members, creating = sheet.row([cells for cells, _ in pending])
            if isinstance(members, msgspec.Raw):
                members = _object(parse(bytes(members)))
            rows.append(Row(number, raw, members, creating))
        except Refusal as refusal:
            rows.append(Row(number, raw, refusal=refusal))

    for record in _records(io.StringIO(content, newline=""), header):
        group = sheet.group_of(record[0])
        if pending and (not group or group != previous):
            finish()
            number += len(pending)
            pending.clear()
        previous = group
        pending.append(record)
    finish()
    return rows


def cells_of(raw: str, header: Header) -> Iterator[list[str]]:
    """The cells of a stored row, record by record."""
    return (cells for cells, _ in _records(io.StringIO(raw, newline=""), header))


def with_rows(
    first_row: int, data: bytes, sheet: Sheet | None, header: Header | None, corrected: Mapping[int, str]
) -> tuple[bytes, int]:
    """A part with the text of some rows replaced, and the change of its number of rows: equal keys join records."""
    rows, end = read_part(first_row, data, sheet, header), "" if header else "\n"
    replaced = zlib.compress("".join(corrected.get(row.number, row.raw + end) for row in rows).encode(), 1)
    return replaced, len(read_part(first_row, replaced, sheet, header)) - len(rows)


def without_rows(data: bytes, header: Header | None, matches: Callable[[str], bool]) -> bytes | None:
    """A part in which matching rows are emptied but keep their position; None if no row matches."""
    content = zlib.decompress(data).decode()
    if header is None:
        rows, empty = content.removesuffix("\n").split("\n"), "{}"
        kept = "".join(f"{empty if matches(row) else row}\n" for row in rows)
    else:
        records = [raw.decode() for _, raw in _records(io.StringIO(content, newline=""), header)]
        kept = "".join(f"{header.delimiter}\n" if matches(raw) else raw for raw in records)
    return zlib.compress(kept.encode(), 1) if kept != content else None
