"""The sample request of an operation with the TypeScript SDK, which handles tokens, retries and pagination."""

import re

from tools.sdk.samples.request import Request
from tools.sdk.typescript.text import camel

_SHORT = 60
# A string with the colon that makes it a key, and the braces of an object on one line.
_TOKENS = re.compile(r'"((?:[^"\\]|\\.)*)"(:?)|\{(?=[^\n}])|(?<=[^\n{ ])\}')
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def typescript(request: Request) -> str:
    given = request.path_values
    imports = ['import { Client } from "@stoa/client";']
    if request.json is not None:
        given = [*given, _literal(request.json)]
    elif request.upload is not None:
        media, name = request.upload
        imports.insert(0, 'import { openAsBlob } from "node:fs";')
        given = [*given, f'await openAsBlob("{name}", {{ type: "{media}" }})']
    called = f"client.{'.'.join(map(camel, request.call))}({', '.join(given)})"
    if request.is_list:
        last = f"for await (const each of {called}) {{\n  console.log(each);\n}}"
    elif not request.has_response_body:
        last = f"await {called};"
    elif "\n" not in called and len(called) <= _SHORT:
        last = f"console.log(await {called});"
    else:
        last = f"const result = await {called};\nconsole.log(result);"
    client = f'const client = new Client("{request.base_url}", {{ token: process.env.STOA_TOKEN }});'
    return "\n".join([*imports, "", client, last])


def _literal(text: str) -> str:
    """JSON as an object literal: keys that are identifiers need no quotes."""
    return _TOKENS.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    if found[0] in "{}":
        return "{ " if found[0] == "{" else " }"
    return f"{found[1]}:" if found[2] and _IDENTIFIER.fullmatch(found[1]) else found[0]
