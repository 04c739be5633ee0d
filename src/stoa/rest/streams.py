"""A list as a stream: its rows, sent as the client takes them and pays for them, and ended by a last line."""

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from stoa.db.errors import Unavailable
from stoa.rest.backends import Backend, Backends
from stoa.rest.call import Call, Caller
from stoa.rest.endpoint import Endpoint
from stoa.rest.headers import CSV, bearer_token
from stoa.rest.limits import Allowance
from stoa.rest.list_reader import ListReader
from stoa.rest.lists import Page
from stoa.rest.problems import InsufficientScope, InternalError, Refusal, ServiceUnavailable, TooManyInFlight
from stoa.rest.request import Access, Request
from stoa.rest.response import Response, StreamBroken
from stoa.rest.stream_leases import ExportInProgress, StreamLease

ROWS_PER_REQUEST = 250  # of the rate limit
READS = 2  # statements of all streams of a worker at the same time: the other connections serve requests
PATIENCE_S = 20.0  # for a database that restarts
_CHECKPOINTS = re.compile(rb"(?:^|[,;])\s*checkpoints\s*(?:$|[,;])")


class Streams:
    """Opens streams, and ends them when their worker is about to exit."""

    def __init__(self, backends: Backends, access: Access, most_of_app: int) -> None:
        self.backends = backends
        self.access = access
        self.draining = False
        self.running: set[ListStream] = set()
        self.reads = asyncio.Semaphore(READS)
        self._most_of_app = most_of_app  # in this worker, on all stores
        self._opening: Counter[int] = Counter()

    def drain(self) -> None:
        """End every stream with a line that names where to resume."""
        self.draining = True
        for stream in self.running:
            stream.wake()

    async def open(
        self, request: Request, endpoint: Endpoint, call: Call, values: Mapping[str, Any], backend: Backend
    ) -> Response:
        """The response to a list request whose client accepts a stream. What fails before the first row is an ordinary error."""
        reader = ListReader(endpoint, call, values)
        checkpoints = not reader.is_csv and _CHECKPOINTS.search(request.headers.get(b"prefer", b"").lower())
        stream = ListStream(self, request, endpoint, call, reader, backend, checkpoints=bool(checkpoints))
        media = f"{CSV}; charset=utf-8" if call.accepted == CSV else call.accepted
        headers = [(b"content-type", media.encode())]
        if checkpoints:
            headers.append((b"preference-applied", b"checkpoints"))
        if request.method == "HEAD":
            return Response(200, headers, b"", stream.parts(await stream.read()))  # of which nothing is sent
        with self._counted(call.caller.app_id):
            await stream.lease.take()
            try:
                page = await stream.read()
            except BaseException:
                await stream.lease.release()
                raise
        return Response(200, headers, b"", stream.parts(page))

    @contextmanager
    def _counted(self, app_id: int) -> Generator[None]:
        """Refuse an app that reads many streams here, of many stores: each of them holds rows that its client has not taken."""
        running = sum(stream.app_id == app_id for stream in self.running) + self._opening[app_id]
        if running >= self._most_of_app:
            message = f"An app may read at most {self._most_of_app} streams of all its stores at the same time."
            raise TooManyInFlight(message, headers=[(b"retry-after", b"2")])
        self._opening[app_id] += 1
        try:
            yield
        finally:
            self._opening[app_id] -= 1
            if not self._opening[app_id]:
                del self._opening[app_id]


class ClientLeft(Exception):
    """The client has closed its connection."""


class ListStream:
    """One stream: its place in the list, its lease, and what it has sent."""

    def __init__(
        self,
        streams: Streams,
        request: Request,
        endpoint: Endpoint,
        call: Call,
        reader: ListReader,
        backend: Backend,
        *,
        checkpoints: bool,
    ) -> None:
        self._streams = streams
        self._request = request
        self._endpoint = endpoint
        self._call = call
        self._reader = reader
        self._backend = backend
        self._checkpoints = checkpoints
        self._total = 0
        self._sent = 0
        self._paid = ROWS_PER_REQUEST  # rows; the request itself pays for the first
        self._allowance: Allowance | None = request.allowance
        self._left = False
        self._woken = asyncio.Event()
        self.app_id = call.caller.app_id
        self.lease = StreamLease(backend.database, call.store_id, self.app_id, secrets.token_hex(8), self.wake)

    def wake(self) -> None:
        """Look at once whether the stream must end."""
        self._woken.set()

    async def parts(self, page: Page[Any]) -> AsyncGenerator[bytes]:
        """The lines of all rows, a part at a time, then the last line."""
        self._streams.running.add(self)
        beside = [asyncio.create_task(self._watch()), asyncio.create_task(self.lease.renew_forever())]
        self._total = page.total
        try:
            while True:
                part, rows = await self._reader.lines(page)
                await self._pay(rows)
                await self._patiently(self._check)
                self._sent += rows
                self._reader.move_on(page, len(part))
                if page.next_cursor is None:
                    yield part
                    break
                # The next rows are read while these are sent.
                ahead = asyncio.create_task(self._patiently(self.read))
                beside.append(ahead)
                yield part + (self._checkpoint() if self._checkpoints else b"")
                page = await ahead
                beside.remove(ahead)
            if not self._reader.is_csv:
                yield self._end()
        except ClientLeft:
            pass
        except Exception as error:
            line = self._failure(error)
            if self._reader.is_csv:
                raise StreamBroken from error
            yield line
        finally:
            self._streams.running.discard(self)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self.lease.release()

    async def read(self) -> Page[Any]:
        """Read the next rows, with the scopes that the app has now."""
        caller = await self._check()
        self._call.by = caller
        while self._backend.database.saturated:
            await self._pause(0.1)
        if self._backend.database.fenced:
            await self._follow()
        replica = self._backend.replica
        if replica is not None and not self._endpoint.primary:
            self._call.db = await replica.reader(self._allowance.fence if self._allowance else None)
        async with self._streams.reads:
            return await self._reader.read()

    async def _follow(self) -> None:
        """Read where the store is now, if it has moved. The lease stays where it was taken: a second stream is harmless."""
        store, self._backend = await self._streams.backends.locate(self._request, self._call.store)
        if store is not self._call.store:
            self._call.store = msgspec.structs.replace(self._call.store, shard=store.shard)
        self._call.db = self._backend.database

    async def _check(self) -> Caller:
        """The caller, if the stream may continue."""
        if self._left:
            raise ClientLeft
        if self._streams.draining:
            raise ServiceUnavailable("The service restarts. Resume with the cursor.")
        if self.lease.lost:
            raise ExportInProgress
        store = self._call.store
        caller = await self._streams.access.caller(store, bearer_token(self._request.headers))
        if not caller.may(self._endpoint.scope):
            raise InsufficientScope(
                f"This endpoint requires the scope {self._endpoint.scope}.", required_scope=self._endpoint.scope
            )
        return caller

    async def _pay(self, rows: int) -> None:
        """Take the tokens for rows that are about to be sent, and wait for them if the bucket is empty."""
        while self._paid < self._sent + rows:
            caller = await self._patiently(self._check)
            due = -(-(self._sent + rows - self._paid) // ROWS_PER_REQUEST)
            cost = min(due, caller.burst)
            taken = await self._patiently(lambda caller=caller, cost=cost: self._take(caller, cost))
            if taken.allowed:
                self._paid += cost * ROWS_PER_REQUEST
                self._allowance = taken
            else:
                await self._pause(cost / caller.refill)

    async def _take(self, caller: Caller, cost: int) -> Allowance:
        return await self._backend.limiter.take(self._call.store_id, caller.app_id, cost, caller.burst, caller.refill)

    async def _patiently(self, read: Callable[[], Any]) -> Any:
        """Read, and wait for a database that is away for a moment."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await read()
            except Unavailable:
                if time.monotonic() >= until:
                    raise
            await self._pause(0.25)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not when the stream must end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        if self._woken.is_set():
            self._woken.clear()
            await self._check()

    async def _watch(self) -> None:
        """Notice when the client leaves: the server takes what is sent to nobody."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self.wake()

    def _checkpoint(self) -> bytes:
        return msgspec.json.encode({"meta": {"count": self._sent, "cursor": self._reader.cursor}}) + b"\n"

    def _end(self) -> bytes:
        meta = {"total": self._total, "count": self._sent, "cursor": self._reader.cursor, "complete": True}
        return msgspec.json.encode({"meta": meta}) + b"\n"

    def _failure(self, error: Exception) -> bytes:
        """The last line of a stream that failed: a problem document with the cursor to resume from."""
        request = self._request
        refusal = error if isinstance(error, Refusal) else InternalError()
        if isinstance(error, Unavailable):
            refusal = ServiceUnavailable()
        if not isinstance(error, Refusal):
            request.error = error
        request.code = refusal.code
        refusal.members |= {"complete": False, "cursor": self._reader.cursor}
        return refusal.body(origin=request.origin, instance=request.path, request_id=request.request_id) + b"\n"
