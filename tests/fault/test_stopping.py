"""However a service is ended, what runs is finished where it can be, and nothing hinders the next start."""

import asyncio
import os
from contextlib import closing
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import pytest

from stoa.crew import Wakeup
from tests.support.service import WITH_NOTES, Held, Service, alive, until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for these tests, each of which starts where the one before it stopped."""
    return tmp_path_factory.mktemp("stopping")


def postgres_runs(service: Service) -> bool:
    return (service.folder / "postgres/data/postmaster.pid").exists()


async def test_after_kill_9_of_the_main_process_the_same_port_folder_and_data_serve_again(folder: Path) -> None:
    with Service(folder) as service:
        account = await service.account("killed")
        workers = service.workers()
        service.kill()
        service.start()
        assert len(workers) == 2
        assert not any(map(alive, workers)), "workers end by themselves"
        assert await account.statuses(4) == {200}


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
async def test_a_stop_finishes_running_requests_and_refuses_new_ones(folder: Path, number: Signals) -> None:
    with Service(folder, command=WITH_NOTES) as service:
        await service.add_notes()
        account = await service.account(f"stopped-{number}")
        async with account.client() as idle, Held(account, "one") as one, Held(account, "two") as two:
            assert (await idle.get("/notes")).json()["meta"]["total"] == 0
            os.killpg(service.pid, number)  # as a terminal's Ctrl-C does: to the workers as well
            until(lambda: service.status("/ready") in (0, 503), "nothing new is taken on", seconds=20)
            assert postgres_runs(service)
            assert await asyncio.gather(one.let_go(), two.let_go()) == [201, 201]
        assert service.wait() == 0
        assert not postgres_runs(service)
        assert "Traceback" not in service.said()


def test_a_signal_that_comes_while_the_server_is_busy_with_workers_still_wakes_it() -> None:
    wakeup = Wakeup(told=lambda: True)
    wakeup.set()
    wakeup.clear()  # as the server does after it looked for signals and before it waits again
    wakeup.wait()


async def test_ctrl_c_while_workers_start_is_heard_by_the_main_process_alone(folder: Path) -> None:
    with closing(Service(folder)) as service:
        service.launch()
        until(lambda: len(service.workers()) == 2, "workers start")
        workers = service.workers()
        for pid in workers:
            os.kill(pid, SIGINT)
        until(lambda: service.status("/ready") == 200, "it serves")
        assert service.workers() == workers
        assert service.stop() == 0
        assert "Traceback" not in service.said()


async def test_a_stop_while_it_starts_leaves_nothing_running(folder: Path) -> None:
    with closing(Service(folder)) as service:
        service.launch()
        until(lambda: postgres_runs(service), "PostgreSQL starts")
        assert service.stop() == 0
        assert not postgres_runs(service)
        assert "Traceback" not in service.said()


async def test_a_request_that_does_not_end_holds_up_a_stop_only_so_long(folder: Path) -> None:
    with Service(folder, command=WITH_NOTES, drain_seconds=1) as service:
        account = await service.account("endless")
        async with Held(account, "never finished"):
            assert service.stop() == 0
        assert not postgres_runs(service)
