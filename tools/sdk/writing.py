"""Generates the modules of the SDK."""

from collections.abc import Mapping
from typing import Any

from tools.sdk.calls import resources
from tools.sdk.declaring import codes, inputs, models
from tools.sdk.examples import examples, operations_module
from tools.sdk.schemas import named, reached
from tools.sdk.surface import operations, tree


def generate(document: Mapping[str, Any]) -> dict[str, str]:
    """The text of every generated module by file name, not formatted yet."""
    found = operations(document)
    components = document["components"]["schemas"]
    responses = reached([each.item for each in found], components)
    bodies = reached([each.body for each in found if each.body is not None], components)
    groups = tree(found)
    return {
        "models.py": models(components, responses, {named(each.item) or "" for each in found if each.is_sparse}),
        "inputs.py": inputs(found, components, bodies, responses),
        "codes.py": codes(found),
        "operations.py": operations_module(found),
        "examples.json": examples(found, document),
        "resources.py": resources(groups, found, awaited=False),
        "async_resources.py": resources(groups, found, awaited=True),
    }
