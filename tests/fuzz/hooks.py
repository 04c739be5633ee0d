# pyright: basic, reportMissingImports=false
"""Hooks for schemathesis, which loads this file in its own environment."""

import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import schemathesis

from tests.fuzz.reasons import reason

_turns = itertools.count(10_000_000)
_KEY = re.compile(r"[!-~]{1,255}\Z")

# The documented codes of each operation by status, and the file for uncounted findings.
CODES: dict[str, dict[str, list[str]]] = json.loads(Path(os.environ["STOA_FUZZ_CODES"]).read_text())
UNCOUNTED = Path(os.environ["STOA_FUZZ_UNCOUNTED"])


@schemathesis.serializer("application/x-ndjson")
def _file(context: Any, value: Any) -> bytes:
    """The file of an import is any text."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Make idempotency keys unique: a second request with the same key would correctly be refused."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and _KEY.match(key):
        case.headers["Idempotency-Key"] = key[: 255 - 8] + str(next(_turns))


@schemathesis.check
def a_code_is_one_of_those_described(context: Any, response: Any, case: Any) -> None:
    """The code of an error is documented for this operation and status."""
    if response.headers.get("content-type", [""])[0] != "application/problem+json":
        return
    codes = CODES[case.operation.definition.raw["operationId"]].get(str(response.status_code))
    code = response.json()["code"]
    assert codes is None or code in codes, f"{code} is not described for {response.status_code}"


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether to count a finding; those that OpenAPI cannot express are not counted, but reported at the end."""
    found = reason(type(failure).__name__, failure.message, response.status_code, response.content)
    if found:
        with UNCOUNTED.open("a") as file:
            file.write(f"{found}\n")
    return not found
