"""A transaction that loses against a concurrent one is repeated a few times; any other error is raised at once."""

from collections.abc import Callable

import pytest

from stoa.db import pool
from stoa.db.connection import Connection
from stoa.db.errors import CommitUnknown, NodeAway, PostgresError, StaleTransaction, Unavailable, sqlstate
from stoa.db.pool import PAUSE_S, TRIES, Database


class Work:
    """Fails a number of times, and then returns the number of tries."""

    def __init__(self, fail: str | Exception, times: int = 100) -> None:
        self.transactions: list[str] = []
        self._fail = fail
        self._times = times

    async def __call__(self, db: Connection) -> int:
        self.transactions.append((await db.fetch("SELECT pg_current_xact_id()::text"))[0][0])
        await db.execute("CREATE TABLE repeated (id bigint)")  # refused if an earlier try left its table
        if len(self.transactions) <= self._times:
            if isinstance(self._fail, Exception):
                raise self._fail
            await db.execute(self._fail)
        await db.execute("DROP TABLE repeated")
        return len(self.transactions)


def failing(code: str) -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"


LOST = "SELECT pg_terminate_backend(pg_backend_pid())"
REPEATED: dict[str, tuple[str | Exception, type[Exception]]] = {
    "a serialization failure": (failing("40001"), PostgresError),
    "a deadlock": (failing("40P01"), PostgresError),
    "a stale decision": (StaleTransaction("taken"), StaleTransaction),
}
RAISED: dict[str, tuple[str | Exception, type[Exception]]] = {
    "another rollback": (failing("40000"), PostgresError),
    "a broken constraint": (failing("23505"), PostgresError),
    "a number out of range": (failing("22003"), PostgresError),
    "a lock timeout": (failing("55P03"), Unavailable),
    "a cancelled statement": (failing("57014"), Unavailable),
    "a lost connection": (LOST, Unavailable),
    "an unknown commit": (CommitUnknown("unknown"), CommitUnknown),
    "a node that is away": (NodeAway("away"), NodeAway),
    "a bug": (RuntimeError("bug"), RuntimeError),
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which the tests do not wait for. Each is the longest possible one."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    longest: Callable[[float, float], float] = max
    monkeypatch.setattr(pool.random, "uniform", longest)
    monkeypatch.setattr(pool.asyncio, "sleep", sleep)
    return waited


@pytest.mark.parametrize("case", REPEATED)
async def test_a_transaction_that_lost_runs_again_in_another_one(db: Database, case: str) -> None:
    work = Work(REPEATED[case][0], times=1)
    assert await db.in_transaction(work) == 2
    assert len(set(work.transactions)) == 2


@pytest.mark.parametrize("case", REPEATED)
async def test_a_transaction_is_tried_four_times_in_all(db: Database, case: str) -> None:
    fail, error = REPEATED[case]
    work = Work(fail)
    with pytest.raises(error):
        await db.in_transaction(work)
    assert len(work.transactions) == TRIES == 4


async def test_the_last_try_may_succeed(db: Database) -> None:
    assert await db.in_transaction(Work(failing("40001"), times=TRIES - 1)) == TRIES


@pytest.mark.parametrize("case", RAISED)
async def test_no_other_error_is_repeated(db: Database, pauses: list[float], case: str) -> None:
    fail, error = RAISED[case]
    work = Work(fail)
    with pytest.raises(error):
        await db.in_transaction(work)
    assert len(work.transactions) == 1
    assert not pauses


async def test_the_pauses_grow_with_each_failed_try(db: Database, pauses: list[float]) -> None:
    with pytest.raises(StaleTransaction):
        await db.in_transaction(Work(StaleTransaction("taken")))
    assert pauses == [PAUSE_S[1] * failed for failed in (1, 2, 3)]


async def test_a_commit_that_fails_is_repeated(db: Database) -> None:
    """A deferred constraint is checked by COMMIT, as a serialization failure may be found there."""
    tries: list[int] = []

    async def work(connection: Connection) -> None:
        tries.append(1)
        await connection.execute("CREATE TEMPORARY TABLE late (id bigint) ON COMMIT DROP")
        if len(tries) == 1:
            await connection.execute(
                """CREATE FUNCTION pg_temp.late() RETURNS trigger LANGUAGE plpgsql
                   AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"""
            )
            await connection.execute(
                """CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
                   FOR EACH ROW EXECUTE FUNCTION pg_temp.late()"""
            )
        await connection.execute("INSERT INTO late VALUES (1)")

    await db.in_transaction(work)
    assert len(tries) == 2


async def test_the_error_of_the_last_try_is_raised(db: Database) -> None:
    with pytest.raises(PostgresError) as failed:
        await db.in_transaction(Work(failing("40P01")))
    assert sqlstate(failed.value) == "40P01"
