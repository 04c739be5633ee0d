"""The baseline of the benchmarks returns the same resources as the service, so that the two can be compared."""

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESOURCES = {
    "Product": "Product",
    "Variant": "Variant",
    "Image": "Image",
    "Customer": "Customer",
    "Order": "Order",
    "Line": "LineItem",
}
EXTRA = {"Product": {"variants", "inventory"}}  # only on request: ?include=


@pytest.mark.parametrize("name", RESOURCES)
def test_the_baseline_has_every_member_of_a_resource(name: str) -> None:
    tree = ast.parse((ROOT / "benchmarks/baseline/answers.py").read_text())
    [model] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    members = {
        node.target.id for node in model.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    schemas = json.loads((ROOT / "openapi.json").read_text())["components"]["schemas"]
    assert members == set(schemas[RESOURCES[name]]["properties"]) - EXTRA.get(name, set())
