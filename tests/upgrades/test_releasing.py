"""A release has one version in all packages, a heading in the changelog, and a record for the next release."""

import json
import os
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from stoa.db.pool import Database
from stoa.db.schema_files import previous_release
from tests.upgrades.releases import ROOT, git, released_commit

_HEADING = re.compile(r"^## (?:(Unreleased)|([\d.]+) \(\d{4}-\d{2}-\d{2}\))$", re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def version() -> str:
    return tomllib.loads(read("pyproject.toml"))["project"]["version"]


def test_all_packages_have_one_version() -> None:
    lock: dict[str, Any] = json.loads(read("sdk/typescript/package-lock.json"))
    transport = re.search(r'^export const VERSION = "(.*)";$', read("sdk/typescript/src/transport.ts"), re.MULTILINE)
    assert transport is not None
    found = {
        "sdk/typescript/package.json": json.loads(read("sdk/typescript/package.json"))["version"],
        "sdk/typescript/package-lock.json": lock["version"],
        "sdk/typescript/package-lock.json (package)": lock["packages"][""]["version"],
        "sdk/typescript/src/transport.ts": transport[1],
    }
    # Between two releases, Python and npm write the same version in different ways: 0.3.0.dev0 and 0.3.0-dev.0.
    assert found == dict.fromkeys(found, re.sub(r"\.dev(\d+)$", r"-dev.\1", version()))
    assert tomllib.loads(read("sdk/python/pyproject.toml"))["project"]["version"] == version()


def test_the_version_after_a_release_is_not_that_of_the_release() -> None:
    changed = git("rev-list", "--count", f"{previous_release().commit}..HEAD")
    assert int(changed or 0) <= 1 or version() != previous_release().version, "set the next version, such as 0.3.0.dev0"


def test_the_changelog_begins_with_what_comes_next_and_then_names_the_releases() -> None:
    headings = [unreleased or number for unreleased, number in _HEADING.findall(read("CHANGELOG.md"))]
    assert headings[0] in ("Unreleased", version())
    assert previous_release().version in headings
    assert len(re.findall(r"^## ", read("CHANGELOG.md"), re.MULTILINE)) == len(headings)


def test_the_record_describes_the_tagged_release() -> None:
    release, commit = previous_release(), released_commit()
    assert commit == release.commit, "the tag and src/stoa/schema/released.json name different commits"
    assert tomllib.loads(git("show", f"{commit}:pyproject.toml") or "")["project"]["version"] == release.version
    files = (git("ls-tree", "-r", "--name-only", commit, "src/stoa") or "").splitlines()
    names = {name.rpartition("/")[2].removesuffix(".sql") for name in files if "/functions/" in name}
    assert sorted(signature.partition("(")[0] for signature in release.functions) == sorted(names)


def arguments(signature: str) -> int:
    inside = signature.partition("(")[2].rstrip(")")
    return inside.count(",") + 1 if inside else 0


async def test_calls_of_the_previous_release_are_not_ambiguous(db: Database) -> None:
    """Parameters have no types before a function is found, so overloads must differ in the number of their arguments."""
    rows = await db.fetch("SELECT name, signature FROM stored_functions")
    current = {row[0]: row[1] for row in rows}
    for signature in previous_release().functions:
        now = current.get(signature.partition("(")[0], signature)
        assert now == signature or arguments(now) != arguments(signature), f"give {now} a new name"


@pytest.mark.parametrize("products", ["1000", "1000000"])
def test_the_time_limit_of_an_upgrade_does_not_depend_on_the_number_of_products(products: str) -> None:
    code = "from tests.upgrades.test_upgrade import SLOWEST_S; print(SLOWEST_S)"
    environment = {**os.environ, "UPGRADE_PRODUCTS": products, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1800
