"""Shared components: parameters and responses that several operations have move to `components`."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from stoa.rest.openapi.responses import CODES

Part = dict[str, Any]
# Spelled out, because the phrases of `http.HTTPStatus` change between Python releases.
_STATUS_NAMES = {
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
    "414": "UrlTooLong",
    "415": "UnsupportedMediaType",
    "422": "UnprocessableContent",
    "429": "TooManyRequests",
    "431": "HeadersTooLarge",
    "500": "InternalError",
    "503": "Unavailable",
}


def share(paths: dict[str, dict[str, Part]]) -> dict[str, dict[str, Part]]:
    """Replace repeated parameters and responses by references; returns the components to refer to."""
    operations = [operation for item in paths.values() for operation in item.values()]
    parameters = [parameter for operation in operations for parameter in operation["parameters"]]
    responses = [(status, each) for operation in operations for status, each in operation["responses"].items()]
    common = _common_codes(responses)
    shared_parameters = _Components("parameters", ((_camel(each["name"]), each) for each in parameters))
    shared_responses = _Components(
        "responses", ((_response_name(status, each, common), each) for status, each in responses)
    )
    for operation in operations:
        operation["parameters"] = [shared_parameters.reference_to(each) for each in operation["parameters"]]
        operation["responses"] = {
            status: shared_responses.reference_to(each) for status, each in operation["responses"].items()
        }
    return {"parameters": shared_parameters.components, "responses": shared_responses.components}


class _Components:
    """Parts by name; if two parts have the same name, the more frequent one keeps it."""

    def __init__(self, kind: str, named: Iterator[tuple[str, Part]]) -> None:
        self._kind = kind
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, part in named:
            counts[name][json.dumps(part)] += 1
        chosen = {name: texts.most_common(1)[0] for name, texts in sorted(counts.items())}
        self._names = {text: name for name, (text, count) in chosen.items() if count > 1 or CODES in text}
        self.components: dict[str, Part] = {name: json.loads(text) for text, name in self._names.items()}

    def reference_to(self, part: Part) -> Part:
        name = self._names.get(json.dumps(part))
        return {"$ref": f"#/components/{self._kind}/{name}"} if name else part


def _common_codes(responses: list[tuple[str, Part]]) -> dict[str, set[str]]:
    """For each status, the error codes that all its responses list."""
    common: dict[str, set[str]] = {}
    for status, response in responses:
        if codes := set(response.get(CODES, ())):
            common[status] = common.get(status, codes) & codes
    return common


def _response_name(status: str, response: Part, common: dict[str, set[str]]) -> str:
    """The name of its status, and what distinguishes it: its schema, or the codes that others do not list."""
    if CODES in response:
        return _status_name(status) + "".join(_camel(code) for code in response[CODES] if code not in common[status])
    schema: Part = response.get("content", {}).get("application/json", {}).get("schema", {})
    return _status_name(status) + str(schema.get("$ref", "")).rpartition("/")[2]


def _status_name(status: str) -> str:
    return _STATUS_NAMES.get(status, f"Status{status}")


def _camel(text: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"\w+", text.replace("_", " ")))
