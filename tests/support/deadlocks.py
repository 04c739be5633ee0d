"""Finds the deadlocks that PostgreSQL ended while a test ran, with the statements that the log of the server names."""

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self

from stoa.db.connection import connect

LOG = "TEST_POSTGRES_LOG"  # the log of the server of this test run, if the suite started it
_COUNT = "SELECT current_database()::text, deadlocks::bigint FROM pg_stat_database WHERE datname = current_database()"
# Stoa logs neither the errors of its role nor their details, because both may quote personal data.
_SETTINGS = (
    "ALTER SYSTEM SET log_error_verbosity = 'default'",
    "ALTER SYSTEM SET log_line_prefix = '%m [%p] %d '",
    "ALTER ROLE stoa SET log_min_messages = error",
    "SELECT pg_reload_conf()",
)

Fetch = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]  # of a connection, or of a pool


async def log_deadlocks(url: str) -> None:
    """Let an embedded server log errors with their details, for the sessions that begin from now on."""
    admin = await connect(url.replace("//stoa@", "//postgres@"))
    try:
        for statement in _SETTINGS:
            await admin.execute(statement)
    finally:
        await admin.close()


class Deadlocks:
    """The deadlocks of a database since `since`. `log` is that of its server, by default of the one that the suite started."""

    def __init__(self, fetch: Fetch, log: Path | None, database: str, before: int) -> None:
        self._fetch = fetch
        self._log = log
        self._database = database
        self._before = before
        self._start = log.stat().st_size if log is not None else 0

    @classmethod
    async def since(cls, fetch: Fetch, log: Path | None = None) -> Self:
        [[database, before]] = await fetch(_COUNT)
        return cls(fetch, log or (Path(os.environ[LOG]) if LOG in os.environ else None), database, before)

    async def found(self) -> list[str]:
        """What the log says of each. The server also counts them, but only when a session reports its statistics."""
        [[_, now]] = await self._fetch(_COUNT)
        logged = self._logged()
        missing = now - self._before - len(logged)
        return logged + ["a deadlock; the log of the server names its statements"] * missing

    def _logged(self) -> list[str]:
        if self._log is None:
            return []
        with self._log.open("rb") as log:
            log.seek(self._start)
            text = log.read().decode(errors="replace")
        entry = rf"^\S+ \S+ \S+ (\[\d+\] {re.escape(self._database)} )ERROR:  deadlock detected.*\n(?:(?:\S+ \S+ \S+ \1|\t).*\n)*"
        return [found[0] for found in re.finditer(entry, text, re.MULTILINE)]
