"""A tool: an operation of the API with arguments that a model fills in, and how they become a request."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import msgspec

from stoa.description import openapi
from stoa.mcp.schemas import inlined
from stoa.reference.document import Document, read
from stoa.reference.openapi_types import Operation, Parameter, Schema

DEFAULT_LIMIT = 20
# Arguments that are headers of the API. A conditional read and a preference are of no use to a model.
HEADERS = {"Idempotency-Key": "idempotency_key", "If-Match": "if_match"}
JSON = "application/json"
_IMPORT_WAIT_S = 10.0
_LIMIT = f"Rows to return, from 1 to 250; {DEFAULT_LIMIT} by default."
_KEY = (
    "A new random key for each piece of work, such as a UUID. To retry this call without doing it twice, repeat it with "
    "the same key and the same arguments."
)
_PATH_TEXT = r"^[A-Za-z0-9_-]+$"
_HEADER_TEXT = r"^[!-~]+$"


class Place(msgspec.Struct, frozen=True):
    """Where an argument goes: a member of the path, the query, the headers or the body; 0 is the only item of a list."""

    where: str
    keys: tuple[str | int, ...]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    description: str
    operation: Operation
    input_schema: Schema
    places: dict[str, Place]
    fixed: tuple[tuple[Place, Any], ...] = ()
    defaults: dict[str, Any] = {}
    output_schema: Schema | None = None
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        return self.operation.method != "GET" and not self.dry_run

    @property
    def destructive(self) -> bool:
        """Whether it may overwrite or remove; an operation that only creates answers 201."""
        return self.writes and "201" not in self.operation.responses

    @property
    def idempotent(self) -> bool:
        """Whether the same arguments again have no further effect; with a required key, they are the same request."""
        return not self.writes or self.operation.idempotent or "idempotency_key" in self.input_schema["required"]

    def allowed(self, scopes: frozenset[str]) -> bool:
        return scopes.issuperset(self.operation.scopes)

    def request(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The request of a call: keyword arguments for `Store.call`."""
        path = self.operation.path.removeprefix(self.operation.prefix)
        given: dict[str, Any] = {"query": {}}
        values = {**self.defaults, **arguments}
        for place, value in (*self.fixed, *((self.places[name], value) for name, value in values.items())):
            match place.where:
                case "path":
                    path = path.replace(f"{{{place.keys[0]}}}", quote(str(value), safe=""))
                case "query":
                    given["query"][place.keys[0]] = value
                case "header":
                    given[str(place.keys[0])] = value
                case _:
                    _put(given, ("body", *place.keys), value)
        if self.dry_run:
            given["query"]["dry_run"] = True
        if any(parameter.name == "Prefer" for parameter in self.operation.parameters):
            given["wait_s"] = _IMPORT_WAIT_S
        if self.operation.request_body is not None and self.operation.request_body.required:
            given.setdefault("body", {})
        return {"method": self.operation.method, "path": path, **given}

    def pointer(self, pointer: str) -> str:
        """Where a fault of the API is among the arguments: a JSON Pointer; unchanged if no argument caused it."""
        sent = tuple(pointer.split("/"))[1:] if pointer.startswith("/") else (pointer,)
        wheres = ("body",) if pointer.startswith("/") or not pointer else ("query", "path")
        found = [
            (len(place.keys), name)
            for name, place in self.places.items()
            if place.where in wheres and tuple(map(str, place.keys)) == sent[: len(place.keys)]
        ]
        if not found:
            return pointer
        length, name = max(found)
        return "/".join(("", name, *sent[length:]))


def _put(target: Any, keys: tuple[str | int, ...], value: Any) -> None:
    for key, following in pairwise(keys):
        target = target[0] if key == 0 else target.setdefault(key, [{}] if following == 0 else {})
    target[keys[-1]] = value


@cache
def document() -> Document:
    return read(openapi())


def parameter_place(parameter: Parameter) -> Place:
    header = HEADERS.get(parameter.name)
    return Place(parameter.where, (header or parameter.name,))


def parameter_schema(parameter: Parameter) -> Schema:
    schema = inlined(parameter.schema, document())
    description = {"limit": _LIMIT, "Idempotency-Key": _KEY}.get(parameter.name, parameter.description)
    described = {**schema, "description": description.replace(", separated by commas", "")}
    if parameter.name == "fields":
        # The enum of all fields would be the longest part of most tools; the API names them in its refusal.
        return {**described, "items": {"type": "string"}}
    if parameter.name == "If-Match":
        described |= {"type": ["integer", "string"], "description": "Change it only if it has this `version`."}
    if parameter.name in HEADERS:
        return {**described, "pattern": _HEADER_TEXT}
    if parameter.where == "path" and schema.get("type") == "string":
        return {**described, "pattern": _PATH_TEXT}
    return described
