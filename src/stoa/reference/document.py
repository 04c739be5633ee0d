"""The OpenAPI document, as it is read, with the lookups that the pages need."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, cast

import msgspec

from stoa.reference.openapi_types import (
    Components,
    Flow,
    Info,
    Media,
    Operation,
    Parameter,
    Schema,
    Server,
    Tag,
)

EVENTS_ADDRESS = "/docs/events"
_SCHEMAS = "#/components/schemas/"
_TITLES = re.compile(r"`(\w+)`: ([^;]+?)(?=;|\.?\s*$)")


class Group(msgspec.Struct, frozen=True):
    """The operations of one tag."""

    name: str
    description: str
    operations: list[Operation]

    @property
    def entries(self) -> list[Operation]:
        """What the menu lists: each operation, followed by its tasks."""
        return [each for operation in self.operations for each in (operation, *operation.by_task)]

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", self.name.lower()).strip("-")

    @property
    def address(self) -> str:
        return f"/docs/{self.slug}"

    def address_of(self, operation: Operation) -> str:
        return f"{self.address}/{operation.operation_id}"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A request that Stoa sends to subscriptions."""

    name: str
    description: str
    delivery: str  # which apps receive it
    scope: str
    headers: list[Parameter]
    schema: Schema  # of the whole body
    sample: Any

    @property
    def resource(self) -> str:
        return self.name.partition(".")[0]

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]

    @property
    def address(self) -> str:
        return f"{EVENTS_ADDRESS}/{self.name}"

    @property
    def schema_address(self) -> str:
        return f"/schemas/events/{self.name}"


class Document(msgspec.Struct, frozen=True, dict=True):
    info: Info
    paths: dict[str, dict[str, Operation]]
    webhooks: dict[str, dict[str, Operation]] = {}
    servers: list[Server] = []
    tags: list[Tag] = []
    components: Components = Components()

    @cached_property
    def operations(self) -> list[Operation]:
        return [
            msgspec.structs.replace(operation, method=method.upper(), path=path)
            for path, methods in self.paths.items()
            for method, operation in methods.items()
        ]

    @cached_property
    def groups(self) -> list[Group]:
        """The operations by their first tag, in the order of the tags and then of the paths."""
        members: dict[str, list[Operation]] = {tag.name: [] for tag in self.tags}
        for operation in self.operations:
            members.setdefault((operation.tags or ["Other"])[0], []).append(operation)
        texts = {tag.name: tag.description for tag in self.tags}
        return [Group(name, texts.get(name, ""), found) for name, found in members.items() if found]

    @cached_property
    def events(self) -> list[Event]:
        """The events by their resource."""
        found = [self._event(name, method) for name, methods in self.webhooks.items() for method in methods.values()]
        resources = list(dict.fromkeys(event.resource for event in found))
        return sorted(found, key=lambda event: resources.index(event.resource))

    def _event(self, name: str, operation: Operation) -> Event:
        media = next(iter(operation.request_body.content.values())) if operation.request_body else Media()
        schema = media.schema
        for part in media.schema.get("allOf", []):
            schema = _merged(schema, self.resolved(part))
        return Event(
            name=name,
            description=str(media.schema.get("description") or operation.summary),
            delivery=operation.description,
            scope=operation.event_scope,
            headers=operation.parameters,
            schema=schema,
            sample=media.example,
        )

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The path of the page of each operation, by its id."""
        return {each.operation_id: group.address_of(each) for group in self.groups for each in group.operations}

    def named_by(self, schemas: Iterable[Schema]) -> list[str]:
        """The named schemas that these refer to, directly or not, in the order of the document."""
        found: set[str] = set()
        pending = list(schemas)
        while pending:
            for name in _references(pending.pop()):
                if name not in found and name in self.components.schemas:
                    found.add(name)
                    pending.append(self.components.schemas[name])
        return [name for name in self.components.schemas if name in found]

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each error code, read from the descriptions of the responses."""
        responses = (response for operation in self.operations for response in operation.responses.values())
        return {code: title for response in responses for code, title in _TITLES.findall(response.description)}

    @cached_property
    def codes(self) -> dict[str, str]:
        """All error codes with their statuses, sorted by status."""
        statuses = {code: status for operation in self.operations for code, status in operation.codes.items()}
        return dict(sorted(statuses.items(), key=lambda pair: pair[1]))

    @cached_property
    def common_codes(self) -> frozenset[str]:
        """The error codes that all operations have."""
        found = [frozenset(operation.codes) for operation in self.operations]
        return frozenset[str]().union(*found).intersection(*found)

    @cached_property
    def usual_codes(self) -> frozenset[str]:
        """The error codes of more than half of the operations, which the page of an operation folds."""
        found = Counter(code for operation in self.operations for code in operation.codes)
        return frozenset(code for code, count in found.items() if count * 2 > len(self.operations))

    @cached_property
    def common_headers(self) -> list[str]:
        """The headers that every successful response has."""
        found = [each.headers for operation in self.operations for each in operation.successes.values()]
        return [name for name in (found or [{}])[0] if all(name in headers for headers in found)]

    @property
    def base_url(self) -> str:
        server = self.servers[0] if self.servers else Server("")
        values = {name: variable.default for name, variable in server.variables.items()}
        return re.sub(r"{(\w+)}", lambda m: values.get(m[1], ""), server.url).rstrip("/")

    @property
    def origin(self) -> str:
        found = re.match(r"\w+://[^/]+", self.base_url)
        return found[0] if found else ""

    @property
    def flow(self) -> Flow:
        flows = (f for scheme in self.components.security_schemes.values() for f in scheme.flows.values())
        return next(flows, Flow())

    def example_of(self, name: str) -> dict[str, Any]:
        """The example of a named schema."""
        examples: list[dict[str, Any]] = self.components.schemas.get(name, {}).get("examples", [])
        return examples[0] if examples else {}

    def resolved(self, schema: Schema) -> Schema:
        """The schema that a reference refers to; any other schema unchanged."""
        return self.components.schemas.get(reference(schema) or "", schema)


def usual_body(schema: Schema) -> Schema:
    """The schema of a request body; of an operation that takes several kinds, that of the usual one, which comes first."""
    return schema.get("anyOf", [schema])[0]


def reference(schema: Schema) -> str | None:
    """The name of the schema that this schema refers to."""
    target = str(schema.get("$ref", ""))
    return target.removeprefix(_SCHEMAS) if target.startswith(_SCHEMAS) else None


def _merged(first: Schema, second: Schema) -> Schema:
    """The properties of both schemas; where both have one, the members of the second win."""
    properties: dict[str, Schema] = dict(first.get("properties", {}))
    for name, each in second.get("properties", {}).items():
        known = properties.get(name, {})
        properties[name] = _merged(known, each) if "properties" in known and "properties" in each else {**known, **each}
    return {**first, **second, "properties": properties}


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        if name := reference(members):
            yield name
        for each in members.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in cast("list[Any]", node):
            yield from _references(each)


def read(document: Mapping[str, Any]) -> Document:
    converted = msgspec.convert(inlined(dict(document), document), Document)
    for operation in converted.operations:
        for response in operation.successes.values():
            for name, media in response.content.items():
                # The envelope around `data` is shown in place, without its name.
                response.content[name] = msgspec.structs.replace(media, schema=converted.resolved(media.schema))
    return converted


def inlined(node: Any, document: Mapping[str, Any]) -> Any:
    """Replace references to shared parameters, responses, headers and enums by their content; other schemas keep their names.

    References to the same content share one copy of it.
    """
    shared: dict[str, Any] = {}

    def replaced(node: Any) -> Any:
        if isinstance(node, list):
            return [replaced(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        members = cast("dict[str, Any]", node)
        target = str(members.get("$ref", ""))
        if target in shared:
            return shared[target]
        if target.startswith("#/"):
            found: Any = document
            for key in target[2:].split("/"):
                found = found[key]
            if not target.startswith(_SCHEMAS) or "enum" in found:
                shared[target] = replaced(found)
                return shared[target]
        return {key: replaced(value) for key, value in members.items()}

    return replaced(node)
