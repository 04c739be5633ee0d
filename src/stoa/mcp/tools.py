"""The tools: one for each operation of the API, and one for each dry run, made from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec

from stoa.description import openapi
from stoa.mcp.schemas import inlined
from stoa.reference.document import Document, Operation, Parameter, Schema, read

DEFAULT_LIMIT = 20
_IMPORT_WAIT_S = 10.0
_JSON = "application/json"
# Arguments that are headers of the API. A conditional read and a preference are of no use to a model.
_HEADERS = {"Idempotency-Key": "idempotency_key", "If-Match": "if_match"}
# `cursor` and `limit` do the same, and a model should not have to choose.
_LEFT_OUT = frozenset({"page", "per_page", "dry_run"})
_LIMIT = f"Rows to return, from 1 to 250; {DEFAULT_LIMIT} by default."
_KEY = (
    "A new random key for each piece of work, such as a UUID. To retry this call without doing it twice, repeat it with "
    "the same key and the same arguments."
)
_COMPARISON = re.compile(r"\[(\w+)\]")
_PATH_TEXT = r"^[A-Za-z0-9_-]+$"


@cache
def document() -> Document:
    return read(openapi())


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    operation: Operation
    dry_run: bool
    input_schema: Schema

    @property
    def writes(self) -> bool:
        return self.operation.method != "GET" and not self.dry_run

    @property
    def title(self) -> str:
        return f"{self.operation.summary} (dry run)" if self.dry_run else self.operation.summary

    @property
    def description(self) -> str:
        opening = "Dry run, which changes nothing: " if self.dry_run else ""
        scopes = ", ".join(self.operation.scopes)
        return f"{opening}{self.operation.summary}.\n{self.operation.description}\nScope: {scopes}.".strip()

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
        for parameter in _parameters(self.operation):
            name = _argument(parameter)
            if parameter.where == "path":
                path = path.replace(f"{{{parameter.name}}}", quote(str(arguments[name]), safe=""))
            elif name not in arguments:
                continue
            elif parameter.where == "query":
                given["query"][parameter.name] = arguments[name]
            else:
                given[name] = arguments[name]
        if "limit" in self.input_schema["properties"]:
            given["query"].setdefault("limit", DEFAULT_LIMIT)
        if self.dry_run:
            given["query"]["dry_run"] = True
        if any(parameter.name == "Prefer" for parameter in self.operation.parameters):
            given["wait_s"] = _IMPORT_WAIT_S
        if "body" in arguments:
            given["body"] = arguments["body"]
        return {"method": self.operation.method, "path": path, **given}


@cache
def tools() -> dict[str, Tool]:
    """All tools by name, in the order of the documentation."""
    return {tool.name: tool for operation in document().operations for tool in _of(operation)}


def _of(operation: Operation) -> Iterator[Tool]:
    schema = _schema(operation)
    yield Tool(name=operation.operation_id, operation=operation, dry_run=False, input_schema=schema)
    if any(parameter.name == "dry_run" for parameter in operation.parameters):
        name = f"{operation.operation_id}_dry_run"
        properties = {key: value for key, value in schema["properties"].items() if key not in _HEADERS.values()}
        required = [key for key in schema["required"] if key in properties]
        trial = {**schema, "properties": properties, "required": required}
        yield Tool(name=name, operation=operation, dry_run=True, input_schema=trial)


def _parameters(operation: Operation) -> list[Parameter]:
    return [
        each
        for each in operation.parameters
        if each.name not in _LEFT_OUT and (each.where != "header" or each.name in _HEADERS)
    ]


def _argument(parameter: Parameter) -> str:
    """The name of the argument; `price[gte]` becomes `price_gte`, because models may not send brackets."""
    return _HEADERS.get(parameter.name) or _COMPARISON.sub(r"_\1", parameter.name)


def _schema(operation: Operation) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for parameter in _parameters(operation):
        name = _argument(parameter)
        properties[name] = _parameter_schema(parameter)
        # A write that has a further effect when it is repeated, such as a refund, must be safe to repeat.
        if parameter.required or (parameter.name == "Idempotency-Key" and not operation.idempotent):
            required.append(name)
    body = operation.request_body
    if body is not None:
        properties["body"] = inlined(body.content[_JSON].schema, document())
        required += ["body"] if body.required else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parameter_schema(parameter: Parameter) -> Schema:
    schema = inlined(parameter.schema, document())
    description = {"limit": _LIMIT, "Idempotency-Key": _KEY}.get(parameter.name, parameter.description)
    described = {**schema, "description": description.replace(", separated by commas", "")}
    if parameter.name == "fields":
        # The enum of all fields would be the longest part of most tools; the API names them in its refusal.
        return {**described, "items": {"type": "string"}}
    if parameter.name == "If-Match":
        return {**described, "type": ["integer", "string"], "description": "Change it only if it has this `version`."}
    if parameter.where == "path" and schema.get("type") == "string":
        return {**described, "pattern": _PATH_TEXT}
    return described
