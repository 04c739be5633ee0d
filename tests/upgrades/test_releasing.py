"""A release has one version in all packages, a heading in the changelog, and a record for the next release."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tools.release import set_project_urls

from stoa.db.pool import Database
from stoa.db.schema_files import previous_release
from tests.upgrades.releases import ROOT, git, released_commit

_PROJECT = "https://code.example/stoa/stoa"
_HEADING = re.compile(r"^## (?:(Unreleased)|([\d.]+) \(\d{4}-\d{2}-\d{2}\))$", re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def version() -> str:
    return tomllib.loads(read("pyproject.toml"))["project"]["version"]


def test_all_packages_have_one_version() -> None:
    found: dict[str, str] = {}
    for folder in ("sdk/typescript", "connectors/n8n"):
        lock: dict[str, Any] = json.loads(read(f"{folder}/package-lock.json"))
        found[f"{folder}/package.json"] = json.loads(read(f"{folder}/package.json"))["version"]
        found[f"{folder}/package-lock.json"] = lock["version"]
        found[f"{folder}/package-lock.json (package)"] = lock["packages"][""]["version"]
    transport = re.search(r'^export const VERSION = "(.*)";$', read("sdk/typescript/src/transport.ts"), re.MULTILINE)
    assert transport is not None
    found["sdk/typescript/src/transport.ts"] = transport[1]
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
    # The functions of a cluster replace functions of the same name, or are called by these alone.
    names = {
        name.rpartition("/")[2].removesuffix(".sql")
        for name in files
        if "/functions/" in name and not name.startswith("src/stoa/cluster/")
    }
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


@pytest.mark.long
def test_a_release_is_made_by_one_command(tmp_path: Path) -> None:
    """In a clone: two commits, a tag between them, one version everywhere, and the record of what the release needs."""
    clone = tmp_path / "clone"
    if git("clone", "--quiet", "--local", str(ROOT), str(clone)) is None:
        pytest.skip("this tree is no clone")
    person = {f"GIT_{role}_{part}": "a@example.com" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    path = os.pathsep.join(map(str, (clone / "src", clone / "sdk/python/src", clone)))
    environment = {**os.environ, **person, "PYTHONPATH": path}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)

    release = (sys.executable, "-m", "tools.release")
    assert "name the release" in run(*release, "soon").stderr
    made = run(*release, "7.4.0", f"{_PROJECT}.git")
    assert made.returncode == 0, made.stderr
    assert run("git", "log", "-2", "--format=%s").stdout.splitlines() == [
        "Record 7.4.0 for the next release",
        "Release 7.4.0",
    ]
    tagged = run("git", "rev-parse", "v7.4.0^{commit}").stdout.strip()
    assert tagged == run("git", "rev-parse", "HEAD~1").stdout.strip()
    record = json.loads((clone / "src/stoa/schema/released.json").read_text())
    assert (record["version"], record["commit"]) == ("7.4.0", tagged)
    assert {"save_products", "place_orders"} <= {each.partition("(")[0] for each in record["functions"]}
    assert 'version = "7.5.0.dev0"' in (clone / "pyproject.toml").read_text()
    assert '"version": "7.5.0-dev.0"' in (clone / "sdk/typescript/package.json").read_text()
    assert 'VERSION = "7.4.0"' in run("git", "show", "v7.4.0:sdk/typescript/src/transport.ts").stdout
    assert re.search(r"\n## Unreleased\n\n## 7\.4\.0 \(\d{4}-\d\d-\d\d\)\n", (clone / "CHANGELOG.md").read_text())
    assert json.loads((clone / "tests/upgrades/documents/7.4.0.json").read_text())["orders"]
    assert "v7.4.0 exists" in run(*release, "7.4.0").stderr
    for name in ("pyproject.toml", "sdk/python/pyproject.toml"):
        urls = tomllib.loads((clone / name).read_text())["project"]["urls"]
        assert (urls["Homepage"], urls["Issues"]) == (_PROJECT, f"{_PROJECT}/issues")
    package = json.loads((clone / "sdk/typescript/package.json").read_text())
    assert (package["homepage"], package["name"], package["type"]) == (_PROJECT, "@stoa/client", "module")
    assert json.loads((clone / "connectors/n8n/package.json").read_text())["homepage"] == _PROJECT
    set_project_urls(clone, "https://other.example")  # replaces them
    assert (
        tomllib.loads((clone / "pyproject.toml").read_text())["project"]["urls"]["Homepage"] == "https://other.example"
    )


@pytest.mark.parametrize("products", ["1000", "1000000"])
def test_the_time_limit_of_an_upgrade_does_not_depend_on_the_number_of_products(products: str) -> None:
    code = "from tests.upgrades.test_upgrade import SLOWEST_S; print(SLOWEST_S)"
    environment = {**os.environ, "UPGRADE_PRODUCTS": products, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1800
