"""Reads an app file and reports all of its faults at once, each with its key and its line."""

import re
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

import stoa.api  # pyright: ignore[reportUnusedImport] # noqa: F401 - declares the events that a subscription can name
from stoa.access.contract import SCOPES, AccessRefused
from stoa.access.operator import check_name
from stoa.access.public_keys import read_key
from stoa.accounts.rules import is_web_url
from stoa.app_file.contract import MOST_BYTES, AppFile
from stoa.app_file.lines import MOST_PARTS, line_of, line_of_long_key, lines_of
from stoa.rest.body import convert
from stoa.rest.checks import validation_failed
from stoa.rest.problems import Fault, ValidationFailed, did_you_mean, printable
from stoa.store_data.definitions import faults_of_all
from stoa.webhooks.app_callbacks import check_return_urls
from stoa.webhooks.app_subscriptions import check_declaration

_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)\Z")


def read_file(text: str, *, webhook_allow: str | None = None) -> AppFile:
    """The app that a file describes, in its normal form; refuses with all faults.

    Without `webhook_allow`, nobody knows to which addresses the service sends, and they are not checked.
    """
    values = _parsed(text)
    try:
        file = convert(values, AppFile, digits=0)
        file, faults = _normal(file, webhook_allow)
        if faults:
            raise validation_failed(faults)
    except ValidationFailed as refusal:
        raise with_lines(text, refusal) from refusal
    return file


def with_lines(text: str, refusal: ValidationFailed) -> ValidationFailed:
    """The same refusal, whose faults name the lines of the file."""
    lines = lines_of(text) if any(fault.pointer for fault in refusal.faults) else {}  # else it may be no valid file
    return ValidationFailed(refusal.detail, faults=[_with_line(fault, lines) for fault in refusal.faults])


def _with_line(fault: Fault, lines: dict[str, int]) -> Fault:
    line = line_of(lines, fault.pointer)
    return msgspec.structs.replace(fault, meta={**(fault.meta or {}), **({"line": line} if line else {})} or None)


def _parsed(text: str) -> dict[str, Any]:
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise validation_failed([Fault("", "too_long", f"may have at most {MOST_BYTES:,} bytes")])
    if (line := line_of_long_key(text)) is not None:
        raise validation_failed([Fault("", "too_long", f"has a key with more than {MOST_PARTS} parts", {"line": line})])
    try:
        return tomllib.loads(text, parse_float=_fraction)
    except (ValueError, RecursionError) as error:  # also for an integer with thousands of digits
        message = str(error)
        place = _AT_LINE.search(message)
        line = int(place[1]) if place and place[1] else text.count("\n") + 1 if place else None
        words = printable(_AT_LINE.sub("", message) if isinstance(error, tomllib.TOMLDecodeError) else "a value")
        detail = f"is not valid TOML: {words[:1].lower()}{words[1:]}"
        raise validation_failed([Fault("", "invalid_format", detail, {"line": line} if line else None)]) from error


def _fraction(text: str) -> Decimal | float:
    """A fraction is a Decimal. `nan` and `inf` are floats, which no field accepts."""
    number = Decimal(text)
    return number if number.is_finite() else float(number)


def _normal(file: AppFile, webhook_allow: str | None) -> tuple[AppFile, list[Fault]]:
    faults = list(_refused("/name", lambda: check_name(file.name)))
    _check_scopes(file, faults)
    for number, url in enumerate(file.return_urls):
        faults += _return_url_faults(number, url)
    if file.homepage and not is_web_url(file.homepage):
        faults.append(Fault("/homepage", "invalid_format", "must be a URL that begins with https:// or http://"))
    for number, body in enumerate(file.subscriptions):
        before = len(faults)
        kept = check_declaration(body, file.scopes, faults, webhook_allow=webhook_allow)
        body.filter = dict[str, Any](kept)
        faults[before:] = [_under(f"/subscriptions/{number}", fault) for fault in faults[before:]]
        if body.name in [each.name for each in file.subscriptions[:number]]:
            faults.append(Fault(f"/subscriptions/{number}/name", "invalid_format", "occurs more than once"))
    keys: dict[str, dict[str, str]] = {}
    for number, jwk in enumerate(file.keys):
        try:
            key = read_key(msgspec.json.encode(jwk).decode())
        except AccessRefused as refusal:
            faults.append(Fault(f"/keys/{number}", "invalid_format", str(refusal)))
            continue
        if key.kid in keys:
            faults.append(Fault(f"/keys/{number}", "invalid_format", "occurs more than once"))
        keys[key.kid] = {"kid": key.kid, **key.members}
    faults += [_under("/metadata", fault) for fault in faults_of_all(file.metadata, of_app=True)]
    scopes = {scope: file.scopes[scope] for scope in SCOPES if scope in file.scopes}
    in_order = [keys[kid] for kid in sorted(keys)]
    return_urls = list(dict.fromkeys(file.return_urls))
    metadata = sorted(file.metadata, key=lambda each: each.name)
    normal = msgspec.structs.replace(file, scopes=scopes, keys=in_order, return_urls=return_urls, metadata=metadata)
    return normal, faults


def _check_scopes(file: AppFile, faults: list[Fault]) -> None:
    if not file.scopes:
        detail = "must name at least one scope; an app without scopes cannot be installed"
        faults.append(Fault("/scopes", "required", detail))
    for scope, reason in file.scopes.items():
        at = f"/scopes/{printable(scope).replace('~', '~0').replace('/', '~1')}"
        if scope not in SCOPES:
            faults.append(Fault(at, "invalid_format", "is not a scope", did_you_mean(scope, SCOPES, faults)))
        elif not reason.isprintable() or not reason.strip():
            detail = "must be one line that says what the app needs the scope for"
            faults.append(Fault(at, "invalid_format", detail))


def _return_url_faults(number: int, url: str) -> Iterator[Fault]:
    yield from _refused(f"/return_urls/{number}", lambda: check_return_urls([url]))


def _refused(pointer: str, check: Callable[[], None]) -> Iterator[Fault]:
    try:
        check()
    except AccessRefused as refusal:
        yield Fault(pointer, "invalid_format", str(refusal))


def _under(pointer: str, fault: Fault) -> Fault:
    return msgspec.structs.replace(fault, pointer=pointer + fault.pointer)
