"""`--all`: one tool for each operation of the API, and one for each dry run, made from the OpenAPI document."""

import re
from collections.abc import Iterator
from functools import cache

from stoa.mcp.schemas import inlined
from stoa.mcp.tools import DEFAULT_LIMIT, HEADERS, JSON, Place, Tool, document, parameter_place, parameter_schema
from stoa.reference.document import usual_body
from stoa.reference.openapi_types import Operation, Parameter, Schema

# `cursor` and `limit` do the same, and a model should not have to choose.
_LEFT_OUT = frozenset({"page", "per_page", "dry_run"})
_COMPARISON = re.compile(r"\[(\w+)\]")


@cache
def operation_tools() -> dict[str, Tool]:
    """All operations by name, in the order of the documentation."""
    return {tool.name: tool for operation in document().operations for tool in _of(operation)}


def _of(operation: Operation) -> Iterator[Tool]:
    parameters = {_argument(each): each for each in operation.parameters if _kept(each)}
    yield _tool(operation, parameters, dry_run=False)
    if any(parameter.name == "dry_run" for parameter in operation.parameters):
        without = {name: each for name, each in parameters.items() if name not in HEADERS.values()}
        yield _tool(operation, without, dry_run=True)


def _tool(operation: Operation, parameters: dict[str, Parameter], *, dry_run: bool) -> Tool:
    scopes = ", ".join(operation.scopes)
    opening = "Dry run, which changes nothing: " if dry_run else ""
    return Tool(
        name=f"{operation.operation_id}_dry_run" if dry_run else operation.operation_id,
        title=f"{operation.summary} (dry run)" if dry_run else operation.summary,
        description=f"{opening}{operation.summary}.\n{operation.description}\nScope: {scopes}.".strip(),
        operation=operation,
        input_schema=_schema(operation, parameters),
        places={name: parameter_place(each) for name, each in parameters.items()} | {"body": Place("body", ())},
        defaults={"limit": DEFAULT_LIMIT} if "limit" in parameters else {},
        dry_run=dry_run,
    )


def _kept(parameter: Parameter) -> bool:
    return parameter.name not in _LEFT_OUT and (parameter.where != "header" or parameter.name in HEADERS)


def _argument(parameter: Parameter) -> str:
    """The name of the argument; `price[gte]` becomes `price_gte`, because models may not send brackets."""
    return HEADERS.get(parameter.name) or _COMPARISON.sub(r"_\1", parameter.name)


def _schema(operation: Operation, parameters: dict[str, Parameter]) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        properties[name] = parameter_schema(parameter)
        # A write that has a further effect when it is repeated, such as a refund, must be safe to repeat.
        if parameter.required or (name == "idempotency_key" and not operation.idempotent):
            required.append(name)
    body = operation.request_body
    if body is not None:
        properties["body"] = inlined(usual_body(body.content[JSON].schema), document())
        required += ["body"] if body.required else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
