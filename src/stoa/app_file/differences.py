"""Compares a file with the registered app, without I/O."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stoa.access.rules import expanded
from stoa.app_file.contract import AppFile, Change
from stoa.rest.problems import counted
from stoa.webhooks.app_subscriptions import AppSubscription


def new_scopes(before: AppFile, after: AppFile) -> list[str]:
    """The scopes of the file that the app does not request yet; a `write` that it requests includes the `read`."""
    requested = expanded(before.scopes)
    return [scope for scope in after.scopes if scope not in requested]


def differences(before: AppFile, after: AppFile, *, stores: int, asking: int) -> list[Change]:
    """What the file changes. The app is on so many stores, of which so many must approve the new scopes first."""
    return [
        *_scalar("name", before.name, after.name),
        *_scalar("homepage", before.homepage, after.homepage),
        *_scalar("endpoint", before.endpoint, after.endpoint, _lost("its events", stores)),
        *_scalar("return_urls", before.return_urls, after.return_urls),
        *_scopes(before, after, asking),
        *_subscriptions(before, after, stores),
        *_keys(before, after),
        *_metadata(before, after),
    ]


def _scalar(key: str, before: Any, after: Any, removal: str = "") -> Iterator[Change]:
    if before == after:
        return
    if not before:
        yield Change(key, "add", after=after)
    elif not after:
        yield Change(key, "remove", before=before, consent=removal)
    else:
        yield Change(key, "change", before, after)


def _scopes(before: AppFile, after: AppFile, asking: int) -> Iterator[Change]:
    new = new_scopes(before, after)
    for scope in dict.fromkeys([*before.scopes, *after.scopes]):
        key, old, reason = key_of("scopes", scope), before.scopes.get(scope), after.scopes.get(scope)
        if old is None:
            must = f"{counted(asking, 'store')} must approve it before the app can use it there"
            yield Change(key, "add", after=reason, consent=must if asking and scope in new else "")
        elif reason is None:
            yield Change(key, "remove", before=old)
        elif old != reason:
            yield Change(key, "change", old, reason)


def _subscriptions(before: AppFile, after: AppFile, stores: int) -> Iterator[Change]:
    old, new = ({each.name: each for each in file.subscriptions} for file in (before, after))
    for name in dict.fromkeys([*old, *new]):
        key = key_of("subscriptions", name)
        if name not in new:
            yield Change(key, "remove", _shown(old[name]), consent=_lost("the subscription", stores))
        elif name not in old:
            yield Change(key, "add", after=_shown(new[name]))
        else:
            for member in AppSubscription.__struct_fields__:
                one, other = getattr(old[name], member), getattr(new[name], member)
                if one != other:
                    yield Change(f"{key}.{member}", "change", one, other)


def _keys(before: AppFile, after: AppFile) -> Iterator[Change]:
    old, new = ({each["kid"]: each for each in file.keys} for file in (before, after))
    for kid in dict.fromkeys([*old, *new]):
        if old.get(kid) == new.get(kid):
            continue
        lost = "token requests that this key signs are refused from now on"
        action = "add" if kid not in old else "remove" if kid not in new else "change"
        yield Change(key_of("keys", kid), action, old.get(kid), new.get(kid), "" if action == "add" else lost)


def _metadata(before: AppFile, after: AppFile) -> Iterator[Change]:
    old, new = ({each.name: each for each in file.metadata} for file in (before, after))
    for name in dict.fromkeys([*old, *new]):
        one, other = (msgspec.to_builtins(side[name]) if name in side else None for side in (old, new))
        if one != other:
            action = "add" if one is None else "remove" if other is None else "change"
            yield Change(key_of("metadata", name), action, one, other)


def _lost(what: str, stores: int) -> str:
    return (
        f"{counted(stores, 'store')} lose{'s' if stores == 1 else ''} {what}, with the deliveries that wait"
        if stores
        else ""
    )


def _shown(body: AppSubscription) -> Mapping[str, Any]:
    return {"events": body.events, "url": body.url}


def key_of(table: str, name: str) -> str:
    """The key of a member as a person writes it in the file."""
    bare = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return f"{table}.{name}" if bare else f"{table}.{msgspec.json.encode(name).decode()}"
