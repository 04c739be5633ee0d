"""Generates the methods of the TypeScript client."""

import re
from collections.abc import Iterator
from dataclasses import replace

from tools.sdk.calls import EXPORTED, WRITTEN, documentation, export_name, usual_codes
from tools.sdk.declaring import query_name
from tools.sdk.surface import Group, Operation
from tools.sdk.text import DO_NOT_EDIT, joined
from tools.sdk.typescript.declarations import has_query, in_models
from tools.sdk.typescript.text import WIDTH, camel, comment
from tools.sdk.typescript.types import request_type, response_type

_BASES = {"imports": "ImportJobs", "deliveries": "Feed"}
_OPTIONS = {"If-Match": "IfMatch", "If-None-Match": "IfNoneMatch", "Idempotency-Key": "WriteOptions"}
_SOURCES = {
    "../batches.js": ["Batch"],
    "../connection.js": ["Connection", "Resource"],
    "../exports.js": ["Export"],
    "../feed.js": ["Feed"],
    "../images.js": ["ProductImages"],
    "../imports.js": ["ImportJobs"],
    "../options.js": ["CallOptions", "Deleted", "Fields", "IfMatch", "IfNoneMatch", "UploadOptions", "WriteOptions"],
    "../pages.js": ["Pages"],
    "../requests.js": ["segment"],
    "../types.js": ["IfDeleted", "Only"],
    "../uploads.js": ["Upload"],
}
_VALUES = {"Feed", "ImportJobs", "ProductImages", "Resource", "segment"}  # the other imports are types only


def resources(groups: list[Group], found: list[Operation]) -> str:
    usual = usual_codes(found)
    body: list[str] = []
    for group in groups:
        body += _classes(group, usual)
    body += ["", "/** The API of one store. */", "export class Resources {"]
    for group in groups:
        body += [f"  readonly {camel(group.name)}: {group.title};"]
    body += ["", "  constructor(connection: Connection) {"]
    body += [f"    this.{camel(group.name)} = new {group.title}(connection);" for group in groups]
    body += ["  }", "}"]
    return joined([f"/** The calls of the client. {DO_NOT_EDIT} */", *_imports("\n".join(body)), *body])


def _imports(body: str) -> Iterator[str]:
    for name in ("inputs", "models"):
        yield f'import type * as {name} from "./{name}.js";'
    for module, names in _SOURCES.items():
        used = [name for name in names if re.search(rf"(?<![\w.]){name}\b(?!\()|\$\{{{name}\(", body)]
        for kind, chosen in (("", [n for n in used if n in _VALUES]), ("type ", [n for n in used if n not in _VALUES])):
            if chosen:
                yield f'import {kind}{{ {", ".join(chosen)} }} from "{module}";'


def _classes(group: Group, usual: set[str]) -> Iterator[str]:
    for inner in group.below:
        yield from _classes(inner, usual)
    chain = ".".join(camel(part) for part in group.chain)
    yield ""
    yield f"/** The calls of `client.{chain}`. */"
    yield f"export class {group.title} extends {_BASES.get(group.name, 'Resource')} {{"
    if group.name == "imports":
        yield f'  protected readonly path = "/{"/".join(group.chain)}";'
    for inner in group.below:
        yield f"  readonly {camel(inner.name)}: {inner.title};"
    written = WRITTEN.get(group.chain, {})
    for name, kind in written.items():
        yield f"  readonly {name}: {kind};"
    if group.below:
        yield from ("", "  constructor(connection: Connection) {", "    super(connection);")
        for inner in group.below:
            yield f"    this.{camel(inner.name)} = new {inner.title}(connection);"
        for name, kind in written.items():
            yield f"    this.{name} = new {kind}(connection);"
        yield "  }"
    first = not group.below and group.name != "imports"
    for operation in group.operations:
        if not first:
            yield ""
        yield from _method(operation, usual)
        first = False
    yield "}"


def _method(operation: Operation, usual: set[str]) -> Iterator[str]:
    yield from comment(documentation(operation, usual, "Throws"), 2)
    if operation.is_list:
        yield from _listing(operation)
        return
    kind = _kind(operation)
    verb, returned = _result(operation, kind)
    generic = _generic(operation, kind)
    before = _path_arguments(operation)
    given: list[str] = []
    if operation.uploads:
        before.append("file: Upload")
        given.append("file")
    elif operation.body is not None:
        optional = "" if operation.spec["requestBody"].get("required") else "?"
        before.append(f"body{optional}: {_body_type(operation)}")
        given.append("body")
    yield from _signature(
        operation, generic, [*before, f"options: {_options(operation)} = {{}}"], f"Promise<{returned}>"
    )
    arguments = ", ".join([f'"{operation.method}"', _path(operation), f"{{ {', '.join([*given, 'options'])} }}"])
    yield f"    return this.connection.{verb}({arguments});"
    yield "  }"


def _listing(operation: Operation) -> Iterator[str]:
    kind = _kind(operation)
    generic = _generic(operation, kind)
    before = _path_arguments(operation)
    item = _only(operation, kind)
    options = _options(operation)
    if operation.deletable:
        generic = f"{generic.removesuffix('>') + ', ' if generic else '<'}D extends boolean = false>"
        item, options = f"{item} | IfDeleted<D>", f"{options} & Deleted<D>"
    yield from _signature(operation, generic, [*before, f"query: {options} = {{}}"], f"Pages<{item}>")
    yield f"    return this.connection.pages({_path(operation)}, query);"
    yield "  }"
    yield ""
    yield from comment(EXPORTED, 2)
    exported = replace(operation, name=export_name(operation))
    yield from _signature(exported, generic, [*before, f"query: {options} = {{}}"], f"Export<{item}>")
    yield f"    return this.connection.export({_path(operation)}, query);"
    yield "  }"


def _signature(
    operation: Operation, generic: str, arguments: list[str], returned: str, end: str = " {"
) -> Iterator[str]:
    name = f"  {camel(operation.name)}{generic}"
    line = f"{name}({', '.join(arguments)}): {returned}{end}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{name}("
    for each in arguments:
        yield f"    {each},"
    yield f"  ): {returned}{end}"


def _path_arguments(operation: Operation) -> list[str]:
    kinds = {each["name"]: each["schema"] for each in operation.spec.get("parameters", []) if each["in"] == "path"}
    return [f"{camel(name)}: {response_type(kinds[name])}" for name in operation.placeholders]


def _options(operation: Operation) -> str:
    parts = [f"inputs.{query_name(operation)}"] if has_query(operation) else []
    if operation.is_sparse:
        parts.append("Fields<F>")
    parts += [kind for header, kind in _OPTIONS.items() if header in operation.headers]
    if operation.uploads:
        parts.append("UploadOptions")
    return " & ".join(parts if "WriteOptions" in parts else [*parts, "CallOptions"])


def _generic(operation: Operation, kind: str) -> str:
    return f"<F extends keyof {kind} = never>" if operation.is_sparse else ""


def _only(operation: Operation, kind: str) -> str:
    return f"Only<{kind}, F>" if operation.is_sparse else kind


def _result(operation: Operation, kind: str) -> tuple[str, str]:
    if operation.is_batch:
        return "batch", f"Batch<{kind}>"
    if not operation.success:
        return "none", "void"
    return "one", _only(operation, kind)


def _kind(operation: Operation) -> str:
    return in_models(response_type(operation.item)) if operation.item else "void"


def _body_type(operation: Operation) -> str:
    kind = request_type(operation.body or {}, set())
    return re.sub(r"\b(?!Record\b|Readonly\b)([A-Z]\w*)", r"inputs.\1", kind)


def _path(operation: Operation) -> str:
    path = operation.path
    for name in operation.placeholders:
        path = path.replace(f"{{{name}}}", f"${{segment({camel(name)})}}")
    return f"`{path}`" if operation.placeholders else f'"{path}"'
