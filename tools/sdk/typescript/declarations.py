"""The types of the TypeScript SDK: models of responses, inputs of requests, events, and a class for each error code."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.sdk.declaring import FAMILIES, class_of, family, query_name, titles
from tools.sdk.schemas import Schema
from tools.sdk.surface import Operation
from tools.sdk.text import DO_NOT_EDIT, joined
from tools.sdk.typescript.text import comment, declared, key
from tools.sdk.typescript.types import request_type, response_type

_OPERATOR = re.compile(r"(.+)\[(gte|gt|lte|lt)\]\Z")
# Arguments of every call; a query parameter must not have the name of one.
CALL_OPTIONS = {"idempotencyKey", "ifMatch", "ifNoneMatch", "mediaType", "signal", "timeoutMs", "waitS"}


def models(components: Mapping[str, Schema], names: set[str]) -> str:
    lines = [f"/** The models of responses. {DO_NOT_EDIT} */"]
    body: list[str] = []
    for name in sorted(names):
        schema = components[name]
        body += ["", *comment(_description(schema))]
        if "properties" not in schema:
            body += declared(f"export type {name} =", response_type(schema))
            continue
        body.append(f"export interface {name} {{")
        required = set(schema.get("required", []))
        for member, kind in schema["properties"].items():
            body += comment(_description(kind), 2)
            body += declared(f"  {key(member)}{'' if member in required else '?'}:", response_type(kind))
        body.append("}")
    return joined([*lines, *_imports(body, {"Fault": "../errors.js", "Open": "../types.js"}), *body])


def _imports(body: list[str], sources: Mapping[str, str]) -> Iterator[str]:
    """The imports of the names that are used, with one line for each module."""
    text = "\n".join(line for line in body if not line.lstrip().startswith(("/**", "*")))
    modules: dict[str, list[str]] = {}
    for name, module in sources.items():
        if re.search(rf"(?<![\w.]){name}\b", text):
            modules.setdefault(module, []).append(name)
    for module, names in modules.items():
        yield f'import type {{ {", ".join(sorted(names))} }} from "{module}";'


def _description(schema: Schema) -> str:
    parts = [schema, *schema.get("anyOf", [])]
    text = " ".join(next((part["description"] for part in parts if part.get("description")), "").split())
    if schema.get("default") not in (None, [], {}):
        text += f"\n\n@defaultValue `{json.dumps(schema['default'])}`"
    return text.strip()


def inputs(found: list[Operation], components: Mapping[str, Schema], names: set[str], known: set[str]) -> str:
    body: list[str] = []
    for name in sorted(names):
        schema = components[name]
        body += ["", *comment(_description(schema))]
        if "properties" not in schema:
            body += declared(f"export type {name} =", request_type(schema, known))
            continue
        body.append(f"export interface {name} {{")
        required = set(schema.get("required", []))
        for member, kind in schema["properties"].items():
            body += comment(_description(kind), 2)
            body += declared(f"  {key(member)}{'' if member in required else '?'}:", request_type(kind, known))
        body.append("}")
    for each in found:
        if has_query(each):
            body += _query(each)
    types: dict[str, str] = dict.fromkeys(("OneOrMore", "Range", "Time"), "../types.js")
    modules = 'import type * as models from "./models.js";'
    return joined([f"/** Request bodies and queries. {DO_NOT_EDIT} */", modules, *_imports(body, types), *body])


def _query(operation: Operation) -> Iterator[str]:
    """The query parameters; `price[gte]` and its siblings become one member, `price: { gte }`."""
    yield ""
    yield f"/** The parameters of `{'.'.join(operation.chain)}.{operation.name}`. */"
    yield f"export interface {query_name(operation)} {{"
    ranges = {found[1] for name in operation.parameters if (found := _OPERATOR.match(name))}
    for name, parameter in operation.parameters.items():
        if name in CALL_OPTIONS:
            raise SystemExit(f"{operation.id}: the parameter {name} has the name of an option of every call")
        if name in ("fields", "include_deleted") or _OPERATOR.match(name):
            continue
        kind = _parameter(parameter["schema"])
        if name in ranges:
            kind = f"{kind} | Range<{kind}>"
        yield from comment(parameter.get("description", ""), 2)
        yield from declared(f"  {key(name)}?:", f"{kind} | undefined")
    for name in sorted(ranges - operation.parameters.keys()):
        yield f"  {key(name)}?: Range<{_parameter(operation.parameters[f'{name}[gte]']['schema'])}> | undefined;"
    yield "}"


def _parameter(schema: Schema) -> str:
    if schema.get("type") == "array":
        return f"OneOrMore<{request_type(schema['items'], set())}>"
    return request_type(schema, set())


def in_models(kind: str) -> str:
    """A type of `models.ts` as other modules name it."""
    return re.sub(r'(?<!")\b(?!Record\b|Open\b)([A-Z]\w*)', r"models.\1", kind)


def has_query(operation: Operation) -> bool:
    return bool(operation.parameters.keys() - {"fields", "include_deleted"})


def event_data(document: Mapping[str, Any]) -> dict[str, Schema]:
    """The schema of `data` of each event."""
    return {
        name: _data(item["post"]["requestBody"]["content"]["application/json"]["schema"])
        for name, item in document.get("webhooks", {}).items()
    }


def _data(schema: Schema) -> Schema:
    for part in [schema, *schema.get("allOf", [])]:
        if data := part.get("properties", {}).get("data"):
            return data
    return {}


def events(document: Mapping[str, Any]) -> str:
    lines = [
        f"/** The events that an app can receive. {DO_NOT_EDIT} */",
        'import type * as models from "./models.js";',
        "",
        "/** The resource in `data` of each type of event. */",
        "export interface EventData {",
    ]
    for name, data in event_data(document).items():
        kind = in_models(response_type(data)) if data else "Record<string, unknown>"
        lines += [*comment(document["webhooks"][name]["post"]["summary"].rstrip(".") + ".", 2), f'  "{name}": {kind};']
    return joined([*lines, "}"])


def codes(found: list[Operation]) -> str:
    known = titles(found)
    by_status = dict(sorted({**FAMILIES, 404: "NotFound"}.items()))
    used = sorted({*by_status.values(), *(family(status) for status, _ in known.values()), "ApiError"})
    lines = [f"/** A class for every error code of the service. {DO_NOT_EDIT} */"]
    lines += ["import {", *(f"  {name}," for name in used), '} from "../errors.js";']
    for code, (status, title) in known.items():
        lines += ["", *comment(f"{title}."), f"export class {class_of(code)} extends {family(status)} {{}}"]
    lines += [
        "",
        "/** The class of each code. */",
        "export const byCode: Readonly<Record<string, typeof ApiError>> = {",
    ]
    lines += [f"  {code}: {class_of(code)}," for code in [*known, "not_found"]]
    lines += ["};", "", "/** The class of each status, for a code that is not known yet. */"]
    lines += ["export const byStatus: Readonly<Record<number, typeof ApiError>> = {"]
    return joined([*lines, *(f"  {status}: {name}," for status, name in by_status.items()), "};"])
