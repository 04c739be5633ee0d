# pyright: basic, reportMissingImports=false
"""What schemathesis must be told about this API; it loads this file in an environment of its own."""

import itertools
import re
from typing import Any

import schemathesis

_turns = itertools.count()
# What a description can say, and a request that keeps to it must therefore not be refused for.
_DESCRIBED = {"unknown_parameter", "unknown_field", "invalid_type", "read_only_field", "too_long"}

# Bodies may give money as a number too; the description names only the form that keeps every digit.
_MONEY_AS_NUMBER = re.compile(r"(price|total|amount_\w+): Incorrect type$", re.MULTILINE)
# What is named twice is shown once.
_NAMED_TWICE = re.compile(r"parameter `(fields|include)` in query - violates `(maxItems|uniqueItems)`")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """No two requests share a key: the second would rightly be refused as another one under the same key."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < 200 and all("!" <= character <= "~" for character in key):
        case.headers["Idempotency-Key"] = f"{key}-{next(_turns)}"


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether to count a finding; what is not counted is what OpenAPI has no words for."""
    kind = type(failure).__name__
    if kind == "RejectedPositiveData":
        return not _refused_for_a_rule(response)
    if kind == "AcceptedNegativeData":
        return not (_MONEY_AS_NUMBER.search(failure.message) or _NAMED_TWICE.search(failure.message))
    if kind == "JsonSchemaError" and (case.query or {}).get("fields"):
        return not _holds_only(_words(case.query["fields"]) | _words(case.query.get("include", "")), response)
    return True


def _refused_for_a_rule(response: Any) -> bool:
    """Rules between fields, and what the store holds at this moment: unknown SKUs, cursors, totals that do not add up."""
    problem = response.json()
    faults = [fault for fault in problem.get("errors", []) if not _stricter_than_a_schema(fault)]
    codes = {problem["code"], *(fault["code"] for fault in faults)}
    return response.status_code in (400, 422) and not codes & _DESCRIBED


def _stricter_than_a_schema(fault: dict[str, Any]) -> bool:
    """To JSON Schema 97.0 is an integer; and parts that answers share with bodies may have more fields in a later answer."""
    if fault["code"] == "unknown_field":
        return fault["pointer"].count("/") > 1
    return fault["detail"] == "must be an integer"


def _words(value: Any) -> set[str]:
    return set(value.split(",") if isinstance(value, str) else value)


def _holds_only(asked: set[str], response: Any) -> bool:
    """With `fields` an answer leaves out what is required otherwise, and holds nothing but these."""
    data = response.json()["data"]
    return all(set(each) <= asked | {"id"} for each in (data if isinstance(data, list) else [data]))
