"""Each connector has a README and a page in the guides, which shows what its folder contains."""

import json
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import GUIDES, ROOT, blocks

CONNECTORS = sorted(each.name for each in (ROOT / "connectors").iterdir() if each.is_dir())


def test_the_program_of_the_guide_is_the_example() -> None:
    (program,) = blocks(GUIDES / "dlt.md", "python")
    assert program.text == (ROOT / "connectors/dlt/example.py").read_text().partition('"""\n\n')[2]


def test_the_streams_of_the_guide_are_those_of_the_manifest() -> None:
    manifest = yaml.safe_load((ROOT / "connectors/airbyte/manifest.yaml").read_text())
    text = (GUIDES / "airbyte.md").read_text()
    for stream in manifest["streams"]:
        assert f"`{stream['name']}`" in text
    for option in manifest["spec"]["connection_specification"]["properties"]:
        assert f"`{option}`" in text


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_connector_has_a_readme_and_a_guide(name: str) -> None:
    assert f"docs/guides/{name}.md" in (ROOT / "connectors" / name / "README.md").read_text()
    assert f"connectors/{name}" in (GUIDES / f"{name}.md").read_text()


@pytest.mark.parametrize("lock", sorted(ROOT.glob("*/*/package-lock.json")), ids=lambda lock: lock.parent.name)
def test_lock_files_of_npm_hold_versions_and_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert all("integrity" in each for name, each in json.loads(text)["packages"].items() if name)
