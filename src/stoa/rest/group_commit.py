"""Group commit: several calls of one endpoint and one store are carried out in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from stoa.db.connection import Connection
from stoa.db.errors import (
    CommitUnknown,
    PostgresError,
    StaleTransaction,
    StoreElsewhere,
    Unavailable,
    cause,
    is_away,
    is_lost,
)
from stoa.db.pool import Database
from stoa.rest import idempotency
from stoa.rest.call import Call
from stoa.rest.coalescing import Coalescer
from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import Refusal
from stoa.rest.request import Request
from stoa.rest.response import Response, render

MAX_CALLS = 20
MAX_BYTES = 32 * 1024  # of request bodies: large calls take long, and small ones must not wait for them
PATIENCE_S = 0.1  # a group that waits for a row lock must not delay calls that need other rows

Outcome = Response | Exception


class RefusedCalls(Exception):
    """Raised inside a group: these calls are refused after something was written; the others run again without them."""

    def __init__(self, refusals: Mapping[Call, Refusal]) -> None:
        super().__init__(refusals)
        self.refusals = refusals


class GroupedCall(msgspec.Struct):
    """One call of a group."""

    request: Request
    call: Call
    values: tuple[Any, ...]  # the arguments of the handler after the call
    size: int  # of the body, in bytes
    name: tuple[int, str] | None  # of the stored response: the app and its idempotency key
    fingerprint: bytes


class GroupCommit:
    """Carries out calls in groups where their endpoint declares how (`grouped`).

    The declared function takes the connection and a list of calls with their arguments, and returns one outcome for each: a
    result, a refusal, or None for a call that depends on an earlier one of the list and runs in the next transaction. The
    work, events and idempotency records of a group are committed together. Each call has the outcome that it would have if
    it ran alone after those before it in the list.
    """

    def __init__(self, database: Database, committed: Callable[[int], None]) -> None:
        self._database = database
        self._committed = committed
        self._coalescer = Coalescer[tuple[Endpoint, int], GroupedCall, Outcome](
            self._carry_out,
            max_items=MAX_CALLS,
            weigh=lambda call: call.size,
            max_weight=MAX_BYTES,
            patience_s=PATIENCE_S,
        )

    async def submit(self, endpoint: Endpoint, call: GroupedCall) -> Response:
        outcome = await self._coalescer.submit((endpoint, call.call.store_id), call)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _carry_out(self, key: tuple[Endpoint, int], calls: Sequence[GroupedCall]) -> list[Outcome]:
        endpoint, store_id = key
        outcomes: dict[int, Outcome] = {}
        while len(outcomes) < len(calls):
            waiting = {index: call for index, call in enumerate(calls) if index not in outcomes}
            settled = await self._run(endpoint, store_id, waiting)
            outcomes |= settled | await self._replay_refused(store_id, calls, settled)
        return [outcomes[index] for index in range(len(calls))]

    async def _replay_refused(
        self, store_id: int, calls: Sequence[GroupedCall], outcomes: Mapping[int, Outcome]
    ) -> dict[int, Outcome]:
        """The stored responses of refused calls: another process may have carried out a call with the same key meanwhile,
        and what that one changed may be why the second is refused."""
        refused = {index: calls[index] for index, outcome in outcomes.items() if isinstance(outcome, Refusal)}
        if not refused:
            return {}
        names = [each.name for each in refused.values() if each.name is not None]
        try:
            stored = await idempotency.stored_responses(self._database.autocommit, store_id, names)
        except (PostgresError, Unavailable):  # the calls that succeeded are committed
            return {}
        return {
            index: idempotency.replay(stored[each.name], each.fingerprint)
            for index, each in refused.items()
            if each.name in stored
        }

    async def _run(self, endpoint: Endpoint, store_id: int, calls: Mapping[int, GroupedCall]) -> dict[int, Outcome]:
        """Run calls in one transaction; returns the outcomes of those that are settled, at least one."""
        try:
            outcomes = await self._database.in_transaction(lambda db: _work(db, endpoint, store_id, calls), store_id)
        except RefusedCalls as refused:
            return {
                index: refused.refusals[each.call] for index, each in calls.items() if each.call in refused.refusals
            }
        except Exception as error:  # noqa: BLE001 - each caller gets its own outcome
            # After a lost connection the work may have been committed: only the caller may decide to retry.
            if len(calls) == 1 or _is_lost(error):
                return dict.fromkeys(calls, error)
            return await self._split(endpoint, store_id, calls, error)
        if any(isinstance(outcome, Response) for outcome in outcomes.values()):
            self._committed(store_id)
        return outcomes

    async def _split(
        self, endpoint: Endpoint, store_id: int, calls: Mapping[int, GroupedCall], error: Exception
    ) -> dict[int, Outcome]:
        """Run each call of a failed group on its own, so that no call fails because of another."""
        structlog.get_logger().warning(
            "group split", operation=endpoint.name, store_id=store_id, calls=len(calls), **cause(error)
        )
        alone = [self._run(endpoint, store_id, {index: call}) for index, call in calls.items()]
        return {index: outcome for outcomes in await asyncio.gather(*alone) for index, outcome in outcomes.items()}


async def _work(
    db: Connection, endpoint: Endpoint, store_id: int, calls: Mapping[int, GroupedCall]
) -> dict[int, Outcome]:
    """Replay stored responses, carry out the other calls, and store their responses."""
    names = [each.name for each in calls.values() if each.name is not None]
    stored = await idempotency.stored_responses(db, store_id, names)
    outcomes: dict[int, Outcome] = {}
    fresh: dict[int, GroupedCall] = {}
    claimed: set[tuple[int, str]] = set()
    for index, each in calls.items():
        if each.name in stored:
            outcomes[index] = idempotency.replay(stored[each.name], each.fingerprint)
        elif each.name is None or each.name not in claimed:  # a second call with the same key runs after the first
            fresh[index] = each
            claimed |= {each.name} if each.name is not None else set()
    if not fresh or endpoint.grouped is None:
        return outcomes
    for each in fresh.values():
        each.call.db = db
    results = await endpoint.grouped(db, [(each.call, *each.values) for each in fresh.values()])
    new: list[idempotency.NewResponse] = []
    for (index, each), result in zip(fresh.items(), results, strict=True):
        if isinstance(result, Refusal):
            outcomes[index] = result
        elif result is not None:
            response = outcomes[index] = render(each.request, endpoint, each.call, result)
            if each.name is not None:
                new.append(idempotency.NewResponse(*each.name, each.fingerprint, response, each.call.subject))
    if new:
        await _keep(db, store_id, new, fresh.values())
    return outcomes


async def _keep(
    db: Connection, store_id: int, new: Sequence[idempotency.NewResponse], calls: Iterable[GroupedCall]
) -> None:
    in_use = await idempotency.keep_responses(db, store_id, new)
    if in_use:
        in_flight = {(key.app_id, key.key) for key in in_use if key.in_flight}
        if not in_flight:
            raise StaleTransaction("another request stored its response first")
        refused = [each.call for each in calls if each.name in in_flight]
        raise RefusedCalls({call: await idempotency.in_progress(call.autocommit, store_id) for call in refused})


def _is_lost(error: Exception) -> bool:
    """Whether another try is useless or would repeat what may be committed."""
    if isinstance(error, StoreElsewhere):
        return True
    if not isinstance(error, Unavailable):
        return False
    origin = error.__cause__
    return isinstance(error, CommitUnknown) or origin is None or is_lost(origin) or is_away(origin)


async def only_outcome(call: Call, outcomes: Awaitable[Sequence[Any]]) -> Any:
    """The result of a group that consists of this call only; raises its refusal."""
    try:
        [outcome] = await outcomes
    except RefusedCalls as refused:
        raise refused.refusals[call] from None
    if isinstance(outcome, Refusal):
        raise outcome
    return outcome
