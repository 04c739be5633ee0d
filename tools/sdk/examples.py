"""Generates the table of operations, and the examples from which the fake transports of both SDKs answer."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from stoa.reference.document import read
from stoa.reference.samples import sample_response
from stoa.rest.problems import Refusal
from tools.sdk.calls import usual_codes
from tools.sdk.declaring import titles
from tools.sdk.surface import Operation
from tools.sdk.text import DO_NOT_EDIT, joined

_SHARED = 200  # characters of an object that is stored once, wherever it occurs


def routes(found: list[Operation]) -> dict[str, str]:
    """The method and the path of each operation."""
    return {each.id: f"{each.method} {each.path}" for each in found}


def operations_module(found: list[Operation]) -> str:
    names = ", ".join(f'"{each}"' for each in routes(found))
    return joined(
        [
            f'"""The operations of the API, by their ids. {DO_NOT_EDIT}"""',
            "from typing import Literal, TypeAlias",
            f"OperationId: TypeAlias = Literal[{names}]",
            "OPERATIONS: dict[OperationId, str] = {",
            *(f'    "{name}": "{route}",' for name, route in routes(found).items()),
            "}",
            '"""The method and the path of each operation."""',
        ]
    )


def typescript_operations(found: list[Operation]) -> str:
    return joined(
        [
            f"/** The operations of the API, by their ids: the method and the path of each. {DO_NOT_EDIT} */",
            "export const OPERATIONS = {",
            *(f'  {name}: "{route}",' for name, route in routes(found).items()),
            "} as const;",
            "",
            "export type OperationId = keyof typeof OPERATIONS;",
        ]
    )


def examples(found: list[Operation], document: Mapping[str, Any]) -> str:
    """The examples as JSON: the response of each operation with its own error codes, and each event."""
    answers: dict[str, Any] = {}
    usual = usual_codes(found)
    described = read(document)
    for operation in described.operations:
        status, text = sample_response(operation, described) or ("200", "")
        codes = sorted(set(operation.codes) - usual)
        body = {"body": json.loads(text)} if text else {}
        answers[operation.operation_id] = {"status": int(status), "codes": codes, **body}
    events = {
        name: each["post"]["requestBody"]["content"]["application/json"]["example"]
        for name, each in document["webhooks"].items()
    }
    known = titles(found) | {"not_found": (404, Refusal.known["not_found"].title)}
    problems: dict[str, dict[str, Any]] = {
        code: {"status": status, "title": title, **({"retryable": True} if Refusal.known[code].retryable else {})}
        for code, (status, title) in known.items()
    }
    for code in usual & problems.keys():
        problems[code]["usual"] = True  # every operation may refuse with it
    return _compact({"problems": problems, "answers": answers, "events": events})


def _compact(content: dict[str, Any]) -> str:
    """The content as JSON, with large objects that occur several times under `shared`."""
    counts: Counter[str] = Counter()

    def count(value: Any) -> Any:
        counts[_line(value)] += 1
        return _each(value, count)

    count(content)
    shared: dict[str, int] = {}
    stored: list[Any] = []

    def shorten(value: Any) -> Any:
        text = _line(value)
        if isinstance(value, dict) and counts[text] > 1 and len(text) > _SHARED:
            if text not in shared:
                stored.append(_each(cast("Any", value), shorten))
                shared[text] = len(stored) - 1
            return {"$shared": shared[text]}
        return _each(value, shorten)

    sections = {
        name: {key: _each(entry, shorten) for key, entry in section.items()} for name, section in content.items()
    }
    lines = [f"{_line(name)}:{{{_entries(section)}}}" for name, section in sections.items()]
    return joined(["{" + ",\n".join([f'"shared":[{_entries(stored)}]', *lines]) + "}"])


def _entries(section: Any) -> str:
    """Each entry on a line of its own, so that a change shows which."""
    if isinstance(section, list):
        lines = map(_line, cast("list[Any]", section))
    else:
        lines = (f"{_line(name)}:{_line(each)}" for name, each in section.items())
    return "\n" + ",\n".join(lines) + "\n"


def typescript_examples(text: str) -> str:
    return joined(
        [f"/** The examples of the API. {DO_NOT_EDIT} */", f"export const EXAMPLES: unknown = {text.strip()};"]
    )


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with each member changed."""
    if isinstance(value, dict):
        return {name: change(each) for name, each in cast("dict[str, Any]", value).items()}
    return [change(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
