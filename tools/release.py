"""Makes a release of the checked-out commit: `make release VERSION=0.3.0`.

It sets the version everywhere, names the address of the project in the packages, dates the changelog, records the documents of
the release, commits and tags. A second commit records the tagged commit with the functions that the release calls, and sets the
version of the next one.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.schema_files import Release
from tools.recorded_documents import write_documents

RECORD = Path("src/stoa/schema/released.json")
CHANGELOG = Path("CHANGELOG.md")
# Each file that names the version, with the line that does; npm writes 0.3.0-dev.0 for 0.3.0.dev0.
_PYTHON, _NPM = r'(?m)^(version = ")[^"]+', r'(\A\{\s+"name": "[^"]+",\s+"version": ")[^"]+'
_LOCKED = [_NPM, r'("": \{\s+"name": "[^"]+",\s+"version": ")[^"]+']
VERSIONS = {
    "pyproject.toml": [_PYTHON],
    "sdk/python/pyproject.toml": [_PYTHON],
    "sdk/typescript/package.json": [_NPM],
    "sdk/typescript/package-lock.json": _LOCKED,
    "sdk/typescript/src/transport.ts": [r'(?m)^(export const VERSION = ")[^"]+'],
    "connectors/n8n/package.json": [_NPM],
    "connectors/n8n/package-lock.json": _LOCKED,
}
_FUNCTIONS = "SELECT signature FROM stored_functions ORDER BY 1"


def npm(version: str) -> str:
    """A version as npm writes it."""
    return re.sub(r"\.dev(\d+)$", r"-dev.\1", version)


def next_version(version: str) -> str:
    """The version of the commits after a release: the next minor release, in development."""
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0.dev0"


def set_version(root: Path, version: str) -> None:
    for name, patterns in VERSIONS.items():
        file = root / name
        text = file.read_text(encoding="utf-8")
        for pattern in patterns:
            written = version if name.endswith(".toml") else npm(version)
            text, count = re.subn(pattern, lambda found, written=written: found[1] + written, text, count=1)
            if not count:
                sys.exit(f"{name} has no version where it is expected")
        file.write_text(text, encoding="utf-8")


def set_project_urls(root: Path, url: str) -> None:
    """Name the address of the project in the packages: its page, its issues and its changelog."""
    urls = {"Homepage": url, "Issues": f"{url}/issues", "Changelog": f"{url}/blob/main/CHANGELOG.md"}
    table = "[project.urls]\n" + "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    for name in ("pyproject.toml", "sdk/python/pyproject.toml"):
        file = root / name
        text = re.sub(r"(?m)^\[project\.urls\]\n(?:\w.*\n)*\n?", "", file.read_text(encoding="utf-8"))
        before, project, after = text.partition("[project]\n")
        members, bracket, rest = after.partition("\n[")
        file.write_text(f"{before}{project}{members}\n{table}{bracket}{rest}", encoding="utf-8")
    for name in ("sdk/typescript/package.json", "connectors/n8n/package.json"):
        file = root / name
        package = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        package |= {"homepage": url, "repository": url, "bugs": urls["Issues"]}
        file.write_bytes(msgspec.json.format(msgspec.json.encode(package), indent=2) + b"\n")


def project_url(given: str) -> str:
    """The address of the project: the one given, or where this clone comes from, or none."""
    found = given or subprocess.run(
        ["git", "remote", "get-url", "origin"],  # noqa: S607
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return found.removesuffix("/").removesuffix(".git") if found.startswith("https://") else ""


def date_changelog(text: str, version: str, today: str) -> str:
    """The changelog with the unreleased changes under the heading of the release."""
    if text.count("\n## Unreleased\n") != 1:
        sys.exit("CHANGELOG.md needs one heading '## Unreleased'")
    return text.replace("\n## Unreleased\n", f"\n## Unreleased\n\n## {version} ({today})\n")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607


async def _functions(url: str) -> list[str]:
    await migrate(url)
    db = await connect(url)
    try:
        return [signature for [signature] in await db.fetch(_FUNCTIONS)]
    finally:
        await db.close()


def functions() -> list[str]:
    """The signatures of the stored functions that this release calls."""
    with tempfile.TemporaryDirectory(prefix="stoa-release-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres", durable=False)
        try:
            return asyncio.run(_functions(server.start()))
        finally:
            server.stop()


def commit(message: str, files: Iterable[str]) -> None:
    git("add", "--", *files)
    git("commit", "--quiet", "--message", message)


def main() -> None:
    if len(sys.argv) not in (2, 3) or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit("name the release, such as: make release VERSION=0.3.0")
    version, url = sys.argv[1], project_url("".join(sys.argv[2:]))
    if git("status", "--porcelain"):
        sys.exit("commit or remove your changes first")
    if git("tag", "--list", f"v{version}"):
        sys.exit(f"v{version} exists")
    root = Path()
    set_version(root, version)
    if url:
        set_project_urls(root, url)
    else:
        sys.stderr.write("The packages name no address of the project: add URL=https://...\n")
    today = datetime.now(UTC).date().isoformat()
    CHANGELOG.write_text(date_changelog(CHANGELOG.read_text(encoding="utf-8"), version, today), encoding="utf-8")
    recorded = write_documents(version)
    commit(f"Release {version}", [*VERSIONS, str(CHANGELOG), str(recorded)])
    git("tag", "--annotate", f"v{version}", "--message", f"Stoa {version}")
    release = Release(version, git("rev-parse", "HEAD"), functions())
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(release), indent=2) + b"\n")
    set_version(root, next_version(version))
    commit(f"Record {version} for the next release", [*VERSIONS, str(RECORD)])
    sys.stdout.write(
        f"Tagged v{version}. Install the new version with `make test`, and push the commits and the tag.\n"
    )


if __name__ == "__main__":
    main()
