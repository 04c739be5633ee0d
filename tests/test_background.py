"""The duties of the background process: one that fails stops no other, and a stop ends all of them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from stoa import background, loops
from stoa.background import DUTIES, Duty, Work, duties_of, open_pools, run_duties
from stoa.settings import Settings


class Seen:
    """Counts the runs of duties, and waits for a number of them."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self._changed = asyncio.Condition()

    async def count(self, name: str) -> None:
        async with self._changed:
            self.runs[name] = self.runs.get(name, 0) + 1
            self._changed.notify_all()

    async def until(self, name: str, runs: int) -> None:
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(lambda: self.runs.get(name, 0) >= runs)


@pytest.fixture
def work(settings: Settings) -> Work:
    """No test connects: pools open their connections when they are used."""
    return Work(settings, open_pools(settings.database_url), asyncio.Event(), lambda _: None)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RETRY_S", 0.001)
    monkeypatch.setattr(loops, "LONGEST_RETRY_S", 0.001)


def failing(name: str, seen: Seen) -> Callable[[Work], Awaitable[None]]:
    async def fail(_: Work) -> None:
        await seen.count(name)
        raise ValueError(f"{name} of ada@example.com")

    return fail


def counting(name: str, seen: Seen) -> Callable[[Work], Awaitable[None]]:
    async def count(_: Work) -> None:
        await seen.count(name)

    return count


@pytest.mark.usefixtures("no_pauses")
async def test_a_duty_that_fails_is_logged_and_repeated_and_stops_no_other(work: Work) -> None:
    seen = Seen()

    async def last(work: Work) -> None:
        await work.stop.wait()
        await seen.count("finished")

    duties = [
        Duty("lasting", last),
        Duty("breaks", failing("breaks", seen)),
        Duty("fails", failing("fails", seen), every=3600),
        Duty("repeats", counting("repeats", seen), every=0.001),
    ]
    with capture_logs() as logged:
        running = asyncio.create_task(run_duties(work, duties))
        for name in ("breaks", "fails", "repeats"):
            await seen.until(name, 3)
        assert "finished" not in seen.runs
        work.stop.set()
        await running
    assert seen.runs["finished"] == 1
    lines = [line for line in logged if line["event"] == "duty failed"]
    assert {line["duty"] for line in lines} == {"breaks", "fails"}
    assert {(line["error"], line["log_level"]) for line in lines} == {("ValueError", "warning")}
    assert "ada@example.com" not in str(logged)


async def test_a_stop_lets_lasting_duties_finish_and_then_cancels_periodic_ones(work: Work) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def last(work: Work) -> None:
        await work.stop.wait()
        await asyncio.sleep(0)
        ended.append("the lasting duty finished")

    async def hang(_: Work) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the periodic duty ended")

    running = asyncio.create_task(run_duties(work, [Duty("last", last), Duty("hang", hang, every=1)]))
    await begun.wait()
    work.stop.set()
    await running
    assert ended == ["the lasting duty finished", "the periodic duty ended"]


async def test_a_stop_ends_duties_that_only_repeat(work: Work) -> None:
    seen = Seen()
    running = asyncio.create_task(run_duties(work, [Duty("repeats", counting("repeats", seen), every=3600)]))
    await seen.until("repeats", 1)
    work.stop.set()
    await running


def test_without_a_mail_server_nothing_is_sent_by_email() -> None:
    assert [duty.name for duty in duties_of(Settings())] == [
        "webhook deliveries",
        "secret reminders",
        "order holds",
        "app subscriptions",
        "collections",
        "pictures",
        "unused pictures",
        "pictures of erased stores",
        "shard messages",
    ]
    sending = Settings(smtp_url="smtp://mail.example.com", mail_from="shop@example.com")
    assert duties_of(sending) == [duty for duty in DUTIES if duty.where != "shard"]


def test_every_duty_has_its_own_name() -> None:
    assert len({duty.name for duty in DUTIES}) == len(DUTIES)
