"""What somebody typed: read from a form, checked field by field, and kept to be shown again beside its faults."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta
from starlette.requests import Request

from stoa.rest.body import read_body
from stoa.rest.problems import Refusal

TOKEN = "_token"  # noqa: S105 - the name of a field
MOST_BYTES = 64 * 1024
_MOST_FIELDS = 200
_MEDIA = "application/x-www-form-urlencoded"
_ASKED = "Fill this in."
_LINES = "\n\t"


class Unreadable(Exception):
    """The body is no form that a page of ours could have sent."""


class Wrong(Exception):
    """A form that is not carried out: what is wrong, by field; an empty name is about the form as a whole."""

    def __init__(self, faults: Mapping[str, str] | None = None, /, status: int = 422, **more: str) -> None:
        super().__init__("a form was wrong")
        self.faults = {**(faults or {}), **more}
        self.status = status


class Filled(msgspec.Struct):
    """A form as it was sent: its values, never the secret ones, and its faults."""

    address: str
    values: dict[str, list[str]]
    faults: dict[str, str]


def text(say: str, *, least: int = 0, most: int = 255, secret: bool = False) -> Meta:
    """The bounds of a text field and the sentence that says them; a secret is kept as typed and never shown again."""
    return Meta(min_length=least, max_length=most, extra={"say": say, "secret": secret})


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form under its limits, each with all of its values."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA:
        raise Unreadable
    try:
        raw = await read_body(request.receive, dict(request.headers.raw), most=MOST_BYTES)
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except (Refusal, ValueError) as error:
        raise Unreadable from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return fields


def decode(kind: type[msgspec.Struct], given: Mapping[str, Sequence[str]]) -> msgspec.Struct:
    """The form as its type, or every fault at once, each with the sentence that its field declares. A type may have
    a class method `faults` for what concerns several fields; it sees those that could be read."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for field in msgspec.structs.fields(kind):
        say = _declared(field.type).get("say", _ASKED)
        try:
            value = _value(field, given)
            if value is not msgspec.UNSET:
                values[field.name] = msgspec.convert(value, field.type, strict=False)
            elif field.required:
                faults[field.name] = say if given.get(field.name, [""])[-1] else _ASKED
        except (msgspec.ValidationError, ValueError):
            faults[field.name] = say
    check: Callable[[Mapping[str, Any]], dict[str, str]] = getattr(kind, "faults", _no_more)
    faults = check(values) | faults
    if faults:
        raise Wrong(faults)
    return kind(**values)


def _no_more(_: Mapping[str, Any]) -> dict[str, str]:
    return {}


def _value(field: msgspec.structs.FieldInfo, given: Mapping[str, Sequence[str]]) -> Any:
    """What was sent for a field in the form that its type wants; UNSET for nothing, which may have a default."""
    plain = _plain(field.type)
    if plain is bool:
        return "on" in given.get(field.name, ())
    if get_origin(plain) is list:
        return [_clean(each) for each in given.get(field.name, ())]
    if get_origin(plain) is dict:
        start = f"{field.name}["
        named = {name[len(start) : -1]: values for name, values in given.items() if name.startswith(start)}
        return {key: _clean(values[-1]) for key, values in named.items() if values[-1].strip()}
    if field.name not in given:
        return msgspec.UNSET
    sent = given[field.name][-1]
    if _declared(field.type).get("secret"):
        return sent or msgspec.UNSET
    return _clean(sent) or msgspec.UNSET


def _clean(value: str) -> str:
    """Without the space around it; characters that nobody can see are refused."""
    if not all(c.isprintable() or c in _LINES for c in value):
        raise ValueError("unprintable")
    return value.strip()


def shown_again(kind: type[msgspec.Struct], given: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The values that may stand in the form again: all but secrets and the token."""
    secret = {field.name for field in msgspec.structs.fields(kind) if _declared(field.type).get("secret")}
    return {name: values for name, values in given.items() if name not in secret and name != TOKEN}


def _plain(kind: Any) -> Any:
    """A type without what it is annotated with, and without None."""
    if hasattr(kind, "__metadata__"):
        return _plain(get_args(kind)[0])
    some = [each for each in get_args(kind) if each is not type(None)]
    return _plain(some[0]) if type(None) in get_args(kind) else kind


def _declared(kind: Any) -> Mapping[str, Any]:
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return meta.extra
    return {}
