"""The sample request of an operation with the Python SDK, which handles tokens, retries and pagination."""

import json
import re

from stoa.reference.samples import pretty
from tools.sdk.samples.request import Request

_LITERALS = {"true": "True", "false": "False", "null": "None"}
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\b(true|false|null)\b')
_SHORT = 50


def python(request: Request) -> str:
    given = request.path_values
    if request.json is not None:
        spreads = request.called.members is not None
        given = [*given, *(_members(request.json) if spreads else [_literal(request.json)])]
    elif request.upload is not None:
        given = [*given, f'Path("{request.upload[1]}")']
    called = f"client.{'.'.join(request.call)}({_arguments(given)})"
    if request.is_list:
        last = f"for each in {called}:\n    print(each)"
    else:
        last = f"print({called})" if request.has_response_body else called
    imports = "import os\nfrom pathlib import Path" if request.upload else "import os"
    client = f'client = Client("{request.base_url}", token=os.environ["STOA_TOKEN"])'
    return f"{imports}\n\nfrom stoa_client import Client\n\n{client}\n{last}"


def _members(body: str) -> list[str]:
    """The members of a body as keyword arguments, formatted like the body."""
    found: list[str] = []
    for line in pretty(json.loads(body)).split("\n")[1:-1]:
        if line.startswith('  "'):
            name, _, value = line.strip().partition(": ")
            found.append(f"{json.loads(name)}={value}")
        else:
            found[-1] += f"\n{line[2:]}"
    return [_literal(each.removesuffix(",")) for each in found]


def _arguments(given: list[str]) -> str:
    flat = ", ".join(given)
    if len(flat) <= _SHORT and "\n" not in flat:
        return flat
    return "\n    " + ",\n    ".join(each.replace("\n", "\n    ") for each in given) + ",\n"


def _literal(text: str) -> str:
    """JSON as a Python literal, indented by four spaces."""
    words = _TOKENS.sub(lambda found: _LITERALS.get(found[0], found[0]), text)
    return re.sub("^ +", lambda found: found[0] * 2, words, flags=re.MULTILINE)
