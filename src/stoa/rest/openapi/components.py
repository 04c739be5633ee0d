"""OpenAPI's shared parts: a parameter or an answer that several operations have stands once, among the components."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from stoa.rest.openapi.responses import CODES

Part = dict[str, Any]
# Spelt out, because the words of Python's own table change with its releases.
_WORDS = {
    "200": "",
    "201": "Created",
    "202": "Accepted",
    "204": "NoContent",
    "304": "NotModified",
    "400": "BadRequest",
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "405": "MethodNotAllowed",
    "406": "NotAcceptable",
    "408": "RequestTimeout",
    "409": "Conflict",
    "410": "Gone",
    "412": "PreconditionFailed",
    "413": "ContentTooLarge",
    "415": "UnsupportedMediaType",
    "422": "UnprocessableContent",
    "429": "TooManyRequests",
    "431": "HeadersTooLarge",
    "500": "InternalError",
    "503": "Unavailable",
}


def share(paths: dict[str, dict[str, Part]]) -> dict[str, dict[str, Part]]:
    """Put references where the same stands more than once; answers the components that they refer to."""
    operations = [operation for item in paths.values() for operation in item.values()]
    parameters = [parameter for operation in operations for parameter in operation["parameters"]]
    answers = [(status, each) for operation in operations for status, each in operation["responses"].items()]
    common = _common_codes(answers)
    kept_parameters = _Kept("parameters", ((_camel(each["name"]), each) for each in parameters))
    kept_answers = _Kept("responses", ((_answer_name(status, each, common), each) for status, each in answers))
    for operation in operations:
        operation["parameters"] = [kept_parameters.referred(each) for each in operation["parameters"]]
        operation["responses"] = {
            status: kept_answers.referred(each) for status, each in operation["responses"].items()
        }
    return {"parameters": kept_parameters.components, "responses": kept_answers.components}


class _Kept:
    """Parts by their names; of two under one name, the one that more operations have."""

    def __init__(self, kind: str, named: Iterator[tuple[str, Part]]) -> None:
        self._kind = kind
        times: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, part in named:
            times[name][json.dumps(part)] += 1
        chosen = {name: counts.most_common(1)[0] for name, counts in sorted(times.items())}
        self._names = {text: name for name, (text, count) in chosen.items() if count > 1 or CODES in text}
        self.components: dict[str, Part] = {name: json.loads(text) for text, name in self._names.items()}

    def referred(self, part: Part) -> Part:
        name = self._names.get(json.dumps(part))
        return {"$ref": f"#/components/{self._kind}/{name}"} if name else part


def _common_codes(answers: list[tuple[str, Part]]) -> dict[str, set[str]]:
    """The codes that every operation has which answers with this status."""
    found: dict[str, set[str]] = {}
    for status, answer in answers:
        if codes := set(answer.get(CODES, ())):
            found[status] = found.get(status, codes) & codes
    return found


def _answer_name(status: str, answer: Part, common: dict[str, set[str]]) -> str:
    """The words of its status, and what it holds more than others: its schema, or its own codes."""
    if CODES in answer:
        return _words(status) + "".join(_camel(code) for code in answer[CODES] if code not in common[status])
    schema: Part = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return _words(status) + str(schema.get("$ref", "")).rpartition("/")[2]


def _words(status: str) -> str:
    return _WORDS.get(status, f"Status{status}")


def _camel(text: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"\w+", text.replace("_", " ")))
