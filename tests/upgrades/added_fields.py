"""A release after this tree that adds a field to products, variants, customers and orders, and to line items."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.upgrades.releases import ROOT

FIELD = "added_probe"
DEFAULT = "as before"
_IMPORT = ("import msgspec\n", "import msgspec\nfrom stoa.db.editions import added\n")
_SHOWN = f'    {FIELD}: Annotated[str | None, added(90), Meta(description="A probe.")] = "{DEFAULT}"\n'
_NEW = f'    {FIELD}: str | None = "{DEFAULT}"\n'
_CHANGED = f"    {FIELD}: str | UnsetType | None = UNSET\n"
# In each file: a line, and the line that goes before it.
_BEFORE = {
    "products/contract.py": [
        ("class Level(msgspec.Struct):", _SHOWN + "\n\n"),  # the end of Variant
        ("    variants: (\n", _SHOWN),
    ],
    "products/bodies.py": [
        ("    option_values: dict[str, Name] = {}\n", _NEW),
        ("    external_id: ExternalId | None = None\n    slug", _NEW),
        ("    name: Name | UnsetType = UNSET\n", _CHANGED),
        ("    option_values: dict[str, Name] | UnsetType = UNSET\n", _CHANGED),
        ('    name: str = ""\n', _NEW),  # of ProductFields
        ('    title: str = "Default"\n', _NEW),  # of VariantFields
    ],
    "customers/contract.py": [("class WrittenBy(msgspec.Struct):", _SHOWN + "\n\n")],
    "customers/bodies.py": [
        ("    external_id: ExternalId | None = None\n    status", _NEW),
        ("    external_id: ExternalId | UnsetType | None = UNSET\n", _CHANGED),
    ],
    "orders/contract.py": [("# --- refusals ---", _SHOWN + "\n\n")],  # the end of Order
    "orders/line_items.py": [("# --- request bodies ---", _SHOWN + "\n\n")],  # the end of LineItem
    "orders/bodies.py": [
        ("    shipping_address: OrderAddress | None = None\n    billing", _NEW),
        ("    shipping_method: Short | UnsetType | None = UNSET\n", _CHANGED),
    ],
    "orders/documents.py": [
        ('        "number": order.number,\n', f'        "{FIELD}": order.{FIELD},\n'),
        ('        "requires_shipping": line.requires_shipping,\n', f'        "{FIELD}": line.{FIELD},\n'),
    ],
    "orders/state.py": [
        ('    placed_at: str = ""\n', f'    {FIELD}: str | None = "{DEFAULT}"\n'),
        ("    allocations: list[Allocation] = []\n", f'    {FIELD}: str | None = "{DEFAULT}"\n'),
    ],
    "orders/update.py": [('    "number", "external_id", "source",', f'    "{FIELD}",\n')],
    "orders/draft.py": [("        payment_method=body.payment_method,\n", f"        {FIELD}=body.{FIELD},\n")],
}  # fmt: skip


def write_release(folder: Path) -> Path:
    """Write the release into a folder with the layout of this repository, and with the bytecode of what it leaves unchanged."""
    package = folder / "src/stoa"
    shutil.copytree(ROOT / "src/stoa", package)
    for name in ("sdk", "docs", "requirements", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    for name, edits in _BEFORE.items():
        file = package / name
        text = file.read_text()
        for line, before in edits:
            assert text.count(line) == 1, f"{name} has changed: {line!r}; adapt _BEFORE"
            text = text.replace(line, before + line)
        file.write_text(text.replace(*_IMPORT, 1) if _SHOWN in text else text)
    write = "from tools.schema import completing_functions as c\nfor f, t in c().items(): f.write_text(t)"
    path = os.pathsep.join([str(folder / "src"), str(ROOT), str(ROOT / "sdk/python/src")])
    subprocess.run([sys.executable, "-c", write], cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True)
    return folder
