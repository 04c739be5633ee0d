"""Storage of both kinds, and stores of an application that uses it."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from moto.server import ThreadedMotoServer

from stoa.app import Application
from stoa.db.pool import Database
from stoa.media.storage import Storage, open_storage
from stoa.settings import Settings
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop, open_shop


@pytest.fixture(scope="package")
def s3() -> Iterator[str]:
    """An S3 server on this machine; its address, without a bucket."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "bucket"])
def media_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The setting STOA_MEDIA_URL: a folder, or a bucket of the S3 server."""
    if request.param == "folder":
        return tmp_path.as_uri()
    address: str = request.getfixturevalue("s3")
    bucket = f"pictures-{os.getpid()}-{tmp_path.name.lower().replace('_', '-')}"[:60].strip("-")
    # The first request to the server imports its parts, which takes seconds on a busy machine.
    httpx.put(f"http://{address}/{bucket}", trust_env=False, timeout=PATIENCE_S).raise_for_status()
    return f"http://key:secret%2F1@{address}/{bucket}/below?region=eu-central-1"


@pytest.fixture
def media_settings(settings: Settings, media_url: str) -> Settings:
    return msgspec.structs.replace(settings, media_url=media_url)


@pytest.fixture
async def storage(media_settings: Settings) -> AsyncIterator[Storage]:
    opened = open_storage(media_settings)
    yield opened
    await opened.close()


@pytest.fixture
async def media_shop(media_settings: Settings, db: Database) -> AsyncIterator[Shop]:
    """A store of an application with this storage."""
    application = Application(media_settings)
    opened = await open_shop(application, db)
    yield opened
    await opened.client.aclose()
    await application.close()
