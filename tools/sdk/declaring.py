"""Generates the types of the SDK: models of responses, inputs of requests, and an exception for each code."""

import re
from collections.abc import Iterator, Mapping

from tools.sdk.schemas import Schema, identifier, named, parameter_type, request_type, response_type
from tools.sdk.surface import Operation
from tools.sdk.text import DO_NOT_EDIT, doc, joined

_TITLE = re.compile(r"`(\w+)`: (.+?)(?=; `|\.\Z)")
_OPERATOR = re.compile(r"\[(gte|gt|lte|lt)\]\Z")
_IMPLIED_BY_TYPE = ("A time in UTC", "An amount in")


def models(components: Mapping[str, Schema], names: set[str], sparse: set[str]) -> str:
    """The models; those in `sparse` also as what a call with `fields` returns."""
    lines = [
        f'"""The models of responses. {DO_NOT_EDIT}"""',
        "from datetime import datetime",
        "from decimal import Decimal",
        "from typing import Any, TypeAlias",
        "import msgspec",
        "from msgspec import UnsetType",
        "from stoa_client.answers import Model, absent",
        "from stoa_client.errors import Fault",
    ]
    for name in sorted(names):
        schema = components[name]
        if "properties" not in schema:
            lines.append(f"{name}: TypeAlias = {response_type(schema)!r}")
            continue
        lines += [f"class {name}(Model):", *doc(schema.get("description", ""), 4)]
        for member, kind in schema["properties"].items():
            lines += [_field(member, kind), *doc(_description(kind, values=True), 4)]
        if name in sparse:
            text = f"The requested fields of a {name}; the others are UNSET."
            lines += [f"class {partial(name)}(Model):", *doc(text, 4)]
            lines += [_field(member, kind, optional=True) for member, kind in schema["properties"].items()]
    return joined(lines)


def partial(name: str) -> str:
    """The model of a response that has only the requested fields."""
    return f"Partial{name}"


def _field(member: str, kind: Schema, *, optional: bool = False) -> str:
    python, type_ = identifier(member), response_type(kind)
    default = f"msgspec.field(default=absent(), name={member!r})" if python != member else "absent()"
    return f"    {python}: {_quoted(f'UnsetType | {type_}' if optional and type_ != 'Any' else type_)} = {default}"


def _quoted(expression: str) -> str:
    return (
        f'"{expression}"'
        if re.search(r"\b[A-Z]\w+", expression.replace("Any", "").replace("Decimal", ""))
        else expression
    )


def _description(schema: Schema, *, values: bool = False) -> str:
    """The description of a field and its known values."""
    text = schema.get("description", "")
    if text.startswith(_IMPLIED_BY_TYPE):
        text = ""
    parts = [schema, *schema.get("anyOf", [])]
    known = next((part["enum"] for part in parts if "enum" in part), None)
    if values and known:
        text = f"{text} One of {', '.join(map(str, known))}; later releases may add values.".strip()
    return text


def inputs(found: list[Operation], components: Mapping[str, Schema], names: set[str], models: set[str]) -> str:
    lines = [
        f'"""The types of request bodies and queries. {DO_NOT_EDIT}"""',
        "from __future__ import annotations",
        "from collections.abc import Mapping, Sequence",
        "from datetime import datetime",
        "from decimal import Decimal",
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, TypeVar",
        "from stoa_client import models",
        "Amount: TypeAlias = str | Decimal | int",
        '"""An exact number; floats are not exact and not accepted."""',
        'T = TypeVar("T")',
        "OneOrMore: TypeAlias = T | Sequence[T]",
    ]
    choices = {alias: kind for each in found for alias, kind in aliases(each).values()}
    lines += [f"{alias}: TypeAlias = {kind}" for alias, kind in sorted(choices.items())]
    for name in sorted(names):
        schema = components[name]
        if "properties" not in schema:
            lines.append(f"{name}: TypeAlias = {request_type(schema, models)!r}")
            continue
        lines += [f"class {name}(TypedDict):", *doc(schema.get("description", ""), 4)]
        required = set(schema.get("required", []))
        for member, kind in schema["properties"].items():
            expression = request_type(kind, models)
            expression = expression if member in required else f"NotRequired[{expression}]"
            lines += [f"    {member}: {expression}", *doc(_description(kind), 4)]
        if not schema["properties"] and not schema.get("description"):
            lines.append("    pass")
    for each in found:
        if each.is_list:
            lines += _query_type(each)
    return joined(lines)


def _query_type(operation: Operation) -> Iterator[str]:
    long = aliases(operation)
    yield f"class {query_name(operation)}(TypedDict, total=False):"
    yield f'    """The parameters of `{".".join(operation.chain)}.{operation.name}`."""'
    for name, parameter in operation.parameters.items():
        if name == "include_deleted" or (name == "fields" and operation.is_sparse):
            continue  # an argument of its own, because it changes the type of the result
        alias, _ = long.get(name, (None, ""))
        yield f"    {argument(name)}: {parameter_type(parameter['schema'], alias)}"
        yield from doc(parameter.get("description", ""), 4)


def aliases(operation: Operation) -> dict[str, tuple[str, str]]:
    """Long lists of values, which get a type alias."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("fields", "sort"):
        if name in operation.parameters:
            owner = named(operation.item) if name == "fields" else query_name(operation).removesuffix("Query")
            found[name] = (
                f"{owner}{name.title().removesuffix('s')}",
                request_type(operation.parameters[name]["schema"]["items"], set()),
            )
    return found


def query_name(operation: Operation) -> str:
    return "".join(word.title() for word in operation.id.split("_")) + "Query"


def argument(name: str) -> str:
    return identifier(_OPERATOR.sub(r"_\1", name))


FAMILIES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    412: "PreconditionFailed",
    413: "TooLarge",
    422: "Unprocessable",
    429: "TooManyRequests",
}


def family(status: int) -> str:
    """The class from which the errors with this status derive."""
    return FAMILIES.get(status, "ServiceFailed" if status >= 500 else "ApiError")


def titles(found: list[Operation]) -> dict[str, tuple[int, str]]:
    """The status and the title of every code but `not_found`, whose class is its family."""
    known: dict[str, tuple[int, str]] = {}
    for each in found:
        for status, answer in each.spec["responses"].items():
            if status >= "400":
                known |= {code: (int(status), title) for code, title in _TITLE.findall(answer["description"])}
    known.pop("not_found", None)
    return dict(sorted(known.items(), key=lambda item: (item[1][0], item[0])))


def codes(found: list[Operation]) -> str:
    known = titles(found)
    lines = [
        f'"""An exception for every error code of the service. {DO_NOT_EDIT}"""',
        f"from stoa_client.errors import {', '.join(sorted({family(status) for status, _ in known.values()}))}",
    ]
    for code, (status, title) in known.items():
        lines += [f"class {class_of(code)}({family(status)}):", f'    """{title}."""', f'    code = "{code}"']
    return joined(lines)


def class_of(code: str) -> str:
    return "NotFound" if code == "not_found" else "".join(word.title() for word in code.split("_"))
