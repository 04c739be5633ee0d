"""The clock of the sample data: what is written now, step by step, gets the times of a past."""

import re
from bisect import bisect_right
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from stoa.access.operator import Joined, Operator
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.settings import Settings

_SERVER = "the clock of the server"
# A transaction that was open before the first step has written its own start into some rows.
BEGINNING = Query(datetime, "SELECT now()", unbound=_SERVER)
MOMENT = Query(datetime, "SELECT clock_timestamp()", unbound=_SERVER)
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z"', re.ASCII)


class Past:
    """Maps the moment at which a row was really written to the moment at which it shall have been written.

    The steps of a story are written through the endpoints, one after the other, in the order in which they shall have
    happened. So ids, positions and versions rise with these times.
    """

    def __init__(self) -> None:
        self.real: list[datetime] = []  # the first moment of each step
        self.past: list[datetime] = []  # when the step shall have begun
        self._requests: dict[str, int] = {}  # the step of each request

    async def travel(self, db: Executor, to: datetime) -> None:
        """Let everything that is written from now on have happened at this moment, or just after the step before."""
        real = await (MOMENT if self.real else BEGINNING).one(db)
        if self.real:
            to = max(to, self.of(real) + timedelta(milliseconds=1))
        self.real.append(real)
        self.past.append(to)

    async def return_to_present(self, db: Executor) -> None:
        """End the story; later moments, such as the end of a hold, stay as they are."""
        real = await MOMENT.one(db)
        self.real.append(real)
        self.past.append(real)

    @property
    def now(self) -> datetime:
        return self.past[-1]

    def of(self, real: datetime) -> datetime:
        step = bisect_right(self.real, real) - 1
        return self.past[step] + (real - self.real[step]) if step >= 0 else real

    def belongs(self, request_id: str) -> str:
        """Remember that a request is part of the present step."""
        self._requests[request_id] = len(self.real) - 1
        return request_id

    def of_event(self, created_at: datetime, request_id: str) -> datetime:
        """When an event shall have been created. Some have the start of a transaction that contains the whole story; they
        get the end of the step of their request."""
        step = self._requests.get(request_id, 0)
        if created_at > self.real[0] or not step:
            return self.of(created_at)
        return self.past[step] + (self.real[step + 1] - self.real[step])

    def rewrite(self, document: str) -> str:
        """A stored document with the times of the past."""
        return _TIME.sub(self._rewritten, document)

    def _rewritten(self, found: re.Match[str]) -> str:
        real = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
        return f'"{self.of(real).astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")}Z"'


class PastOperator(Operator):
    """An operator whose entries in the audit log have the time of the past."""

    def __init__(self, db: Database | Joined, settings: Settings, *, actor: str, request_id: str, past: Past) -> None:
        super().__init__(db, settings, actor=actor, request_id=request_id)
        self.past = past

    @property
    def moment(self) -> datetime:
        return self.past.now

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Operator]:
        async with self.db.transaction() as connection:
            yield PastOperator(
                Joined(connection), self.settings, actor=self.actor, request_id=self.request_id, past=self.past
            )
