"""Makes concurrent calls wait for each other, so that tests know which are grouped."""

import asyncio

import pytest

from stoa.rest import together
from stoa.rest.endpoint import Endpoint
from stoa.rest.together import Together, Turn
from stoa.rest.wire import Response


class Company:
    """Counts the calls that join a group; applications created afterwards wait longer for groups to fill."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.come = 0
        join = Together.join

        async def counted(there: Together, endpoint: Endpoint, turn: Turn) -> Response | None:
            self.come += 1
            return await join(there, endpoint, turn)

        monkeypatch.setattr(Together, "join", counted)
        monkeypatch.setattr(together, "PATIENCE_S", 60.0)

    async def until(self, many: int) -> None:
        while self.come < many:
            await asyncio.sleep(0.005)
