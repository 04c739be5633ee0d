"""A client of a stream in this process, which decides when it reads on."""

import asyncio
import json
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop

NOTES = """INSERT INTO notes (store_id, title, price, color, pinned, body)
           SELECT $1, 'note ' || n, n % 7, (ARRAY['red', 'green', 'blue'])[n % 3 + 1], n % 2 = 0,
                  '"title":"note ' || n || '","price":"1.00","color":"' || (ARRAY['red', 'green', 'blue'])[n % 3 + 1]
                  || '","pinned":false,"detail":{"author":null,"pages":null},"labels":[]'
             FROM generate_series($2::int, $2 + $3::int - 1) n"""
COUNT = "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'notes', $2)"


async def write_notes(shop: Shop, count: int, *, first: int = 1) -> None:
    await shop.db.fetch(NOTES, shop.store_id, first, count)
    await shop.db.fetch(COUNT, shop.store_id, count)


class Reader:
    """A client that takes one part of a stream at a time; what it has not taken is not sent."""

    def __init__(
        self, shop: Shop, path: str = "/notes", accept: str = "application/x-ndjson", prefer: str = ""
    ) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._left = asyncio.Event()
        self.status = 0
        self.text = b""
        self.ended = False
        headers = {"host": "testserver", "authorization": f"Bearer {shop.token}", "accept": accept, "prefer": prefer}
        scope = {
            "type": "http", "method": "GET", "path": f"/stores/{shop.store.handle}/api/v3/app{path}", "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1",
            "scheme": "http", "client": ("127.0.0.1", 1),
        }  # fmt: skip
        self.task = asyncio.create_task(shop.application(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif not self._left.is_set():
            await self._parts.put(message["body"])
            self.ended = not message.get("more_body")

    async def take(self, parts: int = 1) -> None:
        for _ in range(parts):
            self.text += await asyncio.wait_for(self._parts.get(), PATIENCE_S)

    async def leave(self) -> None:
        """Close the connection."""
        self._left.set()
        with suppress(asyncio.QueueEmpty):
            self._parts.get_nowait()
        await asyncio.wait_for(self.task, PATIENCE_S)

    async def read_on(self) -> None:
        """Take the rest, until the response ends or breaks."""
        while not (self.task.done() and self._parts.empty()):
            part = asyncio.ensure_future(self._parts.get())
            await asyncio.wait([part, self.task], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            if part.done():
                self.text += part.result()
            else:
                part.cancel()
        await self.task

    async def rest(self) -> list[dict[str, Any]]:
        """All lines, after the rest of them was taken."""
        await self.read_on()
        assert self.ended
        return [json.loads(line) for line in self.text.splitlines()]
