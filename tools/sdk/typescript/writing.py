"""Generates the modules of the TypeScript SDK."""

from collections.abc import Mapping
from typing import Any

from tools.sdk.examples import examples, typescript_examples, typescript_operations
from tools.sdk.schemas import reached
from tools.sdk.surface import operations, tree
from tools.sdk.typescript.declarations import codes, event_data, events, inputs, models
from tools.sdk.typescript.resources import resources


def generate(document: Mapping[str, Any]) -> dict[str, str]:
    """The text of every generated module by file name."""
    found = operations(document)
    components = document["components"]["schemas"]
    responses = reached([each.item for each in found], components)
    bodies = reached([each.body for each in found if each.body is not None], components)
    received = reached([*event_data(document).values(), {"$ref": "#/components/schemas/Event"}], components)
    return {
        "codes.ts": codes(found),
        "events.ts": events(document),
        "examples.ts": typescript_examples(examples(found, document)),
        "inputs.ts": inputs(found, components, bodies, responses),
        "models.ts": models(components, responses | received),
        "operations.ts": typescript_operations(found),
        "resources.ts": resources(tree(found), found),
    }
