"""Finds the operation of a request, by its method and path."""

from collections.abc import Mapping

import msgspec

from stoa_client.operations import OPERATIONS, OperationId


class Route(msgspec.Struct, frozen=True):
    """An operation with its path, such as `/products/{product_id}`, and the values of its placeholders."""

    operation: OperationId
    path: str
    parameters: Mapping[str, str]


_TABLE: list[tuple[OperationId, str, str, list[str]]] = [
    (operation, method, path, path.split("/"))
    for operation, route in OPERATIONS.items()
    for method, _, path in [route.partition(" ")]
]
# A fixed path goes before one with a placeholder: `/products/batch` is not the product `batch`.
_TABLE.sort(key=lambda entry: entry[2].count("{"))


def route_of(method: str, path: str) -> Route | None:
    """The operation at a path below `/api/v3/app`; None if there is none."""
    given = path.split("/")
    for operation, own_method, template, parts in _TABLE:
        if own_method == method and len(parts) == len(given):
            pairs = list(zip(parts, given, strict=True))
            if all(part == value or part.startswith("{") for part, value in pairs):
                return Route(operation, template, {part[1:-1]: value for part, value in pairs if part.startswith("{")})
    return None
