"""A line to PostgreSQL that can be cut at the worst moment: while a COMMIT, or the answer to it, is on its way."""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import parse_qs, urlsplit

COMMIT = b"COMMIT\x00"


class Proxy:
    """Carries connections from a port on loopback to the server at `url`."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._lines: set[asyncio.Task[None]] = set()
        self.cut: Literal["before", "after"] | None = None  # the next COMMIT is lost on its way there, or its answer
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self._lines:
            line.cancel()
        if self._lines:
            await asyncio.wait(self._lines)

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{self._target.username}@127.0.0.1:{port}{self._target.path}?sslmode=disable"

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        line = asyncio.create_task(self._carry(reader, writer))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)

    async def _connect(self) -> tuple[StreamReader, StreamWriter]:
        options = parse_qs(self._target.query)
        if "host" in options:
            return await asyncio.open_unix_connection(f"{options['host'][0]}/.s.PGSQL.{options['port'][0]}")
        return await asyncio.open_connection(self._target.hostname, self._target.port or 5432)

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        from_server, to_server = await self._connect()
        doomed = False

        async def ask() -> None:
            nonlocal doomed
            while data := await reader.read(65_536):
                if COMMIT in data and self.cut is not None:
                    where, self.cut = self.cut, None
                    self.cuts += 1
                    if where == "before":
                        return
                    doomed = True
                to_server.write(data)
                await to_server.drain()

        async def answer() -> None:
            while (data := await from_server.read(65_536)) and not doomed:
                writer.write(data)
                await writer.drain()

        ways = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            for end in (writer, to_server):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()
