"""A proxy to PostgreSQL that can cut the connection before a COMMIT or before its response, fall silent, or be away altogether."""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import parse_qs, urlsplit

COMMIT = b"COMMIT\x00"


class Proxy:
    """Forwards connections from a port on loopback to the server at `url`."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._connections: set[asyncio.Task[None]] = set()
        self.cut: Literal["before", "after"] | None = None  # whether to lose the next COMMIT, or its response
        self.cuts = 0
        self._silences = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def open(self) -> None:
        """Accept connections; after it was shut, on the same port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def silence(self) -> None:
        """Keep the open connections, and forward nothing on them any more, like a machine that is switched off."""
        self._silences += 1

    @property
    def url(self) -> str:
        return f"postgresql://{self._target.username}@127.0.0.1:{self.port}{self._target.path}?sslmode=disable"

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self) -> tuple[StreamReader, StreamWriter]:
        options = parse_qs(self._target.query)
        if "host" in options:
            return await asyncio.open_unix_connection(f"{options['host'][0]}/.s.PGSQL.{options['port'][0]}")
        return await asyncio.open_connection(self._target.hostname, self._target.port or 5432)

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        from_server, to_server = await self._connect()
        cut_response = False
        silences = self._silences

        async def requests() -> None:
            nonlocal cut_response
            while data := await reader.read(65_536):
                if silences < self._silences:
                    continue
                if COMMIT in data and self.cut is not None:
                    where, self.cut = self.cut, None
                    self.cuts += 1
                    if where == "before":
                        return
                    cut_response = True
                to_server.write(data)
                await to_server.drain()

        async def responses() -> None:
            while (data := await from_server.read(65_536)) and not cut_response:
                if silences < self._silences:
                    continue
                writer.write(data)
                await writer.drain()

        directions = [asyncio.create_task(requests()), asyncio.create_task(responses())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.wait(directions)
            for end in (writer, to_server):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()
