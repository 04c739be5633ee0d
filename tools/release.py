"""Records a release for the next one: `src/stoa/schema/released.json`. Run it at the tagged commit, before anything changes."""

import asyncio
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import msgspec

from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import connect
from stoa.db.schema_files import Release

FILE = Path("src/stoa/schema/released.json")
_FUNCTIONS = "SELECT signature FROM stored_functions ORDER BY 1"


async def _functions(url: str) -> list[str]:
    await migrate(url)
    db = await connect(url)
    try:
        return [signature for [signature] in await db.fetch(_FUNCTIONS)]
    finally:
        await db.close()


def _tagged(tag: str) -> str:
    """The commit of a tag, which must be the one that is checked out, without changes."""
    named = ["git", "rev-parse", "--verify", f"{tag}^{{commit}}"]
    found = subprocess.run(named, capture_output=True, text=True, check=False)  # noqa: S603
    changed = subprocess.run(["git", "diff", "--quiet", tag, "--", "src"], check=False)  # noqa: S603, S607
    if found.returncode or changed.returncode:
        sys.exit(f"tag the release as {tag} first, and run this before src changes")
    return found.stdout.strip()


def main() -> None:
    version = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    commit = _tagged(f"v{version}")
    with tempfile.TemporaryDirectory(prefix="stoa-release-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres", durable=False)
        url = server.start()
        try:
            release = Release(version, commit, asyncio.run(_functions(url)))
        finally:
            server.stop()
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(release), indent=2) + b"\n")


if __name__ == "__main__":
    main()
