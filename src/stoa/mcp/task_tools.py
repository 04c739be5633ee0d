"""How a declared task becomes a tool: its arguments, their schemas and its result are those of its operation."""

import re
from functools import cache

from stoa.mcp.schemas import brief, inlined
from stoa.mcp.task import Preset, Shape, Task
from stoa.mcp.tasks import TASKS
from stoa.mcp.tools import DEFAULT_LIMIT, JSON, Place, Tool, document, parameter_place, parameter_schema
from stoa.reference.document import usual_body
from stoa.reference.openapi_types import Operation, Schema

_ALWAYS = ("limit", "cursor", "fields")
_PAGE_META = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "next_cursor": {"type": ["string", "null"]}},
}
_KEY = "A new UUID for each piece of work; to retry it, send the same key and arguments."
_FIELDS = "Return other fields than usual."
_LIMIT = f"Rows to return, up to 250; {DEFAULT_LIMIT} by default."
_CURSOR = "The `next_cursor` of the previous answer."
# Of no use to a model that fills in an argument.
_ASIDES = re.compile(
    r"; null if [^.;]*|, up to [\d,]+( characters)?|; lists filter by one| Lists filter by it\.| A filter finds [^.]*\."
    r"| Stoa stores it [^.]*\.| The default is `\w+`\.$|^One or more of these[^.]*\.$|^Text search\. "
)


@cache
def task_tools() -> dict[str, Tool]:
    return {task.name: _tool(task) for task in TASKS}


@cache
def _operations() -> dict[str, Operation]:
    return {each.operation_id: each for each in document().operations}


def preset_tools(presets: frozenset[Preset]) -> dict[str, Tool]:
    """The tools of these presets; all tasks without any."""
    chosen = [task.name for task in TASKS if not presets or presets & set(task.presets)]
    return {name: task_tools()[name] for name in chosen}


def _tool(task: Task) -> Tool:
    operation = _operations()[task.operation]
    places = {name: _place(operation, target) for name, target in _arguments(task, operation).items()}
    schemas = {name: _schema(task, operation, name, place) for name, place in places.items()}
    required = [name for name, place in places.items() if _required(task, operation, name, place)]
    selected = any(each.name == "fields" for each in operation.parameters) and not task.result.whole
    fixed = ({"fields": list(task.result.fields)} if selected else {}) | task.fixed
    return Tool(
        name=task.name,
        title=task.name.replace("_", " ").capitalize(),
        description=task.description,
        operation=operation,
        input_schema=_object(schemas, required),
        places=places,
        fixed=tuple((_place(operation, target), value) for target, value in fixed.items()),
        defaults={"limit": DEFAULT_LIMIT} if "limit" in places else {},
        output_schema=_output(task.result, operation),
        dry_run=task.dry_run,
    )


def _arguments(task: Task, operation: Operation) -> dict[str, str]:
    """Each argument with its target: those of the task, and those that every tool of such an operation has."""
    words = (word.partition("=") for word in task.arguments.split())
    own = {name: target or name for name, _, target in words}
    offered = {each.name for each in operation.parameters if operation.method == "GET"}
    common = {name: name for name in _ALWAYS if name in offered}
    key = {"idempotency_key": "Idempotency-Key"} if not (operation.idempotent or task.dry_run) else {}
    return own | common | key


def _place(operation: Operation, target: str) -> Place:
    for parameter in operation.parameters:
        if parameter.name == target:
            return parameter_place(parameter)
    return Place("body", tuple(int(key) if key.isdigit() else key for key in target.split(".")))


def _schema(task: Task, operation: Operation, name: str, place: Place) -> Schema:
    schema = _source(task, operation, name, place)
    if operation.method != "PATCH":
        schema = _without_null(schema)
    if name in task.only:
        items = schema["items"]
        kept = {key: _without_null(items["properties"][key]) for key in task.only[name]}
        required = [key for key in items.get("required", []) if key in kept]
        schema = {**schema, "items": _object(kept, required)}
    common = {"limit": _LIMIT, "fields": _FIELDS, "cursor": _CURSOR, "idempotency_key": _KEY}
    described = task.describe.get(name) or common.get(name) or _ASIDES.sub("", str(schema.get("description", "")))
    return brief({**schema, "description": described} if described else _without(schema, "description"))


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _source(task: Task, operation: Operation, name: str, place: Place) -> Schema:
    if place.where != "body":
        return next(parameter_schema(each) for each in operation.parameters if parameter_place(each) == place)
    component, _, member = task.schemas.get(name, "").partition(".")
    if component:
        return inlined(document().components.schemas[component]["properties"][member], document())
    schema = _body(operation)
    for key in place.keys:
        schema = schema["items"] if key == 0 else schema["properties"][key]
    return schema


def _required(task: Task, operation: Operation, name: str, place: Place) -> bool:
    if name in task.required or name == "idempotency_key" or place.where == "path":
        return True
    return place.where == "body" and len(place.keys) == 1 and place.keys[0] in _body(operation).get("required", [])


def _body(operation: Operation) -> Schema:
    body = operation.request_body
    return inlined(usual_body(body.content[JSON].schema), document()) if body else {}


def _without(schema: Schema, member: str) -> Schema:
    return {key: value for key, value in schema.items() if key != member}


def _without_null(schema: Schema) -> Schema:
    found = dict(schema)
    if isinstance(found.get("type"), list):
        found["type"] = next(each for each in found["type"] if each != "null")
    if "enum" in found:
        found["enum"] = [each for each in found["enum"] if each is not None]
    return found


def _output(shape: Shape, operation: Operation) -> Schema:
    properties = document().components.schemas[shape.component]["properties"]
    one = {"type": "object", "properties": {name: _kind(properties[name]) for name in shape.fields}}
    many = any(each.name == "limit" for each in operation.parameters) or shape.many
    members = {"data": {"type": "array", "items": one}, "meta": _PAGE_META} if many else {"data": one}
    return {"type": "object", "properties": members}


def _kind(schema: Schema) -> Schema:
    found = inlined(schema, document()).get("type")
    return {"type": found} if isinstance(found, str) else {}
