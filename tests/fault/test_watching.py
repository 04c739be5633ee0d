"""What an operator sees of a service: queues without workers, processes that die, starts, and causes of failures."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from stoa.db.connection import connect
from stoa.operations.telemetry import VERSION
from tests.conftest import SECRET_KEY
from tests.docs.pages import OPERATIONS
from tests.support.metrics import metric, scrape
from tests.support.service import PATIENCE_S, Service, children, free_port, migrated_database, new_database, until

_SIMPLE = re.compile(r"max(?: by \(shard\) )?\((stoa_\w+)\) (==|>) (\d+)")


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A machine that only serves requests: nothing delivers webhooks."""
    url = await migrated_database(f"watching_{os.getpid()}")
    options = ("--no-background",)
    folder, metrics = tmp_path_factory.mktemp("watching"), f"127.0.0.1:{free_port()}"
    with Service(folder, database_url=url, options=options, workers=1, metrics=metrics) as running:
        yield running


def logged(service: Service, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in service.output().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def get(service: Service, path: str) -> httpx.Response:
    return httpx.get(f"{service.url}{path}", timeout=PATIENCE_S)


def fires(rule: str, text: str) -> bool:
    """Whether the condition of an alert of a simple form holds for a scrape."""
    groups = yaml.safe_load((OPERATIONS / "alerts.yml").read_text())["groups"]
    [condition] = [each["expr"] for group in groups for each in group["rules"] if each["alert"] == rule]
    parsed = _SIMPLE.fullmatch(condition)
    assert parsed is not None
    name, comparison, limit = parsed.groups()
    assert re.search(rf"^{name}[ {{]", text, re.MULTILINE)
    return metric(text, name) == int(limit) if comparison == "==" else metric(text, name) > int(limit)


@contextmanager
def worker(service: Service, *options: str) -> Generator[subprocess.Popen[bytes]]:
    with service.log.open("ab") as log:
        process = subprocess.Popen(
            [*service.command, "worker", *options], env=service.environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.long
async def test_without_a_delivery_worker_the_backlog_rises_alerts_fire_and_readiness_says_so(service: Service) -> None:
    account = await service.account("unattended")
    async with account.client() as client:
        hook = {"url": "https://hooks.example.com/stoa", "events": ["product.*"]}
        assert (await client.post("/webhooks", json=hook)).status_code == 201
        assert (await client.post("/products", json={"name": "Mug", "price": "1.00"})).status_code == 201
    db = await connect(service.database_url)
    await db.execute("UPDATE events SET created_at = created_at - interval '5 minutes' WHERE routed_on = 'infinity'")
    await db.close()

    async def risen() -> str | None:
        text = await scrape(service)
        return text if metric(text, "stoa_webhook_oldest_unrouted_seconds") > 60 else None

    while (text := await risen()) is None:
        await asyncio.sleep(0.2)
    assert metric(text, "stoa_webhook_unrouted") >= 1
    assert fires("StoaNoDeliveryWorker", text)
    assert fires("StoaEventsNotRouted", text)
    assert get(service, "/ready").status_code == 200
    deep = get(service, "/ready?deep")
    assert (deep.status_code, deep.json()["status"]) == (503, "degraded")
    assert deep.json()["problems"] == {"deliveries": "no delivery worker is connected to the database"}


@pytest.mark.long
async def test_a_worker_restarts_its_children_and_clears_the_backlog(service: Service) -> None:
    address = f"127.0.0.1:{free_port()}"
    with worker(service, "--metrics", address) as process:
        until(lambda: get(service, "/ready?deep").status_code == 200, "the events are routed")
        [first] = children(process.pid, b"--deliveries")
        os.kill(first, signal.SIGKILL)
        until(lambda: children(process.pid, b"--deliveries") not in ([], [first]), "the worker is replaced")
        assert len(children(process.pid, b"stoa.worker")) == 2
        text = await scrape(service, address)
        assert metric(text, "stoa_process_restarts_total", process="deliveries") == 1
        assert metric(text, "stoa_processes", process="imports") == 1
    [line] = [line for line in logged(service, "a worker exited unexpectedly") if line["process"] == "deliveries"]
    assert (line["pid"], line["exit_code"]) == (first, -signal.SIGKILL)
    until(lambda: get(service, "/ready?deep").status_code == 503, "the stopped worker is missed")


async def test_metrics_show_processes_pools_and_the_event_loop(service: Service) -> None:
    [first] = service.workers()
    os.kill(first, signal.SIGKILL)
    until(lambda: service.workers() not in ([], [first]) and service.status("/ready") == 200, "the worker is replaced")

    def sampled(text: str) -> bool:
        return metric(text, "stoa_database_connections", pool="requests") > 0

    while not sampled(text := await scrape(service)):
        await asyncio.sleep(0.2)
    assert metric(text, "stoa_process_restarts_total", process="web") == 1
    assert metric(text, "stoa_processes", process="web") == metric(text, "stoa_processes", process="main") == 1
    assert metric(text, "stoa_process_memory_bytes", process="web", number="0") > 10_000_000
    assert metric(text, "stoa_process_cpu_seconds_total", process="web") > 0
    assert metric(text, "stoa_process_open_files", process="main") > 3
    assert metric(text, "stoa_build_info", version=VERSION) == 1
    # The figures of the killed worker are gone, so that the size is not counted twice.
    assert metric(text, "stoa_database_pool_size", pool="requests") == 10
    assert metric(text, "stoa_event_loop_lag_seconds_count", process="web") > 0
    assert metric(text, "stoa_requests_in_flight") == 0
    assert "stoa_database_waits_total" in text


async def test_the_start_and_stop_of_each_process_are_logged_with_version_and_settings(tmp_path: Path) -> None:
    url = await migrated_database(f"starting_{os.getpid()}")
    with Service(tmp_path, database_url=url, workers=1) as running:
        until(lambda: len(logged(running, "process started")) == 4, "all processes have started")
        pids = {line["process"]: line["pid"] for line in logged(running, "process started")}
        assert pids["main"] == running.pid
        assert running.stop() == 0
        stopped = {line["process"]: line["pid"] for line in logged(running, "process stopped")}
        assert stopped == pids
        assert set(pids) == {"main", "web", "deliveries", "imports"}
        [main] = [line for line in logged(running, "process started") if line["process"] == "main"]
        assert main["version"] == VERSION
        assert main["settings"]["STOA_PORT"] == str(running.port)
        assert main["settings"]["STOA_SECRET_KEY"] == main["settings"]["STOA_DATABASE_URL"] == "(set)"
        assert SECRET_KEY not in running.output()
        assert url not in running.output()


@pytest.mark.long
async def test_an_old_schema_is_refused_if_the_service_must_not_migrate(tmp_path: Path) -> None:
    url = await new_database(f"unmigrated_{os.getpid()}")
    service = Service(tmp_path, database_url=url)
    for command in (("serve", "--no-migrate"), ("worker",)):
        done = service.run(*command)
        assert done.returncode == 2
        assert "error: the database has no schema of Stoa yet: run `stoa migrate`" in done.stderr
