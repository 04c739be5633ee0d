"""Writes that are not grouped: each in a transaction of its own, or outside any, with its idempotency key."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from stoa.db.connection import Connection
from stoa.db.pool import Database, begin_work
from stoa.rest import idempotency
from stoa.rest.call import Call
from stoa.rest.checks import together_with, validation_failed
from stoa.rest.endpoint import Accepted, Endpoint
from stoa.rest.request import Request
from stoa.rest.response import Response, render


class Write(msgspec.Struct):
    """A call of an endpoint that writes; without a key, its response is not stored."""

    request: Request
    endpoint: Endpoint
    call: Call
    values: dict[str, Any]
    key: str | None
    fingerprint: bytes
    turn: AbstractAsyncContextManager[None]  # in which the transaction runs


class Writes:
    """Runs the handlers of writes, and stores their responses under their keys."""

    def __init__(
        self, database: Database, encryption: idempotency.Encryption | None, committed: Callable[[int], None]
    ) -> None:
        self._database = database
        self._encryption = encryption
        self._committed = committed

    async def in_transaction(self, write: Write) -> Response:
        """Run a handler in a transaction that also stores its response."""
        request, endpoint, call, key = write.request, write.endpoint, write.call, write.key
        names = (call.store_id, call.caller.app_id)
        # A response with a secret is stored encrypted, or not at all.
        encryption = self._encryption if endpoint.secret else None

        async def run(db: Connection) -> tuple[Response, Any]:
            """The response with the result of the handler, which is None if the response was stored before."""
            call.db = db
            if key:
                before = await idempotency.claim(db, self._database.autocommit, *names, key, write.fingerprint)
                if before is not None:
                    return idempotency.decrypted(before, encryption, *names, key) if encryption else before, None
            with together_with(call.faults):
                result = await endpoint.handler(call, **write.values)
            response = render(request, endpoint, call, result)
            if key and (encryption or not endpoint.secret):
                kept = idempotency.encrypted(response, encryption, *names, key) if encryption else response
                await idempotency.remember(db, *names, key, kept, call.subject)
            return response, result

        async with write.turn:
            response, result = await self._database.in_transaction(run, call.store_id)
        if result is None:
            return response
        self._committed(call.store_id)
        if isinstance(result, Accepted) and result.settled is not None:
            call.db = self._database
            with call.waiting():
                settled = await result.settled()
            return render(request, endpoint, call, settled, status=200) if settled else response
        return response

    async def outside_transaction(self, write: Write) -> Response:
        """Run a handler that waits for others. Of two concurrent calls with one key, both may act; one response is stored."""
        call, key = write.call, write.key
        names = (call.store_id, call.caller.app_id, key or "", write.fingerprint)
        if key and (before := await idempotency.find_response(self._database, *names)) is not None:
            return before
        if call.faults:  # nothing can be undone here
            raise validation_failed(call.faults)
        begin_work()  # what the handler does elsewhere cannot be undone
        result = await write.endpoint.handler(call, **write.values)
        response = render(write.request, write.endpoint, call, result)
        if key:
            async with self._database.transaction(call.store_id) as db:
                if (before := await idempotency.claim(db, self._database.autocommit, *names)) is not None:
                    return before
                await idempotency.remember(db, *names[:3], response)
        return response
