"""Lists the fields without a description. `python -m tests.reference.undescribed` rewrites the committed list."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stoa.description import openapi
from stoa.rest.openapi.envelopes import SPARSE
from stoa.rest.openapi.schemas import described, is_generic

LIST = Path(__file__).parent / "undescribed_fields.txt"


def undescribed() -> Iterator[str]:
    """Fields of request bodies, responses and events, such as `Order.number`, without a description of their own."""
    schemas: Mapping[str, Any] = openapi()["components"]["schemas"]
    for name, schema in schemas.items():
        if not name.startswith(SPARSE):  # its fields are those of the resource
            yield from _of(schema, name)


def _of(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name, each in properties.items():
        if is_generic(described(each)):
            yield f"{path}.{name}"
        yield from _of(each, f"{path}.{name}")


if __name__ == "__main__":
    LIST.write_text("\n".join(sorted(undescribed())) + "\n")
