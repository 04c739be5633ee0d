"""Generates the methods of both clients."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from tools.sdk.declaring import aliases, argument, class_of, partial, query_name
from tools.sdk.schemas import named, parameter_type, request_type, response_type
from tools.sdk.surface import Group, Operation
from tools.sdk.text import DO_NOT_EDIT, doc, joined


def resources(groups: list[Group], found: list[Operation], *, awaited: bool) -> str:
    a = "Async" if awaited else ""
    usual = usual_codes(found)
    body: list[str] = []
    for group in groups:
        body += _classes(group, usual, awaited=awaited)
    body += [f"class {a}Resources:", '    """The API of one store."""']
    body.append(f"    def __init__(self, connection: {a}Connection) -> None:")
    body += [f"        self.{group.name} = {a}{group.title}(connection)" for group in groups]
    every = "\n".join(body)
    return joined([*_imports(every, awaited=awaited), *body])


def _imports(body: str, *, awaited: bool) -> Iterator[str]:
    a = "Async" if awaited else ""
    yield f'"""The calls of the {"asynchronous" if awaited else "synchronous"} client. {DO_NOT_EDIT}"""'
    yield "from __future__ import annotations"

    def used(*names: str) -> list[str]:
        return [name for name in names if re.search(rf"\b{name}\b", body)]

    sources: dict[str, Iterable[str]] = {
        "collections.abc": used("Mapping", "Sequence"),
        "datetime": used("datetime"),
        "typing": used("Any", "Literal", "Unpack", "overload"),
        "stoa_client": used("inputs", "models"),
        "stoa_client.answers": used("Batch", "Model", "Tombstone"),
        "stoa_client.connection": used(f"{a}Connection", f"{a}Resource"),
        "stoa_client.exports": used(f"{a}Export"),
        "stoa_client.feed": used(f"{a}Feed"),
        "stoa_client.images": used(f"{a}ProductImages"),
        "stoa_client.imports": used(f"{a}ImportJobs"),
        "stoa_client.pages": used(f"{a}Pages"),
        "stoa_client.requests": used("segment"),
        "stoa_client.uploads": used(f"{a}Upload", "async_source" if awaited else "source"),
    }
    for module, names in sources.items():
        if names:
            yield f"from {module} import {', '.join(names)}"


# Resources of the client that are written by hand, by the group that has them.
WRITTEN: dict[tuple[str, ...], dict[str, str]] = {("products",): {"images": "ProductImages"}}


def usual_codes(found: list[Operation]) -> set[str]:
    """Codes that more than half of all operations may return, which are not repeated in each docstring."""
    counts = Counter(code for each in found for code in each.codes)
    return {code for code, count in counts.items() if count > len(found) / 2} | {"malformed_json", "validation_failed"}


def _classes(group: Group, usual: set[str], *, awaited: bool) -> Iterator[str]:
    for inner in group.below:
        yield from _classes(inner, usual, awaited=awaited)
    a = "Async" if awaited else ""
    base = {"imports": f"{a}ImportJobs", "deliveries": f"{a}Feed"}.get(group.name, f"{a}Resource")
    yield f"class {a}{group.title}({base}):"
    yield f'    """Calls of `client.{".".join(part.replace("-", "_") for part in group.chain)}`."""'
    if group.name == "imports":
        yield f'    _path = "/{"/".join(group.chain)}"'
    if group.below:
        yield f"    def __init__(self, connection: {a}Connection) -> None:"
        yield "        super().__init__(connection)"
        for inner in group.below:
            yield f"        self.{inner.name} = {a}{inner.title}(connection)"
        for name, kind in WRITTEN.get(group.chain, {}).items():
            yield f"        self.{name} = {a}{kind}(connection)"
    for operation in group.operations:
        yield from _method(operation, usual, awaited=awaited)


def _method(operation: Operation, usual: set[str], *, awaited: bool) -> Iterator[str]:
    if operation.is_list:
        yield from _listing(operation, usual, awaited=awaited)
        return
    positional = _positional(operation, awaited=awaited)
    options = _options(operation)
    spread = ""
    body = operation.body
    given: list[str] = []
    if operation.parameters:
        pairs = ", ".join(f'"{name}": {_option(operation, name)}' for name in operation.parameters)
        given.append(f"query={{{pairs}}}")
    if operation.uploads:
        given.append("upload=upload")
    elif operation.members is not None:
        spread = f"**body: Unpack[inputs.{named(body or {})}]"
        given.append("body=body" if operation.spec["requestBody"].get("required") else "body=body or None")
    elif body is not None:
        kind = re.sub(r"\bAmount\b", "inputs.Amount", request_type(body, set(), where="inputs."))
        positional.append(f"body: {kind}")
        given.append("body=body")
    given += [f"{name}={name}" for name in _header_arguments(operation)]
    if operation.uploads:
        given.append("wait_s=wait_s")
    verb, returned = _result(operation)
    keywords = ", ".join([*options, *([spread] if spread else [])])
    star = "" if not keywords or not options else "*, "
    before = f"{', '.join(positional)}, /, " if positional else ""
    start = f"    {'async ' if awaited else ''}def {operation.name}(self, {before}{star}"
    kind = "" if verb == "none" else f"{_kind(operation)}, "
    if operation.is_sparse:
        fields = _option(operation, "fields")
        for chosen, returned in _by_fields(operation):
            rest = [
                chosen if each.startswith(f"{fields}: ") else each for each in [*options, *([spread] if spread else [])]
            ]
            yield "    @overload"
            yield f"{start}{', '.join(rest)}) -> {returned}: ..."
        returned, kind = "Any", f"{_partial(operation)} if {fields} is not None else {kind}"
    yield f"{start}{keywords}) -> {returned}:"
    yield from doc(documentation(operation, usual), 8)
    arguments = ", ".join([f'{kind}"{operation.method}"', _path(operation), *given])
    call = f"{'await ' if awaited else ''}self._connection.{verb}({arguments})"
    if operation.uploads:
        opened = "await async_source(file, media_type)" if awaited else "source(file, media_type)"
        yield f"        with {opened} as upload:"
        yield f"            return {call}"
    else:
        yield f"        {'return ' if verb != 'none' else ''}{call}"


def _listing(operation: Operation, usual: set[str], *, awaited: bool) -> Iterator[str]:
    """The call that lists pages, and the one that reads the whole list as a stream."""
    yield from _reading(operation, operation.name, "Pages", doc(documentation(operation, usual), 8), awaited=awaited)
    yield from _reading(operation, export_name(operation), "Export", doc(EXPORTED, 8), awaited=awaited)


EXPORTED = (
    "Read the whole list as a stream, which resumes by itself after a broken connection.\n\n"
    "Takes the parameters of the list, except `limit` and `page`."
)


def export_name(operation: Operation) -> str:
    """The name of the call that reads the whole list."""
    return operation.name.replace("list", "export", 1)


def _reading(
    operation: Operation, name: str, returned: str, described: Iterable[str], *, awaited: bool
) -> Iterator[str]:
    positional = _positional(operation, awaited=awaited)
    a = "Async" if awaited else ""
    before = f"{', '.join(positional)}, /, " if positional else ""
    kind = _kind(operation)
    spread = f"**query: Unpack[inputs.{query_name(operation)}]"
    start = f"    def {name}(self, {before}*, "
    # Each choice of an option changes the type of the items.
    choices: list[list[tuple[str, str]]] = [[("", kind)]]
    options, query = [spread], ["**query"]
    if operation.deletable:
        choices.append(
            [("include_deleted: Literal[False] = False", ""), ("include_deleted: Literal[True]", " | Tombstone")]
        )
        options.insert(0, "include_deleted: bool = False")
        query.append('"include_deleted": include_deleted or None')
    if operation.is_sparse:
        choices[0] = list(_by_fields(operation))
        options.insert(0, f"fields: {_fields_type(operation)} | None = None")
        query.append('"fields": fields')
        kind = f"{_partial(operation)} if fields is not None else {kind}"
    every = list(product(*choices))
    if len(every) == 1:
        yield f"    def {name}(self, {before}{spread}) -> {a}{returned}[{kind}]:"
    else:
        for chosen in every:
            given = ", ".join([*(text for text, _ in chosen if text), spread])
            yield "    @overload"
            yield f"{start}{given}) -> {a}{returned}[{''.join(item for _, item in chosen)}]: ..."
        yield f"{start}{', '.join(options)}) -> {a}{returned}[Any]:"
    yield from described
    sent = "query" if query == ["**query"] else f"{{{', '.join(query)}}}"
    yield f"        return self._connection.{returned.lower()}({kind}, {_path(operation)}, {sent})"


def _by_fields(operation: Operation) -> Iterator[tuple[str, str]]:
    """The option `fields` in each overload, with the type of the resource that it leads to."""
    name = _option(operation, "fields")
    yield f"{name}: None = None", _kind(operation)
    yield f"{name}: {_fields_type(operation)}", _partial(operation)


def _fields_type(operation: Operation) -> str:
    return f"inputs.OneOrMore[inputs.{aliases(operation)['fields'][0]}]"


def _partial(operation: Operation) -> str:
    return f"models.{partial(named(operation.item) or '')}"


def _positional(operation: Operation, *, awaited: bool) -> list[str]:
    kinds = {each["name"]: each["schema"] for each in operation.spec.get("parameters", []) if each["in"] == "path"}
    found = [f"{name}: {response_type(kinds[name])}" for name in operation.placeholders]
    if operation.uploads:
        found.append(f"file: {'Async' if awaited else ''}Upload")
    return found


def _options(operation: Operation) -> list[str]:
    long = aliases(operation)
    found: list[str] = []
    for name, each in operation.parameters.items():
        kind = parameter_type(each["schema"], f"inputs.{long[name][0]}" if name in long else None)
        kind = re.sub(r"\b(OneOrMore|Amount)\b", r"inputs.\1", kind)
        found.append(f"{_option(operation, name)}: {kind} | None = None")
    if operation.uploads:
        media_types = ", ".join(f'"{media}"' for media in operation.uploads)
        found += [f"media_type: Literal[{media_types}] | None = None", "wait_s: float = 0.0"]
    for name in _header_arguments(operation):
        kind = "str" if name == "idempotency_key" else "int | str | Model"
        found.append(f"{name}: {kind} | None = None")
    return found


def _option(operation: Operation, name: str) -> str:
    """The argument name of a query parameter; it is prefixed if a member of the body has the same name."""
    taken = operation.members is not None and name in operation.members
    return f"answer_{argument(name)}" if taken else argument(name)


def _header_arguments(operation: Operation) -> list[str]:
    known = {"If-Match": "if_match", "If-None-Match": "if_none_match", "Idempotency-Key": "idempotency_key"}
    return [argument for header, argument in known.items() if header in operation.headers]


def _result(operation: Operation) -> tuple[str, str]:
    if operation.is_batch:
        return "batch", f"Batch[{_kind(operation)}]"
    if not operation.success:
        return "none", "None"
    return "one", _kind(operation)


def _kind(operation: Operation) -> str:
    expression = response_type(operation.item)
    return re.sub(r"\b(?!Any\b|Decimal\b)([A-Z]\w*)", r"models.\1", expression)


def _path(operation: Operation) -> str:
    path = operation.path
    for name in operation.placeholders:
        path = path.replace(f"{{{name}}}", f"{{segment({name})}}")
    return f"f'{path}'" if operation.placeholders else f'"{path}"'


def documentation(operation: Operation, usual: set[str], raises: str = "Raises") -> str:
    spec = operation.spec
    parts = [spec["summary"].rstrip(".") + "."]
    description = spec.get("description", "")
    if description.rstrip(".") != spec["summary"].rstrip("."):
        parts += [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=- )", description)]
    scope = next((scope for each in spec.get("security", []) for scope in each.get("app", [])), None)
    raised = [class_of(code) for code in sorted(operation.codes - usual)]
    last = f"Requires the scope `{scope}`." if scope else ""
    if raised:
        last += f" {raises} {', '.join(raised)}."
    return "\n\n".join([*parts, last.strip()])
