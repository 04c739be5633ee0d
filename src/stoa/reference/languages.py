"""The sample request of an operation in Python and PHP; `code.js` generates the same text in the browser."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from stoa.reference.document import Document, Operation
from stoa.reference.samples import pretty, sample_body, sample_path

_LITERALS = {"true": "True", "false": "False", "null": "None"}
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\b(true|false|null)\b')


class SdkCall(msgspec.Struct, frozen=True):
    """The method of the Python SDK for an operation, such as `products.list`."""

    name: str
    spreads: bool  # whether each member of the body is a keyword argument


@cache
def sdk_calls() -> dict[str, SdkCall]:
    """The methods of the SDK by operation summary, which is the first line of their docstrings."""
    # Parsed, not imported: the SDK would load its HTTP client into every worker.
    package = find_spec("stoa_client")
    source = Path((package and package.origin) or "").with_name("resources.py")
    module = ast.parse(source.read_text(encoding="utf-8"))
    resources = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    return dict(_calls(resources, "Resources", ()))


def _calls(resources: Mapping[str, ast.ClassDef], name: str, parents: tuple[str, ...]) -> Iterator[tuple[str, SdkCall]]:
    """The methods of a class and of the classes that its `__init__` nests below it."""
    for method in [node for node in resources[name].body if isinstance(node, ast.FunctionDef)]:
        summary = (ast.get_docstring(method) or "").partition("\n")[0].rstrip(".")
        if summary and not method.name.startswith("_"):
            yield summary, SdkCall(".".join([*parents, method.name]), method.args.kwarg is not None)
    for node in ast.walk(resources[name]):
        match node:
            case ast.Assign([ast.Attribute(attr=child)], ast.Call(ast.Name(kind))) if kind in resources:
                yield from _calls(resources, kind, (*parents, child))
            case _:
                pass


def python(operation: Operation, document: Document) -> str:
    """With the SDK, which handles tokens, retries and pagination."""
    call = sdk_calls()[operation.summary]
    given = [json.dumps(parameter.example) for parameter in operation.path_parameters]
    sent = sample_body(operation, document)
    if sent is not None and is_json(sent[0]):
        given += _members(sent[1]) if call.spreads else [_in_python(sent[1])]
    elif sent is not None:
        given.append(f'Path("{upload_name(sent[0])}")')
    called = f"client.{call.name}({_arguments(given)})"
    lists = any(parameter.name == "cursor" for parameter in operation.parameters)
    imports = "import os\nfrom pathlib import Path" if sent is not None and not is_json(sent[0]) else "import os"
    client = f'client = Client("{document.base_url}", token=os.environ["STOA_TOKEN"])'
    last = (
        f"for each in {called}:\n    print(each)"
        if lists
        else f"print({called})"
        if has_response_body(operation)
        else called
    )
    return f"{imports}\n\nfrom stoa_client import Client\n\n{client}\n{last}"


def is_json(media: str) -> bool:
    return media.endswith(("/json", "+json"))


def _members(body: str) -> list[str]:
    """The members of a body as keyword arguments, formatted like the body."""
    found: list[str] = []
    for line in pretty(json.loads(body)).split("\n")[1:-1]:
        if line.startswith('  "'):
            name, _, value = line.strip().partition(": ")
            found.append(f"{json.loads(name)}={value}")
        else:
            found[-1] += f"\n{line[2:]}"
    return [_in_python(each.removesuffix(",")) for each in found]


def _arguments(given: list[str]) -> str:
    flat = ", ".join(given)
    if len(flat) <= 50 and "\n" not in flat:
        return flat
    return "\n    " + ",\n    ".join(each.replace("\n", "\n    ") for each in given) + ",\n"


def upload_name(media: str) -> str:
    """The name of a file of this type, in a sample."""
    return "rows.csv" if media == "text/csv" else "rows.ndjson"


def has_response_body(operation: Operation) -> bool:
    return any(response.content for response in operation.successes.values())


def _in_python(text: str) -> str:
    """JSON as a Python literal, indented by four spaces."""
    words = _TOKENS.sub(lambda found: _LITERALS.get(found[0], found[0]), text)
    return re.sub("^ +", lambda found: found[0] * 2, words, flags=re.MULTILINE)


def php(operation: Operation, document: Document) -> str:
    """With the curl extension, which nearly every PHP has."""
    sent = sample_body(operation, document)
    lines = ["<?php"]
    if sent is not None:  # a nowdoc takes the text as it is
        lines.append(f"$body = <<<'BODY'\n{sent[1]}\nBODY;")
    lines += [
        f"$request = curl_init({_in_php(document.base_url + sample_path(operation))});",
        "curl_setopt_array($request, [",
        "    CURLOPT_RETURNTRANSFER => true,",
    ]
    if operation.method != "GET":
        lines.append(f"    CURLOPT_CUSTOMREQUEST => '{operation.method}',")
    lines += ["    CURLOPT_HTTPHEADER => [", "        'Authorization: Bearer ' . getenv('STOA_TOKEN'),"]
    if sent is not None:
        lines.append(f"        {_in_php(f'Content-Type: {sent[0]}')},")
    lines.append("    ],")
    if sent is not None:
        lines.append("    CURLOPT_POSTFIELDS => $body,")
    return "\n".join(
        [
            *lines,
            "]);",
            "$response = curl_exec($request);",
            "echo curl_getinfo($request, CURLINFO_RESPONSE_CODE), ' ', $response, PHP_EOL;",
        ]
    )


def _in_php(text: str) -> str:
    return "'" + re.sub(r"[\\']", r"\\\g<0>", text) + "'"
