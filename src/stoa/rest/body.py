"""Request bodies: read within limits, parsed strictly, and converted to the declared type with all faults at once."""

import asyncio
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from secrets import token_hex
from typing import Any, TypeVar, cast

import msgspec

from stoa.db.waiting import allow
from stoa.rest.call import Call
from stoa.rest.checks import MOST_FAULTS, checker, validation_failed
from stoa.rest.endpoint import JSON_BODY_BYTES, Endpoint
from stoa.rest.problems import (
    Fault,
    InsufficientScope,
    MalformedJson,
    MalformedRequest,
    PayloadTooLarge,
    RequestTimeout,
    UnsupportedMediaType,
    ValidationFailed,
    printable,
)
from stoa.rest.request import Receive
from stoa.rest.scopes import EACH, Path, field_scopes

T = TypeVar("T")

BODY_SECONDS = 30.0
_AT_ONCE_S = 0.01  # a part that takes longer had to arrive first
_DISCARD_SECONDS, _DISCARD_BYTES = 5.0, 16 * 1024 * 1024
INFLATE_RATIO = 20
MOST_DEPTH, _KEYS, _ITEMS = 32, 1_000, 1_000
_SMALL = 1_000


# --- bytes -----------------------------------------------------------------------------------------------------------


async def read_body(
    receive: Receive,
    headers: dict[bytes, bytes],
    most: int = JSON_BODY_BYTES,
    reserve: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read and decompress a whole body. Size and time are limited while it arrives, not afterwards.

    `reserve` counts the bytes beyond those of any body. Decompression takes time, so a compressed body is never larger.
    """
    gzipped = is_gzipped(headers)
    most = min(most, JSON_BODY_BYTES) if gzipped else most
    check_length(headers, most)
    deadline = time.monotonic() + BODY_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        message = await next_part(receive, deadline - time.monotonic())
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise PayloadTooLarge(f"The body may have at most {most:,} bytes.", max_bytes=most)
        if size > JSON_BODY_BYTES:
            reserve(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            break
    raw = b"".join(parts)
    return _decompress(raw, most) if gzipped else raw


def check_length(headers: Mapping[bytes, bytes], most: int) -> None:
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or int(declared[:12]) > most:
        raise PayloadTooLarge(f"The body may have at most {most:,} bytes.", max_bytes=most)


def is_gzipped(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the body is compressed. Any encoding except gzip is refused."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedMediaType(
            "The only supported Content-Encoding is gzip.", headers=[(b"accept-encoding", b"gzip")]
        )
    return encoding == b"gzip"


async def next_part(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    """The next part of a body. A part that does not arrive in time is a refusal."""
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError as error:
        raise RequestTimeout(
            f"The body must arrive within {BODY_SECONDS:.0f} seconds.", headers=[(b"connection", b"close")]
        ) from error
    if message["type"] == "http.disconnect":
        # The server reports a malformed body in the same way as a client that left.
        raise MalformedRequest(
            "The body is incomplete or its chunks are malformed.", headers=[(b"connection", b"close")]
        )
    return message


class BodyParts(msgspec.Struct, eq=False):
    """Receives the parts of a body. A response may leave some of them, which the same connection still carries."""

    receive: Receive
    unread: bool = True

    async def __call__(self) -> MutableMapping[str, Any]:
        started = time.monotonic()
        message = await self.receive()
        if (seconds := time.monotonic() - started) > _AT_ONCE_S:
            allow(seconds)
        self.unread = message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read what is left after the response, within limits. Without it, the server resets the connection: the client loses the
        response that it has not read, or its next request."""
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self.unread and size < _DISCARD_BYTES:
                    size += len((await self()).get("body", b""))


def is_last(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the connection ends with a response that leaves a body: it is too long to discard, or may never be sent."""
    declared = headers.get(b"content-length", b"0")
    return b"expect" in headers or not declared.isdigit() or int(declared[:12]) > _DISCARD_BYTES


def _decompress(gzipped: bytes, most: int) -> bytes:
    """Decompress gzip with a limit on the result, so that a small body cannot exhaust memory."""
    largest = min(most, len(gzipped) * INFLATE_RATIO + 1_000)
    decompressor = zlib.decompressobj(wbits=31)
    try:
        raw = decompressor.decompress(gzipped, largest + 1)
    except zlib.error as error:
        raise UnsupportedMediaType("Content-Encoding is gzip, but the body is not valid gzip.") from error
    if len(raw) > largest:
        raise PayloadTooLarge(
            f"The decompressed body exceeds {most:,} bytes or {INFLATE_RATIO} times its compressed size.",
            max_bytes=most,
        )
    if not decompressor.eof or decompressor.unused_data:
        raise UnsupportedMediaType("The gzip body is truncated or followed by other data.")
    return raw


# --- long values ---------------------------------------------------------------------------------------------------

_LONG = 64 * 1024
_LIFTED = f"@{token_hex(8)}-"  # begins what replaces a long value; no caller knows it
_VALUE = re.compile(rb'\s*:\s*"')


def lift(raw: bytes) -> tuple[bytes, list[memoryview]]:
    """A large body without the long values of members named `data`, and these values, which need not be parsed."""
    if len(raw) <= JSON_BODY_BYTES:
        return raw, []
    view, kept, values = memoryview(raw), list[bytes | memoryview](), list[memoryview]()
    copied = at = lifted = 0
    while 0 <= (at := raw.find(b'"data"', at)) <= JSON_BODY_BYTES + lifted:
        at += len(b'"data"')
        begin = _VALUE.match(raw, at)
        end = raw.find(b'"', begin.end()) if begin else -1
        if begin and end - begin.end() > _LONG:
            kept += [view[copied : begin.end()], f"{_LIFTED}{len(values)}".encode()]
            values.append(view[begin.end() : end])
            lifted += end - begin.end()
            copied = at = end
    rest = b"".join([*kept, view[copied:]])
    if len(rest) > JSON_BODY_BYTES:
        raise PayloadTooLarge(
            f"The body may have at most {JSON_BODY_BYTES:,} bytes beside its pictures.", max_bytes=JSON_BODY_BYTES
        )
    return rest, values


def lifted_number(text: str) -> int | None:
    """The number of the long value that a text replaces; None for any other text."""
    number = text.removeprefix(_LIFTED)
    return int(number) if text.startswith(_LIFTED) and number.isdecimal() and len(number) < 4 else None


def put_back(value: Any, lifted: Sequence[memoryview], *, images: bool = False) -> None:
    """Put the long values that are not of images back into a parsed body, where the limits of their fields refuse them."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            put_back(item, lifted, images=images)
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for name, member in members.items():
            number = lifted_number(member) if isinstance(member, str) and not (images and name == "data") else None
            if number is None:
                put_back(member, lifted, images=name == "images")
            else:
                members[name] = parse(b'"%b"' % lifted[number])


# --- JSON ------------------------------------------------------------------------------------------------------------


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise MalformedJson(f'The key "{printable(repeated)}" occurs more than once in an object.')
    if len(members) > _KEYS:
        raise MalformedJson(f"An object may have at most {_KEYS} keys.")
    return members


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**63:
        raise MalformedJson("A number exceeds 64 bits.")
    return number


_SMALLEST = -324  # the exponent of the smallest float above zero


def _fraction(text: str) -> Decimal | int:
    """A number with a point or an exponent. 97.0 is the integer 97, as in JSON Schema."""
    try:
        number = Decimal(text) if len(text) <= 64 else None
    except InvalidOperation:  # an exponent of twenty digits
        number = None
    # Every float is accepted, also the smallest; zero has any exponent.
    if number is None or (number and not _SMALLEST <= number.adjusted() <= 30):
        raise MalformedJson("A number has too many digits.")
    whole = abs(number) < 2**63 and number == number.to_integral_value()
    return int(number) if whole else number


def _constant(text: str) -> None:
    raise MalformedJson(f"{text} is not valid JSON.")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def parse(raw: bytes) -> Any:
    """Parse JSON into plain values. Fractions become Decimal; ambiguous and hostile input is refused."""
    try:
        text = raw.decode()
        value = _decoder.decode(text)
    except UnicodeDecodeError as error:
        raise MalformedJson("The body is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        raise MalformedJson(f"{error.msg} at line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise MalformedJson(f"JSON may be nested at most {MOST_DEPTH} levels deep.") from error
    escaped = b"\\u" in raw
    if escaped or len(raw) > _SMALL or raw.count(b"[") + raw.count(b"{") > MOST_DEPTH:
        _inspect(value, 1, escaped=escaped)
    return value


def _inspect(value: Any, depth: int, *, escaped: bool) -> None:
    """Check a large body for depth and length, and one with escapes, which alone can contain them, for NUL and lone surrogates."""
    if isinstance(value, str):
        if escaped and _FORBIDDEN.search(value):
            raise MalformedJson("Text must not contain NUL characters or lone surrogates.")
        return
    if not isinstance(value, (dict, list)):
        return
    if value and depth >= MOST_DEPTH:
        raise MalformedJson(f"JSON may be nested at most {MOST_DEPTH} levels deep.")
    if isinstance(value, dict):
        members = list(cast("dict[str, Any]", value).values())
        if escaped:
            members += cast("dict[str, Any]", value)
    else:
        members = cast("list[Any]", value)
        if len(members) > _ITEMS:
            raise MalformedJson(f"An array may have at most {_ITEMS} items.")
    for member in members:
        if escaped or isinstance(member, (dict, list)):
            _inspect(member, depth + 1, escaped=escaped)


_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


# --- declared types --------------------------------------------------------------------------------------------------

_BODY_TYPES = {b"application/json"}
_PATCH_TYPES = {b"application/json", b"application/merge-patch+json"}
_IN_ITEM = re.compile(r"/items/([0-9]+)(?=/|\Z)")


def decode(raw: bytes, headers: Mapping[bytes, bytes], endpoint: Endpoint, call: Call) -> Any:
    """Decode a body into the type that the endpoint declares."""
    media, _, parameters = headers.get(b"content-type", b"").lower().partition(b";")
    patch = endpoint.method == "PATCH"
    allowed = _PATCH_TYPES if patch else _BODY_TYPES
    if not raw and not endpoint.body_required and not media:
        return None
    if media.strip() not in allowed or (b"charset" in parameters and b"utf-8" not in parameters):
        listed = b", ".join(sorted(allowed))
        raise UnsupportedMediaType(
            "Send the body as application/json in UTF-8.",
            headers=[(b"accept-patch" if patch else b"accept-post", listed)],
        )
    if not raw:
        raise MalformedJson("A request body is required.")
    rest, call.lifted = lift(raw)
    value = parse(rest)
    if call.lifted:
        put_back(value, call.lifted)
    if not isinstance(value, dict):
        raise ValidationFailed("The body must be a JSON object.")
    members = cast("dict[str, Any]", value)
    type_: Any = next((kind for name, kind in endpoint.bodies.items() if members.get(name)), endpoint.body)
    check_field_scopes(members, type_, call.may)
    if type_ is endpoint.batch:
        return _decode_batch(members, type_, call)
    return _decode_members(members, endpoint, type_, call)


def _decode_members(members: dict[str, Any], endpoint: Endpoint, type_: type[Any], call: Call) -> Any:
    """Decode a body without its read-only fields, which the handler compares with the resource, or which are faults.

    Faults that leave something for the handler to check are kept in `call.faults`.
    """
    read_only, response_only = endpoint.read_only, endpoint.response_only[type_]
    call.echoed = {name: member for name, member in members.items() if name in read_only}
    call.patch = {name: member for name, member in members.items() if name not in read_only | response_only}
    checker(type_)(call.patch, "", call.faults, call.store.digits)
    invalid = bool(call.faults)
    call.faults += [_read_only(name) for name in members if name in response_only]
    if invalid and not call.echoed:
        raise validation_failed(call.faults)
    if invalid:
        call.patch = {}  # so that the handler only compares the read-only fields
    return msgspec.convert(call.patch, type_, strict=False)


def _decode_batch(members: dict[str, Any], type_: type[Any], call: Call) -> Any:
    """Decode a batch. A fault within an item refuses only that item, so that the other items are processed too."""
    faults: list[Fault] = []
    checker(type_)(members, "", faults, call.store.digits)
    of_items: dict[int, list[Fault]] = {}
    for fault in faults:
        inside = _IN_ITEM.match(fault.pointer)
        if inside is None:
            raise validation_failed(faults)
        of_items.setdefault(int(inside[1]), []).append(
            msgspec.structs.replace(fault, pointer=fault.pointer[inside.end() :])
        )
    call.patch = members
    call.refused_items = {index: validation_failed(each) for index, each in of_items.items()}
    sent = cast("list[Any]", members["items"])
    kept = [item for index, item in enumerate(sent) if index not in of_items]
    return msgspec.convert({**members, "items": kept}, type_, strict=False)


def convert(value: Any, type_: type[T], *, digits: int) -> T:
    """Convert plain values to the declared type, or refuse with all faults."""
    faults: list[Fault] = []
    checker(type_)(value, "", faults, digits)
    if faults:
        raise validation_failed(faults)
    return msgspec.convert(value, type_, strict=False)


def _read_only(name: str) -> Fault:
    return Fault(f"/{name}", "read_only_field", "is read-only; leave it out")


# --- scopes of fields ------------------------------------------------------------------------------------------------


def check_field_scopes(value: Any, type_: Any, may: Callable[[str], bool]) -> None:
    """Refuse a body that sends fields whose scope the caller lacks. A field that is null is not sent."""
    faults = [
        Fault(pointer, InsufficientScope.code, f"requires the scope {scope}", {"required_scope": scope})
        for path, scope in field_scopes(type_)
        if not may(scope)
        for pointer in _sent(value, path, "")
    ]
    if faults:
        scope = faults[0].meta["required_scope"] if faults[0].meta else ""
        raise InsufficientScope(
            f"The field {faults[0].pointer} requires the scope {scope}.",
            faults=faults[:MOST_FAULTS],
            required_scope=scope,
        )


def _sent(value: Any, path: Path, at: str) -> Iterator[str]:
    """The pointers to the fields at a path that a body contains."""
    if not path:
        if value is not None:
            yield at
    elif path[0] == EACH:
        for index, item in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
            yield from _sent(item, path[1:], f"{at}/{index}")
    elif isinstance(value, dict):
        yield from _sent(cast("dict[str, Any]", value).get(path[0]), path[1:], f"{at}/{path[0]}")
