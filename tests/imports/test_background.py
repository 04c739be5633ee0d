"""A service starts one worker for imports, and the worker ends with the service."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import pytest

from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.db.pool import Database
from stoa.imports.contract import Options
from stoa.imports.importable import Task
from stoa.imports.jobs import new_import_id, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import GET, STORE
from stoa.rest.headers import NDJSON
from stoa.settings import load
from tests.imports.files import lines, mug
from tests.support.service import Service, alive, migrated_database, until


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    url = await migrated_database(f"background_{os.getpid()}")
    with Service(tmp_path, database_url=url, workers=1) as running:
        yield running


def background(service: Service) -> list[int]:
    """The process ids of a service's background workers."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:4] == [b"-m", b"stoa.worker", str(service.pid).encode()]:
            found.append(int(folder.name))
    return found


async def import_mugs(service: Service, tmp_path: Path, handle: str) -> int:
    """Enqueue a file, wait until its job is finished, and return how many products it created."""
    database = Database(service.database_url, size=2)
    settings = load(service.environment, database_url=service.database_url)
    operator = Operator(database, settings, actor="operator:tests", request_id="req_tests")
    row = await create_store(operator, handle, "A store", "USD")
    store = await STORE.one(database, row.id)
    file = tmp_path / "mugs.ndjson"
    file.write_bytes(lines(mug(n) for n in range(10)))
    task = Task(store, new_import_id(), None, "req_tests", Options())
    async with database.transaction() as db:
        job = await start_import(db, task, PRODUCTS, file, NDJSON)
    for _ in range(600):
        job = await GET.one(database, store.id, "products", job.id)
        if job.finished_at is not None:
            break
        await asyncio.sleep(0.1)
    await database.close()
    return job.created


async def test_a_service_runs_imports_and_replaces_a_dead_worker(service: Service, tmp_path: Path) -> None:
    assert await import_mugs(service, tmp_path, "first") == 10
    [worker] = background(service)
    assert os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, service.pid)
    os.kill(worker, SIGKILL)
    assert await import_mugs(service, tmp_path, "second") == 10
    assert background(service) != [worker]


@pytest.mark.long
async def test_an_upload_to_a_running_service_finishes_while_the_client_waits(service: Service) -> None:
    account = await service.account("waiting")
    async with account.client() as client:
        answer = await client.post(
            "/products/imports",
            content=gzip.compress(lines(mug(n) for n in range(2_000))),
            headers={"content-type": NDJSON, "content-encoding": "gzip", "prefer": "wait=20"},
        )
        job = answer.json()["data"]
        assert (answer.status_code, job["status"], job["counts"]["created"]) == (200, "succeeded", 2_000), job
        report = await client.get(f"/products/imports/{job['id']}", headers={"accept": NDJSON})
        assert len(report.text.splitlines()) == 2_000
        assert (await client.get("/products")).json()["meta"]["total"] == 2_000


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
async def test_no_worker_outlives_its_service(service: Service, number: Signals) -> None:
    until(lambda: background(service), "there is a worker")
    workers = background(service)
    service.stop(number)
    until(lambda: not any(map(alive, workers)), "the worker has ended")
