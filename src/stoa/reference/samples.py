"""The examples that the document declares, formatted: request bodies, response bodies and paths."""

import json
from typing import Any, cast

from stoa.reference.document import Document
from stoa.reference.openapi_types import Media, Operation, Schema
from stoa.reference.schema_text import alternatives, items_of

_WIDTH = 58
CONTINUED = " \\\n  "


def declared_example(schema: Schema, document: Document) -> Any:
    """The example that a schema declares, or one composed of those that its parts declare."""
    schema = document.resolved(schema)
    if declared := schema.get("examples"):
        return declared[0]
    if choices := alternatives(schema):
        return declared_example(choices[0], document)
    match schema.get("type"):
        case "array":
            return [declared_example(items_of(schema), document)]
        case "object":
            properties: dict[str, Schema] = schema.get("properties", {})
            return {name: declared_example(properties[name], document) for name in schema.get("required", [])}
        case _:
            return None


def sample_body(operation: Operation, document: Document) -> tuple[str, str] | None:
    """The media type and the text of the example request body."""
    if operation.request_body is None:
        return None
    name, media = next(iter(operation.request_body.content.items()))
    return name, _text_of(media, document)


def sample_response(operation: Operation, document: Document) -> tuple[str, str] | None:
    """The status and the body of the example response."""
    for status, response in operation.successes.items():
        for media in response.content.values():
            return status, _text_of(media, document)
    return next(((status, "") for status in operation.successes), None)


def _text_of(media: Media, document: Document) -> str:
    example = media.example if media.example is not None else declared_example(media.schema, document)
    return example if isinstance(example, str) else pretty(example)


def sample_path(operation: Operation) -> str:
    path = operation.path
    for parameter in operation.path_parameters:
        path = path.replace(f"{{{parameter.name}}}", str(parameter.example))
    return path


def pretty(value: Any, indent: str = "") -> str:
    """JSON with short values on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    if not isinstance(value, dict | list) or not value or (indent and len(indent) + len(flat) <= _WIDTH):
        return flat
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        lines = [f"{json.dumps(key)}: {pretty(each, deeper)}" for key, each in members.items()]
    else:
        lines = [pretty(each, deeper) for each in cast("list[Any]", value)]
    return f"{flat[0]}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{flat[-1]}"
