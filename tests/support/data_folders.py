"""Data folders of the embedded server with a migrated database, copied from one that the test run creates."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from tests.support.databases import TEMPLATE


def copy_migrated(folder: Path) -> Path:
    """Create the folder of an embedded server, which then starts without initdb and without migrations."""
    template = _template()
    with Path(f"{template}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first process that needs the template creates it
        if not template.exists():
            _create(template)
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", template, folder], check=True)
    return folder


def remove_template() -> None:
    """Remove what the processes of this test run have created."""
    template = _template()
    shutil.rmtree(template, ignore_errors=True)
    shutil.rmtree(demo_template(), ignore_errors=True)
    Path(f"{template}.lock").unlink(missing_ok=True)


def demo_template() -> Path:
    """The data folder of the demo of this test run, which `tests/support/demos.py` copies."""
    return Path(tempfile.gettempdir(), f"stoa-{os.environ[TEMPLATE]}-demo")


def _template() -> Path:
    return Path(tempfile.gettempdir(), f"stoa-{os.environ[TEMPLATE]}")


def _create(template: Path) -> None:
    incomplete = template.with_name(f"{template.name}.incomplete")
    with EmbeddedPostgres(incomplete, durable=False) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(
            asyncio.run, migrate(server.dsn)
        ).result()  # in a thread, because the tests have a loop of their own
    incomplete.rename(template)
