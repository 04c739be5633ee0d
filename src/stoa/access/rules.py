"""The effective scopes of a token; `write` includes `read` of the same resource."""

from collections.abc import Collection, Iterable
from functools import lru_cache

from stoa.access.contract import SCOPES


def expanded(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes, with the `read` that each `write` includes."""
    given = frozenset(scopes)
    return given | {f"{scope.removesuffix(':write')}:read" for scope in given if scope.endswith(":write")}


def in_force(requested: Collection[str] | None, granted: Collection[str]) -> frozenset[str]:
    """The scopes that a token has now: the granted ones, limited to the requested ones if there are any."""
    return expanded(granted) if requested is None else expanded(requested) & expanded(granted)


def listed(requested: Collection[str] | None, granted: Collection[str]) -> list[str]:
    """The scopes in force, in documentation order and without a `read` that only a `write` implies."""
    return list(_listed(None if requested is None else tuple(requested), tuple(granted)))


@lru_cache(maxsize=1024)  # each token of an app asks for the same
def _listed(requested: tuple[str, ...] | None, granted: tuple[str, ...]) -> tuple[str, ...]:
    effective = in_force(requested, granted)
    explicit = granted if requested is None else requested
    return tuple(
        scope for scope in SCOPES if scope in effective and (scope in explicit or _write_of(scope) not in effective)
    )


def _write_of(scope: str) -> str:
    return f"{scope.removesuffix(':read')}:write" if scope.endswith(":read") else ""


def ordered(scopes: Collection[str]) -> list[str]:
    """The scopes in documentation order, without repeats."""
    return [scope for scope in SCOPES if scope in scopes]
