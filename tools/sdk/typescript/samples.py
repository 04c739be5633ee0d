"""The sample request of an operation with the TypeScript SDK, in the form of `stoa.reference.languages`."""

import json
import re

from stoa.reference.document import Document, Operation
from stoa.reference.samples import sample_body
from tools.sdk.typescript.text import camel

_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"(:?)')
_SHORT = 60


def typescript(operation: Operation, document: Document, method: str) -> str:
    """A program that calls the operation; `method` is its method in the Python SDK, such as `products.list`."""
    call = ".".join(camel(part) for part in method.split("."))
    given = [json.dumps(parameter.example) for parameter in operation.path_parameters]
    sent = sample_body(operation, document)
    imports = ['import { Client } from "@stoa/client";']
    if sent is not None and sent[0].endswith("json") and not sent[0].endswith("ndjson"):
        given.append(_literal(sent[1]))
    elif sent is not None:
        imports.insert(0, 'import { openAsBlob } from "node:fs";')
        name = "rows.csv" if sent[0] == "text/csv" else "rows.ndjson"
        given.append(f'await openAsBlob("{name}", {{ type: "{sent[0]}" }})')
    called = f"client.{call}({', '.join(given)})"
    if any(parameter.name == "cursor" for parameter in operation.parameters):
        last = f"for await (const each of {called}) {{\n  console.log(each);\n}}"
    elif any(response.content for response in operation.successes.values()):
        short = "\n" not in called and len(called) <= _SHORT
        last = f"console.log(await {called});" if short else f"const result = await {called};\nconsole.log(result);"
    else:
        last = f"await {called};"
    return "\n".join([*imports, "", "const client = Client.fromEnvironment();", last])


def _literal(text: str) -> str:
    """JSON as an object literal: keys that are identifiers need no quotes."""
    return _KEY.sub(
        lambda found: f"{found[1]}:" if found[2] and re.fullmatch(r"[A-Za-z_]\w*", found[1]) else found[0], text
    )
