"""The sample request of an operation in TypeScript; `code.js` generates the same text in the browser."""

import json
import re

from stoa.reference.document import Document, Operation
from stoa.reference.languages import has_response_body, is_json, sdk_calls, upload_name
from stoa.reference.samples import sample_body

_SHORT = 60
# A string with the colon that makes it a key, and the braces of an object on one line.
_TOKENS = re.compile(r'"((?:[^"\\]|\\.)*)"(:?)|\{(?=[^\n}])|(?<=[^\n{ ])\}')
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def camel(name: str) -> str:
    first, *rest = re.split(r"[_-]", name)
    return first + "".join(word.title() for word in rest)


def typescript(operation: Operation, document: Document) -> str:
    """With the SDK, which handles tokens, retries and pagination."""
    given = [json.dumps(parameter.example) for parameter in operation.path_parameters]
    sent = sample_body(operation, document)
    imports = ['import { Client } from "@stoa/client";']
    if sent is not None and is_json(sent[0]):
        given.append(_literal(sent[1]))
    elif sent is not None:
        imports.insert(0, 'import { openAsBlob } from "node:fs";')
        given.append(f'await openAsBlob("{upload_name(sent[0])}", {{ type: "{sent[0]}" }})')
    name = ".".join(camel(part) for part in sdk_calls()[operation.summary].name.split("."))
    called = f"client.{name}({', '.join(given)})"
    if any(parameter.name == "cursor" for parameter in operation.parameters):
        last = f"for await (const each of {called}) {{\n  console.log(each);\n}}"
    elif not has_response_body(operation):
        last = f"await {called};"
    elif "\n" not in called and len(called) <= _SHORT:
        last = f"console.log(await {called});"
    else:
        last = f"const result = await {called};\nconsole.log(result);"
    client = f'const client = new Client("{document.base_url}", {{ token: process.env.STOA_TOKEN }});'
    return "\n".join([*imports, "", client, last])


def _literal(text: str) -> str:
    """JSON as an object literal: keys that are identifiers need no quotes."""
    return _TOKENS.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    if found[0] in "{}":
        return "{ " if found[0] == "{" else " }"
    return f"{found[1]}:" if found[2] and _IDENTIFIER.fullmatch(found[1]) else found[0]
