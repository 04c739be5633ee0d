"""Generates the file of all samples, from which the OpenAPI document takes its `x-codeSamples`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from stoa.reference.document import read
from tools.sdk.samples.plain_http import curl, php
from tools.sdk.samples.python import python
from tools.sdk.samples.request import Request
from tools.sdk.samples.typescript import typescript
from tools.sdk.surface import operations

# In the order of the tabs. A label names the sample where its language does not.
LANGUAGES: tuple[tuple[dict[str, str], Callable[[Request], str]], ...] = (
    ({"lang": "Shell", "label": "curl"}, curl),
    ({"lang": "Python"}, python),
    ({"lang": "TypeScript"}, typescript),
    ({"lang": "PHP"}, php),
)


def generate(description: Mapping[str, Any]) -> str:
    """The samples by operationId, or by the name of a task, one on each line."""
    document = read(dict(description))
    called = {each.id: each for each in reversed(operations(description))}  # the first method of each operation
    entries: list[str] = []
    documented = [
        (each, called[shown.operation_id]) for shown in document.operations for each in (shown, *shown.by_task)
    ]
    for operation, method in documented:
        request = Request(operation, document, method)
        samples = [json.dumps({**kind, "source": write(request)}, ensure_ascii=False) for kind, write in LANGUAGES]
        entries.append(f'  "{operation.operation_id}": [\n    ' + ",\n    ".join(samples) + "\n  ]")
    return "{\n" + ",\n".join(entries) + "\n}\n"
