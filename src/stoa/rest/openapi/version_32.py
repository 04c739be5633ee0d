"""The OpenAPI 3.2 form of the document: what 3.1 cannot say of streams, tags and the authorization server."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from stoa.rest.headers import JSONL, NDJSON
from stoa.rest.openapi.envelopes import REFS
from stoa.rest.problems import Problem

_CURSOR = {
    "type": ["string", "null"],
    "description": "Send it as `cursor` to continue after the rows before this line.",
}
_COUNT = {"type": "integer", "description": "The number of rows before this line."}
# The lines of a stream that are not rows.
_LINES: dict[str, Any] = {
    "StreamCheckpoint": {
        "type": "object",
        "description": "A line between the rows, with `Prefer: checkpoints`: where to resume if the connection breaks.",
        "required": ["meta"],
        "properties": {
            "meta": {
                "type": "object",
                "required": ["count", "cursor"],
                "properties": {"count": _COUNT, "cursor": _CURSOR},
                "not": {"required": ["complete"]},
            }
        },
    },
    "StreamEnd": {
        "type": "object",
        "description": "The last line of a complete stream.",
        "required": ["meta"],
        "properties": {
            "meta": {
                "type": "object",
                "required": ["total", "count", "cursor", "complete"],
                "properties": {
                    "total": {"type": "integer", "description": "The number of rows when the stream began."},
                    "count": _COUNT,
                    "cursor": _CURSOR,
                    "complete": {"const": True},
                },
            }
        },
    },
    "StreamFailure": {
        "description": "The last line of a stream that failed: a problem, and where to resume.",
        "allOf": [
            {"$ref": REFS.format(name=Problem.__name__)},
            {
                "type": "object",
                "required": ["complete", "cursor"],
                "properties": {"complete": {"const": False}, "cursor": _CURSOR},
            },
        ],
    },
}


def in_version_32(document: dict[str, Any], *, metadata: str) -> dict[str, Any]:
    """A copy of a 3.1 document in version 3.2. `metadata` is the path of the authorization server's metadata."""
    made = deepcopy(document)
    made["openapi"] = "3.2.0"
    schemas: dict[str, Any] = made["components"]["schemas"]
    for content in _contents(made):
        if JSONL in content:  # which only lists offer
            page = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            rows: dict[str, Any] = schemas[page]["properties"]["data"]["items"]
            lines = [*rows.get("anyOf", [rows]), *({"$ref": REFS.format(name=name)} for name in _LINES)]
            for media in (NDJSON, JSONL):
                text: str = content[media].pop("schema")["description"]
                content[media]["itemSchema"] = {"description": text, "anyOf": lines}
    made["components"]["schemas"] = dict(sorted({**schemas, **_LINES}.items()))
    for tag in made["tags"]:
        tag["kind"] = "nav"
    for scheme in made["components"]["securitySchemes"].values():
        scheme["oauth2MetadataUrl"] = metadata
    return made


def _contents(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The media types of every response."""
    operations = (each for methods in document["paths"].values() for each in methods.values())
    for responses in (*(each["responses"] for each in operations), document["components"].get("responses", {})):
        yield from (response["content"] for response in responses.values() if "content" in response)
