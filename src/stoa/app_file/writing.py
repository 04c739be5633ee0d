"""Writes an app as a file for people, with a comment on each part.

A TOML library would write the values, but no comments; and the values here are few: a text of TOML is a text of JSON.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stoa.app_file.contract import AppFile
from stoa.webhooks.app_subscriptions import AppSubscription

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def write_file(file: AppFile) -> str:
    return "\n".join(_lines(file)) + "\n"


def _lines(file: AppFile) -> Iterator[str]:
    yield "# The app as Stoa knows it. `stoa app diff` compares this file with the service, `stoa app push` applies it."
    yield "# The file is complete: what it leaves out, the app does not have."
    if file.client_id:
        yield f"client_id = {_value(file.client_id)}  # only this app can be changed with this file"
    yield f"name = {_value(file.name)}"
    if file.homepage:
        yield f"homepage = {_value(file.homepage)}"
    if file.endpoint:
        yield "\n# Receives the events of the app itself, such as app.installed, from every store."
        yield f"endpoint = {_value(file.endpoint)}"
    if file.return_urls:
        yield "\n# Where an install link may return to."
        yield f"return_urls = {_value(file.return_urls)}"
    yield "\n# What the app may do, each with the reason that merchants read before they approve."
    yield "[scopes]"
    yield from _members(file.scopes)
    for each in file.subscriptions:
        yield "\n# A subscription on every store that installs the app."
        yield "[[subscriptions]]"
        yield from _members(_given(each))
        if each.filter:
            yield "[subscriptions.filter]"
            yield from _members(each.filter)
    for key in file.keys:
        yield "\n# A public key with which the app authenticates instead of a secret, as a JSON Web Key."
        yield "[[keys]]"
        yield from _members(key)
    for each in file.metadata:
        yield "\n# A key of metadata with a type, on every store that installs the app."
        yield "[[metadata]]"
        yield from _members(msgspec.to_builtins(each))


def _given(body: AppSubscription) -> dict[str, Any]:
    """The settings of a subscription that are not the defaults, except its filter, which is a table."""
    defaults = AppSubscription("", [])
    values = {name: getattr(body, name) for name in AppSubscription.__struct_fields__ if name != "filter"}
    return {name: value for name, value in values.items() if value != getattr(defaults, name)}


def _members(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name if name and _BARE.issuperset(name) else _value(name)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return msgspec.json.encode(value).decode().replace('","', '", "')
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
