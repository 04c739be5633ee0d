"""Which scopes are in force, where `write` includes `read` of the same noun."""

from collections.abc import Collection, Iterable

from stoa.access.contract import SCOPES


def expanded(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes with every `read` that a `write` includes."""
    given = frozenset(scopes)
    return given | {f"{scope.removesuffix(':write')}:read" for scope in given if scope.endswith(":write")}


def in_force(asked: Collection[str] | None, granted: Collection[str]) -> frozenset[str]:
    """What a token may do: what is granted now, and of that only what the token asked for, if it did."""
    return expanded(granted) if asked is None else expanded(asked) & expanded(granted)


def as_listed(asked: Collection[str] | None, granted: Collection[str]) -> list[str]:
    """The scopes in force as somebody wrote them: a `read` that merely follows from a `write` is left out."""
    force = in_force(asked, granted)
    listed = granted if asked is None else asked
    follows = {scope for scope in force if _write_of(scope) in force} - set(listed)
    return [scope for scope in SCOPES if scope in force - follows]


def _write_of(scope: str) -> str:
    return f"{scope.removesuffix(':read')}:write" if scope.endswith(":read") else ""


def ordered(scopes: Collection[str]) -> list[str]:
    """In the order of the documentation, each once."""
    return [scope for scope in SCOPES if scope in scopes]
