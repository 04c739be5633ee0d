"""A request whose body arrives in two parts, so that tests control how long it runs."""

import asyncio
import json
from contextlib import suppress
from typing import Self

from tests.support.service import PATIENCE_S, Account


class PartialRequest:
    """A request to create a note with half of its body sent, which runs until `finish` sends the rest."""

    def __init__(self, account: Account, title: str) -> None:
        self._account = account
        self._body = json.dumps({"title": title, "price": "1.00"}).encode()

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._account.service.port)
        head = (
            f"POST /stores/{self._account.handle}/api/v3/app/notes HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {self._account.token}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(self._body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + self._body[:5])
        await self._writer.drain()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def status(self) -> int:
        """The status of the response."""
        async with asyncio.timeout(PATIENCE_S):
            return int((await self._reader.readline()).split()[1])

    async def drip(self) -> None:
        """Send the rest byte by byte, ten bytes a second."""
        for index in range(5, len(self._body)):
            self._writer.write(self._body[index : index + 1])
            await asyncio.sleep(0.1)

    async def finish(self) -> int:
        """Send the rest of the body; returns the status."""
        self._writer.write(self._body[5:])
        return await self.status()
