"""Demos that have run before: copies of the database and the data folder of one that the test run prepares."""

import os
import shutil
from pathlib import Path

import msgspec

from stoa.db.migrate import migrate
from stoa.demo.run import prepare
from stoa.settings import load
from tests.conftest import SECRET_KEY
from tests.support.data_folders import demo_template
from tests.support.databases import TEMPLATE, new_database, template_database

LOOPBACK = "localhost,127.0.0.0/8,::1"


async def prepared_demo(name: str, folder: Path) -> str:
    """Create the data folder of a demo, and its database; returns the URL. The next start of the demo adds nothing."""
    migrated = await template_database(os.environ[TEMPLATE], migrate)
    demo = await template_database(f"{migrated}_demo", _prepare, migrated)
    shutil.copytree(demo_template(), folder, dirs_exist_ok=True)
    return await new_database(name, template=demo)


async def _prepare(url: str) -> None:
    settings = load({}, database_url=url, data_dir=demo_template(), secret_key=SECRET_KEY, webhook_allow=LOOPBACK)
    await prepare(msgspec.structs.replace(settings, demo=True))
