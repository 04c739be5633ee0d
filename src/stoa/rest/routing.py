"""Finds the endpoint of a path: literal segments take precedence over ids."""

from collections.abc import Iterable
from typing import Any

from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import MethodNotAllowed, NotFound, printable

_LONGEST_ID = 18


class Router:
    """The endpoints below the API's prefix."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._literal: dict[str, dict[str, Endpoint]] = {}
        self._patterns: dict[int, list[tuple[list[str], dict[str, Endpoint]]]] = {}
        for endpoint in endpoints:
            self._methods_at(endpoint.path)[endpoint.method] = endpoint
        for patterns in self._patterns.values():
            # A literal segment matches before a placeholder, regardless of the order of declaration.
            patterns.sort(key=lambda pattern: [segment.startswith("{") for segment in pattern[0]])

    def _methods_at(self, path: str) -> dict[str, Endpoint]:
        if "{" not in path:
            return self._literal.setdefault(path, {})
        segments = path.split("/")
        patterns = self._patterns.setdefault(len(segments), [])
        for known, methods in patterns:
            if known == segments:
                return methods
        patterns.append((segments, {}))
        return patterns[-1][1]

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, Any]]:
        """The endpoint and its path parameters; GET endpoints also handle HEAD."""
        found = self._at(path)
        if found is None:
            if path.endswith("/") and self._at(path[:-1]) is not None:
                raise NotFound(f"There is no such path. Use {printable(path[:-1])}, without the trailing slash.")
            raise NotFound("There is no such path.")
        methods, values = found
        return self._pick(methods, "GET" if method == "HEAD" else method), values

    def _at(self, path: str) -> tuple[dict[str, Endpoint], dict[str, Any]] | None:
        methods = self._literal.get(path)
        if methods is not None:
            return methods, {}
        segments = path.split("/")
        for pattern, methods in self._patterns.get(len(segments), ()):
            if all(want == got or want[:1] == "{" for want, got in zip(pattern, segments, strict=True)):
                values = _values(next(iter(methods.values())), pattern, segments)
                if values is not None:
                    return methods, values
        return None

    def _pick(self, methods: dict[str, Endpoint], method: str) -> Endpoint:
        endpoint = methods.get(method)
        if endpoint is None:
            allowed = sorted([*methods, "HEAD"] if "GET" in methods else methods)
            raise MethodNotAllowed(
                f"This path supports {', '.join(allowed)}.", headers=[(b"allow", ", ".join(allowed).encode())]
            )
        return endpoint


def _values(endpoint: Endpoint, pattern: list[str], segments: list[str]) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for want, got in zip(pattern, segments, strict=True):
        if not want.startswith("{"):
            continue
        name = want[1:-1]
        if endpoint.path_parameters[name] is int:
            if not (got.isascii() and got.isdigit() and len(got) <= _LONGEST_ID):
                return None
            values[name] = int(got)
        elif got and "\x00" not in got:
            values[name] = got
        else:
            return None
    return values
