"""Reads and validates submitted forms, and keeps their values so that an invalid form can be shown again."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta
from starlette.requests import Request

from stoa.access.contract import AccessRefused
from stoa.names import fault_in
from stoa.rest.body import read_body
from stoa.rest.problems import Refusal

TOKEN = "_token"  # noqa: S105 - the name of a field
MAX_BYTES = 1024 * 1024  # the longest text has 65,535 characters, and a form needs up to twelve bytes for one
GUEST_BYTES = 64 * 1024
MAX_FIELDS = 1_000
_MEDIA_TYPE = "application/x-www-form-urlencoded"
EMAIL_MESSAGE = "Enter an email address, such as maria@example.com."
RELOAD = "This page is incomplete. Reload it, and try again."
_OUTDATED = "Somebody changed this while your page was open. Nothing was saved, and the page still shows your entries."
_REQUIRED = "This field is required."
_CONTROLS = "Remove the line breaks and control characters."
# Control characters and halves of pairs; a field with several lines may contain line breaks and tabs.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_REFUSED_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class MalformedForm(Exception):
    """The body is not a form that one of our pages could have sent."""


class FormError(Exception):
    """A form that is rejected: a message for each field; the empty name means the form as a whole.

    `stale` are the fields of which the page showed a value that somebody has changed since.
    """

    def __init__(
        self, faults: Mapping[str, str] | None = None, /, status: int = 422, stale: Collection[str] = (), **more: str
    ) -> None:
        super().__init__("a form is invalid")
        self.faults = {**(faults or {}), **more}
        self.status = status
        self.stale = frozenset(stale)


def outdated_form() -> FormError:
    """The fault of a form that replaces values which somebody has changed since; it stays refused until it is opened again.

    Its page repeats what was sent, so a second submit would undo the other change, which the page does not show.
    """
    return FormError({"": _OUTDATED}, status=409, stale={""})


def sentence(error: AccessRefused) -> str:
    """The message of a refusal as a fault: with a capital letter and a full stop."""
    message = str(error)
    return f"{message[:1].upper()}{message[1:]}."


class SubmittedForm(msgspec.Struct):
    """An invalid form as it was submitted: its values, without secrets, and its faults."""

    url: str
    values: dict[str, list[str]]
    faults: dict[str, str]
    stale: frozenset[str] = frozenset()


class ConfirmedForm(msgspec.Struct, kw_only=True):
    """A form that takes something away; its box says what, and must be selected."""

    confirmed: bool = False

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        return {} if values.get("confirmed") else {"confirmed": "Select this box to confirm."}


def text(
    message: str,
    *,
    min_length: int = 0,
    max_length: int = 255,
    secret: bool = False,
    multiline: bool = False,
    name: bool = False,
) -> Meta:
    """Declare a text field and its message; a secret is not trimmed and never sent back to the browser.

    A name that others see must not pass for another name.
    """
    extra = {"message": message, "secret": secret, "multiline": multiline, "name": name}
    return Meta(min_length=min_length, max_length=max_length, extra=extra)


Email = Annotated[str, text(EMAIL_MESSAGE, min_length=3, max_length=254)]


class OnceForm(msgspec.Struct, kw_only=True):
    """A form that is carried out once: each shown form has a key of its own."""

    key: Annotated[str, text(RELOAD, max_length=64)] = ""


async def read_form(request: Request, most: int = MAX_BYTES) -> dict[str, list[str]]:
    """Read the fields of a form, each with all of its values, within the size limits."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise MalformedForm
    try:
        raw = await read_body(request.receive, dict(request.headers.raw), most=most)
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except (Refusal, ValueError) as error:
        raise MalformedForm from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return fields


def decode(form_type: type[msgspec.Struct], values: Mapping[str, Sequence[str]]) -> msgspec.Struct:
    """Convert the form to its type, or raise all faults at once, each with the message that its field declares. The
    class method `faults` of a type can add checks across fields; it receives the fields that are valid."""
    decoded: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for field in msgspec.structs.fields(form_type):
        message = _declared(field.type).get("message", _REQUIRED)
        if faults_of_members := _faults_of_members(field, values):
            faults |= faults_of_members
            continue
        try:
            value = _value(field, values)
            if value is not msgspec.UNSET:
                decoded[field.name] = msgspec.convert(value, field.type, strict=False)
                if _declared(field.type).get("name") and (fault := fault_in(str(value))):
                    faults[field.name] = f"The name {fault}."
            elif field.required:
                faults[field.name] = message if values.get(field.name, [""])[-1] else _REQUIRED
        except (msgspec.ValidationError, ValueError):
            faults[field.name] = message
    check: Callable[[Mapping[str, Any]], dict[str, str]] = getattr(form_type, "faults", _no_faults)
    faults = check(decoded) | faults
    if faults:
        raise FormError(faults)
    return form_type(**decoded)


def _faults_of_members(field: msgspec.structs.FieldInfo, values: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The faults of a field with members, such as the cells of a column: each beside its own input."""
    if get_origin(_plain_type(field.type)) is not dict:
        return {}
    faults: dict[str, str] = {}
    for name, sent in values.items():
        try:
            if name.startswith(f"{field.name}["):
                _clean(sent[-1], multiline=_declared(field.type).get("multiline", False))
        except ValueError:
            faults[name] = _CONTROLS
    return faults


def _no_faults(_: Mapping[str, Any]) -> dict[str, str]:
    return {}


def _value(field: msgspec.structs.FieldInfo, values: Mapping[str, Sequence[str]]) -> Any:
    """Return what was sent for a field, in the shape of its type; UNSET if it is empty."""
    field_type = _plain_type(field.type)
    if field_type is bool:
        return "on" in values.get(field.name, ())
    if get_origin(field_type) is list:
        return [_clean(each) for each in values.get(field.name, ())]
    if get_origin(field_type) is dict:
        prefix = f"{field.name}["
        members = {name[len(prefix) : -1]: sent for name, sent in values.items() if name.startswith(prefix)}
        multiline = _declared(field.type).get("multiline", False)
        return {key: _clean(sent[-1], multiline=multiline) for key, sent in members.items() if sent[-1].strip()}
    if field.name not in values:
        return msgspec.UNSET
    sent = values[field.name][-1]
    if _declared(field.type).get("secret"):
        return sent or msgspec.UNSET
    return _clean(sent, multiline=_declared(field.type).get("multiline", False)) or msgspec.UNSET


def _clean(value: str, *, multiline: bool = False) -> str:
    """Trim the value; control characters are refused, also line breaks and tabs unless the field has several lines.

    Other characters that nobody sees belong to ordinary text: the wide space of Japanese, the joiners of Persian and of emoji.
    """
    trimmed = value.strip()
    if (_REFUSED_IN_LINES if multiline else _REFUSED).search(trimmed):
        raise ValueError("a control character")
    return trimmed


def redisplayed(form_type: type[msgspec.Struct], values: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the values that may be sent back to the browser: all but secrets and the token."""
    secret = {field.name for field in msgspec.structs.fields(form_type) if _declared(field.type).get("secret")}
    return {name: sent for name, sent in values.items() if name not in secret and name != TOKEN}


def _plain_type(annotation: Any) -> Any:
    """Return a type without annotations and without None."""
    if hasattr(annotation, "__metadata__"):
        return _plain_type(get_args(annotation)[0])
    others = [each for each in get_args(annotation) if each is not type(None)]
    return _plain_type(others[0]) if type(None) in get_args(annotation) else annotation


def _declared(annotation: Any) -> Mapping[str, Any]:
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return meta.extra
    return {}
