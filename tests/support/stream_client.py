"""A client of a stream of a running service, which decides when it reads on; its kernel keeps little of what it has not read."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Self
from urllib.parse import urlencode

from stoa.db.connection import connect
from tests.support.service import PATIENCE_S, Account

# Rows of two kilobytes, so that what the service and the kernel buffer is a small part of the stream.
_NOTES = """WITH store AS (SELECT id FROM stores WHERE handle = $1), counted AS (
              INSERT INTO row_counts (store_id, resource, delta) SELECT id, 'notes', $2 FROM store)
            INSERT INTO notes (store_id, title, price, color, pinned, body)
            SELECT store.id, 'note ' || n, 100, 'red', false,
                   '"title":"note ' || n || '","price":"1.00","color":"red","pinned":false,"detail":{"author":"'
                   || repeat('x', 2000) || '","pages":null},"labels":[]'
              FROM store, generate_series(1, $2::int) n"""
_RECEIVE_BYTES = 64 * 1024


async def fill(account: Account, count: int) -> None:
    """Write notes to the store of an account."""
    db = await connect(account.service.database_url, statement_timeout_ms=1000 * PATIENCE_S)
    await db.fetch(_NOTES, account.handle, count)
    await db.close()


def names(count: int) -> list[str]:
    return [f"note {n}" for n in range(1, count + 1)]


def titles(lines: list[dict[str, Any]]) -> list[str]:
    return [line["title"] for line in lines if "detail" in line and "labels" in line]


class StreamClient:
    """One request for a stream, and the lines that were read of its response."""

    def __init__(self, account: Account, *, cursor: str | None = None, path: str = "/notes", **headers: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self._connection = HTTPConnection("127.0.0.1", account.service.port, timeout=PATIENCE_S)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", account.service.port))
        self._connection.sock = sock
        query = f"?{urlencode({'cursor': cursor})}" if cursor else ""
        sent = {**account.headers, "accept": "application/x-ndjson", "prefer": "checkpoints", **headers}
        self._connection.request("GET", f"/stores/{account.handle}/api/v3/app{path}{query}", headers=sent)
        self.response: HTTPResponse = self._connection.getresponse()

    @classmethod
    def when_free(cls, account: Account, *, cursor: str | None = None) -> Self:
        """A stream that waits until the stream before it has ended on the service."""
        until = time.monotonic() + PATIENCE_S
        while (client := cls(account, cursor=cursor)).response.status == 409:
            client.close()
            assert time.monotonic() < until, "the stream before has not ended"
            time.sleep(0.2)
        assert client.response.status == 200, client.response.read()
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Iterator[dict[str, Any]]:
        while text := self.response.readline():
            self.lines.append(json.loads(text))
            yield self.lines[-1]

    def read_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read up to a line for which the condition holds."""
        return next(line for line in self._read() if condition(line))

    def take(self, count: int) -> None:
        for _, _line in zip(range(count), self._read(), strict=False):
            pass

    def rest(self) -> dict[str, Any]:
        """Read all other lines; returns the last one."""
        for _ in self._read():
            pass
        return self.lines[-1]

    def close(self) -> None:
        """Close the connection, with what was not read."""
        self.response.close()
        self._connection.close()
