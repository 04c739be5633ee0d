"""Maps each operation to a resource and method of the client, by its path and operationId."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoa.reference.document import inlined

PREFIX = "/api/v3/app"
_PLACEHOLDER = re.compile(r"{(\w+)}")


@dataclass
class Operation:
    """One operation of the API, with its resource and method in the client."""

    method: str
    path: str
    spec: Mapping[str, Any]
    schemas: Mapping[str, Any] = field(repr=False)
    members: Mapping[str, Any] | None = None  # of the body; None if it is a free-form mapping
    chain: tuple[str, ...] = ()
    name: str = ""

    @property
    def id(self) -> str:
        return self.spec["operationId"]

    @property
    def placeholders(self) -> list[str]:
        return _PLACEHOLDER.findall(self.path)

    @property
    def parameters(self) -> dict[str, Mapping[str, Any]]:
        """The query parameters, without `per_page`, an alias of `limit`."""
        every = self.spec.get("parameters", [])
        return {each["name"]: each for each in every if each["in"] == "query" and each["name"] != "per_page"}

    @property
    def headers(self) -> set[str]:
        return {each["name"] for each in self.spec.get("parameters", []) if each["in"] == "header"}

    @property
    def success(self) -> Mapping[str, Any]:
        """The schema of `data` in the response; empty if there is none."""
        found = min(status for status in self.spec["responses"] if status.startswith("2"))
        content = self.spec["responses"][found].get("content", {})
        return self._named(content.get("application/json", {}).get("schema", {})).get("properties", {}).get("data", {})

    @property
    def is_batch(self) -> bool:
        return "207" in self.spec["responses"]

    @property
    def is_list(self) -> bool:
        return self.success.get("type") == "array" and not self.is_batch and "cursor" in self.parameters

    @property
    def deletable(self) -> bool:
        return "include_deleted" in self.parameters

    @property
    def item(self) -> Mapping[str, Any]:
        """The schema of one resource in the response."""
        if self.is_batch:
            return self._named(self.success["items"])["properties"]["resource"]["anyOf"][0]
        if self.is_list:
            items = self.success["items"]
            return items["anyOf"][0] if "anyOf" in items else items
        return self.success["anyOf"][0] if "anyOf" in self.success else self.success

    @property
    def is_sparse(self) -> bool:
        """Whether the response can be limited to some fields of a resource."""
        return "fields" in self.parameters and "$ref" in self.item and not self.is_batch

    @property
    def body(self) -> Mapping[str, Any] | None:
        """The schema of a JSON body."""
        content = self.spec.get("requestBody", {}).get("content", {})
        return None if self.uploads else content.get("application/json", {}).get("schema")

    @property
    def uploads(self) -> list[str]:
        content = self.spec.get("requestBody", {}).get("content", {})
        return list(content) if "application/x-ndjson" in content else []

    @property
    def codes(self) -> set[str]:
        """The error codes that it may return."""
        return {code for answer in self.spec["responses"].values() for code in answer.get("x-problem-codes", [])}

    def _named(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema, or the component that it refers to."""
        return self.schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


@dataclass
class Group:
    """A resource of the client: its operations and nested resources."""

    chain: tuple[str, ...]
    operations: list[Operation] = field(default_factory=list[Operation])
    below: list["Group"] = field(default_factory=list["Group"])

    @property
    def name(self) -> str:
        return self.chain[-1].replace("-", "_")

    @property
    def title(self) -> str:
        return "".join(part.title() for each in self.chain for part in each.split("-"))


def singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """All operations with their resource and method name; fails if two have the same name."""
    found = [
        Operation(method.upper(), path.removeprefix(PREFIX), each, document["components"]["schemas"])
        for path, item in inlined(document["paths"], document).items()
        for method, spec in item.items()
        if method in ("get", "post", "put", "patch", "delete")
        for each in _calls_of(spec, document["components"]["schemas"])
    ]
    for each in found:
        body = each.body or {}
        if "$ref" in body:
            each.members = document["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]].get("properties")
    below: defaultdict[tuple[str, ...], list[Operation]] = defaultdict(list)
    for each in found:
        below[_segments(each)].append(each)
    for each in found:
        each.chain, each.name = _located(each, below)
    _disambiguate(found)
    methods = Counter((each.chain, each.name) for each in found)
    if repeated := [method for method, count in methods.items() if count > 1]:
        raise SystemExit(f"two operations would have the same name: {repeated}")
    return found


def _calls_of(spec: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The operation, or the two calls of one that takes a body with `items` too: the usual one, and the batch."""
    content = spec.get("requestBody", {}).get("content", {}).get("application/json", {})
    bodies = content.get("schema", {}).get("anyOf", [])
    batch = next((each for each in bodies if "items" in schemas[each["$ref"].rsplit("/", 1)[1]]["properties"]), None)
    if batch is None:
        return [spec]
    responses = spec["responses"]
    failures = {status: each for status, each in responses.items() if status >= "400"}
    usual = {status: each for status, each in responses.items() if status == "201"}
    outcomes = {"200": responses["207"], "207": responses["207"]}
    parameters = [each for each in spec["parameters"] if each["name"] != "fields"]
    text = schemas[batch["$ref"].rsplit("/", 1)[1]]["description"]
    words = {"summary": text.partition(". ")[0], "description": text}
    return [
        {**spec, "requestBody": _sent(spec, bodies[0]), "responses": {**usual, **failures}},
        {
            **spec,
            **words,
            "requestBody": _sent(spec, batch),
            "responses": {**outcomes, **failures},
            "parameters": parameters,
        },
    ]


def _sent(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec["requestBody"], "content": {"application/json": {"schema": schema}}}


def _segments(operation: Operation) -> tuple[str, ...]:
    return tuple(part for part in operation.path.strip("/").split("/") if not part.startswith("{"))


def _located(operation: Operation, below: Mapping[tuple[str, ...], list[Operation]]) -> tuple[tuple[str, ...], str]:
    """The last segment of a path is a resource if it has several operations or a list; else it is part of the method."""
    chain = _segments(operation)
    words = operation.id.split("_")
    nouns = {singular(word) for word in words[1:]}
    last = {singular(word) for word in chain[-1].split("-")}
    siblings = below[chain]
    if len(chain) > 1 and (not (last & nouns) or not (len(siblings) > 1 or any(each.is_list for each in siblings))):
        chain = chain[:-1]
    known = {singular(word) for part in chain for word in part.split("-")}
    rest = [word for word in words[1:] if singular(word) not in known]
    return chain, "_".join([words[0], *rest])


def _disambiguate(found: list[Operation]) -> None:
    """If two operations have the same name, the batch gets a suffix, and the nested list names its parent."""
    methods = Counter((each.chain, each.name) for each in found)
    for each in found:
        if methods[each.chain, each.name] > 1:
            if each.is_batch:
                each.name += "_many"
            elif each.is_list and each.placeholders:
                each.name += f"_of_{each.placeholders[-1].removesuffix('_id')}"


def tree(found: list[Operation]) -> list[Group]:
    """The resources of the client as a tree."""
    groups: dict[tuple[str, ...], Group] = {}
    top: list[Group] = []
    for each in found:
        for depth in range(1, len(each.chain) + 1):
            chain = each.chain[:depth]
            if chain not in groups:
                groups[chain] = Group(chain)
                (groups[chain[:-1]].below if depth > 1 else top).append(groups[chain])
        groups[each.chain].operations.append(each)
    return top
