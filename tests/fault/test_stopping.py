"""However a service ends, running requests are finished where possible, and the next start succeeds."""

import asyncio
import os
from contextlib import closing
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import pytest

from tests.support.data_folders import copy_migrated
from tests.support.partial_request import PartialRequest
from tests.support.service import PATIENCE_S, WITH_NOTES, Service, alive, until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for these tests; each starts from the state that the previous one left."""
    made = tmp_path_factory.mktemp("stopping")
    copy_migrated(made / "postgres")
    return made


def postgres_runs(service: Service) -> bool:
    return (service.folder / "postgres/data/postmaster.pid").exists()


@pytest.mark.long
async def test_after_kill_9_of_the_main_process_the_service_starts_again_on_the_same_port_and_data(
    folder: Path,
) -> None:
    with Service(folder) as service:
        account = await service.account("killed")
        workers = service.workers()
        service.kill()
        service.start()
        assert len(workers) == 2
        assert not any(map(alive, workers)), "workers exit on their own"
        assert await account.statuses(4) == {200}


@pytest.mark.parametrize("number", [SIGTERM, pytest.param(SIGINT, marks=pytest.mark.long)])
async def test_a_stop_finishes_running_requests_and_refuses_new_ones(folder: Path, number: Signals) -> None:
    with Service(folder, command=WITH_NOTES, background=False) as service:
        await service.add_notes()
        account = await service.account(f"stopped-{number}")
        async with (
            account.client() as idle,
            PartialRequest(account, "one") as one,
            PartialRequest(account, "two") as two,
        ):
            assert (await idle.get("/notes")).json()["meta"]["total"] == 0
            os.killpg(service.pid, number)  # a terminal signals the whole process group
            until(lambda: service.status("/ready") in (0, 503), "no new request is accepted")
            assert postgres_runs(service)
            assert await asyncio.gather(one.finish(), two.finish()) == [201, 201]
        assert service.wait() == 0
        assert not postgres_runs(service)
        assert "Traceback" not in service.output()


@pytest.mark.long
async def test_a_service_that_is_about_to_stop_serves_until_proxies_have_noticed(folder: Path) -> None:
    with Service(folder, shutdown_delay_seconds=10 * PATIENCE_S, background=False) as service:
        account = await service.account("delayed")
        os.kill(service.pid, SIGTERM)
        until(lambda: service.status("/ready") == 503, "a check fails")
        async with account.client() as client:
            answers = [await client.get("/products") for _ in range(3)]
        assert [(answer.status_code, answer.headers["connection"]) for answer in answers] == [(200, "close")] * 3
        assert {service.status("/live") for _ in range(10)} == {200}
        os.kill(service.pid, SIGINT)  # ends the delay
        assert service.wait() == 0
        assert "Traceback" not in service.output()


@pytest.mark.long
async def test_ctrl_c_waits_for_no_proxy(folder: Path) -> None:
    with Service(folder, shutdown_delay_seconds=10 * PATIENCE_S, background=False) as service:
        assert service.stop(SIGINT) == 0


async def test_ctrl_c_while_workers_start_ends_everything_without_a_traceback(folder: Path) -> None:
    with closing(Service(folder)) as service:
        service.launch()
        until(lambda: len(service.workers()) == 2, "workers start")
        workers = service.workers()
        os.killpg(service.pid, SIGINT)  # a terminal signals the whole process group
        assert service.wait() == 0
        assert not any(map(alive, workers))
        assert "Traceback" not in service.output()


async def test_a_stop_during_the_start_leaves_nothing_running(folder: Path) -> None:
    with closing(Service(folder)) as service:
        service.launch()
        until(lambda: postgres_runs(service), "PostgreSQL starts")
        assert service.stop() == 0
        assert not postgres_runs(service)
        assert "Traceback" not in service.output()


async def test_a_stop_waits_for_a_request_at_most_drain_seconds(folder: Path) -> None:
    with Service(folder, command=WITH_NOTES, drain_seconds=1, background=False) as service:
        account = await service.account("endless")
        async with PartialRequest(account, "never finished"):
            assert service.stop() == 0
        assert not postgres_runs(service)
