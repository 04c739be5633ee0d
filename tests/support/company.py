"""Calls that are made to wait for one another, so that it is known which of them go together."""

import asyncio

import pytest

from stoa.rest import group_commit
from stoa.rest.endpoint import Endpoint
from stoa.rest.group_commit import GroupCommit, Turn
from stoa.rest.response import Response


class Company:
    """Counts who has come to go together with others; an application made after this one waits for its groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.come = 0
        join = GroupCommit.join

        async def counted(there: GroupCommit, endpoint: Endpoint, turn: Turn) -> Response | None:
            self.come += 1
            return await join(there, endpoint, turn)

        monkeypatch.setattr(GroupCommit, "join", counted)
        monkeypatch.setattr(group_commit, "PATIENCE_S", 60.0)

    async def until(self, many: int) -> None:
        while self.come < many:
            await asyncio.sleep(0.005)
