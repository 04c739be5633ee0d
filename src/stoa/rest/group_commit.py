"""Writes that need not be alone: several calls of one endpoint and one store, carried out in one transaction."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stoa.db.errors import Unavailable, is_lost
from stoa.db.pool import Connection, Database
from stoa.rest import idempotency
from stoa.rest.coalescing import Coalescer
from stoa.rest.endpoint import Call, Endpoint
from stoa.rest.request import Request
from stoa.rest.response import Response, render

MOST = 20
PATIENCE_S = 0.1  # a group that waits for a row must not keep others waiting who want other rows


class Turn(msgspec.Struct):
    """One call among several."""

    request: Request
    call: Call
    body: Any
    key: str | None
    mark: bytes


class GroupCommit:
    """Carries out calls together where their endpoint knows how.

    A group succeeds as a whole or leaves no trace: whoever is not answered then goes alone, where all that may stand in
    the way is told.
    """

    def __init__(self, database: Database, committed: Callable[[int], None]) -> None:
        self._database = database
        self._committed = committed
        self._coalescer = Coalescer[tuple[Endpoint, int], Turn, Response | None](
            self._carry_out, most=MOST, patience_s=PATIENCE_S
        )

    async def join(self, endpoint: Endpoint, turn: Turn) -> Response | None:
        return await self._coalescer.join((endpoint, turn.call.store_id), turn)

    async def _carry_out(self, at: tuple[Endpoint, int], turns: Sequence[Turn]) -> list[Response | None]:
        endpoint, store_id = at
        try:
            async with self._database.transaction() as db:
                answered = await self._answer(db, endpoint, store_id, turns)
        except Unavailable as error:
            # What was lost on the way may have been done: only the callers know whether to ask again.
            if error.__cause__ is None or is_lost(error.__cause__):
                raise
            return [None] * len(turns)
        except Exception:  # noqa: BLE001 - nobody fails for another: whoever is at fault is told so alone
            return [None] * len(turns)
        if any(answered):
            self._committed(store_id)
        return answered

    async def _answer(
        self, db: Connection, endpoint: Endpoint, store_id: int, turns: Sequence[Turn]
    ) -> list[Response | None]:
        places = await _fresh(db, store_id, turns)
        if not places or endpoint.grouped is None:
            return [None] * len(turns)
        answers = await endpoint.grouped(db, [(turns[place].call, turns[place].body) for place in places])
        answered: list[Response | None] = [None] * len(turns)
        kept: list[idempotency.Kept] = []
        for place, answer in zip(places, answers, strict=True):
            turn = turns[place]
            if answer is not None:
                response = answered[place] = render(turn.request, endpoint, turn.call, answer)
                if turn.key is not None:
                    names = (turn.call.caller.app_id, turn.key, turn.mark)
                    kept.append(idempotency.Kept(*names, response, turn.call.subject))
        if kept:
            await idempotency.keep(db, store_id, kept)
        return answered


async def _fresh(db: Connection, store_id: int, turns: Sequence[Turn]) -> list[int]:
    """The places of those whose keys are new; of two with one key, the first."""
    keys = {(turn.call.caller.app_id, turn.key): place for place, turn in reversed(list(enumerate(turns))) if turn.key}
    used = await idempotency.used(db, store_id, list(keys))
    return [
        place
        for place, turn in enumerate(turns)
        if turn.key is None or ((name := (turn.call.caller.app_id, turn.key)) not in used and keys[name] == place)
    ]
