"""Makes group commit deterministic: a test knows when all calls of the next group have been submitted."""

import asyncio

import pytest

from stoa.rest import group_commit
from stoa.rest.endpoint import Endpoint
from stoa.rest.group_commit import GroupCommit, GroupedCall
from stoa.rest.wire import Response


class Submissions:
    """Counts submitted calls. An application that is created afterwards never starts a group before the last one ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        submit = GroupCommit.submit

        async def counted(groups: GroupCommit, endpoint: Endpoint, call: GroupedCall) -> Response:
            self.count += 1
            return await submit(groups, endpoint, call)

        monkeypatch.setattr(GroupCommit, "submit", counted)
        monkeypatch.setattr(group_commit, "PATIENCE_S", 60.0)

    async def until(self, count: int) -> None:
        while self.count < count:
            await asyncio.sleep(0.005)
