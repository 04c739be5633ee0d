"""Makes group commit deterministic: a test decides which calls form a group."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Generic

import pytest

from stoa.rest import group_commit
from stoa.rest.coalescing import Coalescer, Item, Key, Result
from stoa.rest.endpoint import Endpoint
from stoa.rest.group_commit import GroupCommit, GroupedCall
from stoa.rest.response import Response


class Submissions:
    """Counts submitted calls and can hold them back; for applications that are created afterwards.

    Such an application waits for one group before it starts the next, however long that takes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()
        submit = GroupCommit.submit
        gate = self.gate

        async def counted(groups: GroupCommit, endpoint: Endpoint, call: GroupedCall) -> Response:
            self.count += 1
            return await submit(groups, endpoint, call)

        class GatedCoalescer(Coalescer[Key, Item, Result], Generic[Key, Item, Result]):
            async def _run(self, key: Key, queue: Any) -> None:
                await gate.wait()
                await super()._run(key, queue)

        monkeypatch.setattr(GroupCommit, "submit", counted)
        monkeypatch.setattr(group_commit, "Coalescer", GatedCoalescer)
        monkeypatch.setattr(group_commit, "PATIENCE_S", 60.0)

    async def until(self, count: int) -> None:
        while self.count < count:
            await asyncio.sleep(0)

    async def group(self, calls: Sequence[Awaitable[Result]]) -> list[Result]:
        """Send calls so that they form one group, in this order."""
        self.gate.clear()
        sent: list[asyncio.Task[Result]] = []
        try:
            for call in calls:
                before = self.count
                sent.append(asyncio.ensure_future(call))
                waiting = asyncio.create_task(self.until(before + 1))
                await asyncio.wait([waiting, sent[-1]], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        finally:
            self.gate.set()
        return [await each for each in sent]
