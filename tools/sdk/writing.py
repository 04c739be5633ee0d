"""Every generated module of the SDK, as text."""

from collections.abc import Mapping
from typing import Any

from tools.sdk.calls import resources
from tools.sdk.declaring import codes, inputs, models
from tools.sdk.schemas import reached
from tools.sdk.surface import operations, tree


def written(document: Mapping[str, Any]) -> dict[str, str]:
    """Every generated module by its file name, not yet formatted."""
    found = operations(document)
    components = document["components"]["schemas"]
    answers = reached([each.item for each in found], components)
    bodies = reached([each.body for each in found if each.body is not None], components)
    groups = tree(found)
    return {
        "models.py": models(components, answers),
        "inputs.py": inputs(found, components, bodies, answers),
        "codes.py": codes(found),
        "resources.py": resources(groups, found, awaited=False),
        "async_resources.py": resources(groups, found, awaited=True),
    }
