"""Generates the requests of the guides in the languages of the SDKs, which the guides show as tabs."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stoa.guides.library import guides
from stoa.guides.samples import key_of
from stoa.reference.document import Document, read
from stoa.reference.openapi_types import Body, Operation
from tools.sdk.samples.request import Request
from tools.sdk.samples.writing import LANGUAGES
from tools.sdk.surface import operations

_BLOCK = re.compile(r"^```http\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/[\w/-]*)\n(?:\n*([{\[].*))?\Z", re.DOTALL)
_SHOWN = ("curl", "Python", "TypeScript")


def generate(description: Mapping[str, Any]) -> str:
    """The samples by the key of their block, one block on each line; a block with a query or headers has none."""
    document = read(dict(description))
    called = {each.id: each for each in reversed(operations(description))}
    found: dict[str, dict[str, str]] = {}
    for guide in guides().values():
        for text in _BLOCK.findall(guide.text):
            operation = _operation(text, document)
            if operation is None:
                continue
            request = Request(operation, document, called[operation.operation_id])
            if (
                request.called.members is None
                or request.json is None
                or set(json.loads(request.json)) <= set(request.called.members)
            ):
                named = {kind.get("label", kind["lang"]): write for kind, write in LANGUAGES}
                found[key_of(text)] = {name: named[name](request) for name in _SHOWN}
    lines = [f"  {json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _operation(text: str, document: Document) -> Operation | None:
    """The operation that a block calls, with the values of the block as its examples."""
    parsed = _REQUEST.match(text)
    if parsed is None:
        return None
    method, path, body = parsed.groups()
    for operation in document.operations:
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>\\d+)", operation.path.removeprefix(operation.prefix))
        values = re.fullmatch(pattern, path)
        if operation.method == method and values is not None:
            return _with(operation, values.groupdict(), body)
    return None


def _with(operation: Operation, values: Mapping[str, str], body: str | None) -> Operation:
    parameters = [
        msgspec.structs.replace(each, example=int(values[each.name])) if each.name in values else each
        for each in operation.parameters
    ]
    content = operation.request_body.content if operation.request_body else {}
    sent = (
        Body({name: msgspec.structs.replace(media, example=json.loads(body)) for name, media in content.items()})
        if body
        else None
    )
    return msgspec.structs.replace(operation, parameters=parameters, request_body=sent)
