"""A request as the dispatcher reads it: who asks, with what parameters, versions and body."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.ids import new_id
from stoa.rest.body import convert, parse
from stoa.rest.endpoint import Call, Caller, Endpoint, Store
from stoa.rest.filters import InvalidValue
from stoa.rest.limits import Allowance
from stoa.rest.lists import subset
from stoa.rest.problems import (
    Fault,
    HeadersTooLarge,
    InvalidParameter,
    InvalidToken,
    MalformedJson,
    MissingToken,
    UnsupportedMediaType,
    ValidationFailed,
    counted,
)
from stoa.rest.query_string import known_only
from stoa.rest.wire import Receive, Scope

MOST_TAG_BYTES = 4096


class Request:
    """A request on its way through the dispatcher, and what is known of it so far."""

    __slots__ = ("allowance", "call", "caller", "code", "endpoint", "error", "fault", "headers", "method", "origin", "path", "query",
                 "receive", "request_id", "store", "sub_path")  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, sub_path: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.receive = receive
        self.sub_path = sub_path
        self.request_id = new_id("req")
        self.origin = ""
        self.headers: dict[bytes, bytes] = {}
        self.store: Store | None = None
        self.caller: Caller | None = None
        self.endpoint: Endpoint | None = None
        self.allowance: Allowance | None = None
        self.call: Call | None = None  # once the handler has it
        self.code = ""
        self.error: BaseException | None = None
        self.fault: Fault | None = None

    @property
    def base(self) -> str:
        """The address up to and with the API's prefix."""
        return self.path.removesuffix(self.sub_path)


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    value = headers.get(b"authorization")
    if value is None:
        raise MissingToken("Send Authorization: Bearer <token>.")
    kind, _, token = value.partition(b" ")
    if kind.lower() != b"bearer":
        raise MissingToken("Send Authorization: Bearer <token>.")
    try:
        return token.strip().decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidToken from error


def upload_type(headers: Mapping[bytes, bytes], endpoint: Endpoint) -> str:
    media = headers.get(b"content-type", b"").lower().partition(b";")[0].strip().decode("latin-1")
    if media not in endpoint.uploads:
        words = ", ".join(endpoint.uploads)
        raise UnsupportedMediaType(f"Send one of {words}.", headers=[(b"accept-post", words.encode())])
    return media


def read_parameters(request: Request, endpoint: Endpoint, call: Call) -> None:
    """`fields`, `include` and the own parameters of an endpoint that is no list."""
    if not request.query:
        return
    shaping = [*(["fields"] if endpoint.shows_fields else []), *(["include"] if endpoint.includes else [])]
    sets = [*shaping, *(name for name, kind in endpoint.parameters.items() if kind.several)]
    given = known_only(request.query, [*shaping, *endpoint.parameters], sets)
    faults: list[Fault] = []
    for name, kind in endpoint.parameters.items():
        if name in given:
            try:
                call.parameters[name] = kind.read(given[name], call.store)
            except InvalidValue as error:
                faults.append(Fault(name, "invalid_parameter", str(error)))
    known = [field.encode_name for field in msgspec.structs.fields(endpoint.resource)] if endpoint.resource else []
    call.fields = subset("fields", given.get("fields"), known, faults)
    call.include = subset("include", given.get("include"), endpoint.includes, faults) or frozenset()
    if faults:
        raise InvalidParameter(f"{counted(len(faults), 'parameter')} cannot be read.", faults=faults)
    if call.fields is not None:
        call.include |= call.fields & frozenset(endpoint.includes)
        call.fields |= call.include


_BODY_TYPES = {b"application/json"}
_PATCH_TYPES = {b"application/json", b"application/merge-patch+json"}


def decode(raw: bytes, headers: Mapping[bytes, bytes], endpoint: Endpoint, call: Call) -> Any:
    media, _, parameters = headers.get(b"content-type", b"").lower().partition(b";")
    allowed = _PATCH_TYPES if endpoint.method == "PATCH" else _BODY_TYPES
    if not raw and not endpoint.body_required and not media:
        return None
    if media.strip() not in allowed or (b"charset" in parameters and b"utf-8" not in parameters):
        raise UnsupportedMediaType(
            "Send the body as application/json in UTF-8.",
            headers=[
                (
                    b"accept-patch" if endpoint.method == "PATCH" else b"accept-post",
                    b", ".join(sorted(allowed)),
                )
            ],
        )
    if not raw:
        raise MalformedJson("A body is needed.")
    value = parse(raw)
    if not isinstance(value, dict):
        raise ValidationFailed("The body must be a JSON object.")
    members = cast("dict[str, Any]", value)
    body: Any = convert(
        members,
        cast("type[Any]", endpoint.body),
        digits=call.store.digits,
        read_only=endpoint.read_only,
        answered=endpoint.answered,
    )
    call.echoed = {name: member for name, member in members.items() if name in endpoint.read_only}
    call.patch = {name: member for name, member in members.items() if name not in endpoint.read_only}
    return body


_VERSION = re.compile(rb'(?:"(\d{1,9})[^"]*"|(\d{1,9}))\Z')


def tags(headers: Mapping[bytes, bytes], name: bytes) -> bytes | None:
    """A header field that lists entity tags, within the length that the description gives it."""
    header = headers.get(name)
    if header is not None and len(header) > MOST_TAG_BYTES:
        raise HeadersTooLarge(f"{name.decode().title()} may hold at most {MOST_TAG_BYTES} bytes.")
    return header


def versions_allowed(headers: Mapping[bytes, bytes]) -> frozenset[int] | None:
    """The versions that If-Match allows, quotes or not; what is no version of ours matches nothing."""
    header = tags(headers, b"if-match")
    if header is None or header.strip() == b"*":
        return None
    return frozenset(
        int(match[1] or match[2]) for part in header.split(b",") if (match := _VERSION.match(part.strip()))
    )
