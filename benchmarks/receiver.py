"""`python -m benchmarks.receiver PORT FILE [CERTIFICATE]`: accepts webhooks as fast as it can, and records their arrival
times; with a certificate, over TLS.

Requests to paths that start with /dead never get a response.
"""

import asyncio
import re
import ssl
import sys
import time
from typing import TextIO, cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENT = re.compile(rb"\r\nwebhook-id: *(\S+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Receiver(asyncio.Protocol):
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[: end + 2]
            length, event = _LENGTH.search(head), _EVENT.search(head)
            if length is None or event is None or len(self._buffer) < end + 4 + int(length[1]):
                return
            self._buffer = self._buffer[end + 4 + int(length[1]) :]
            if not head.startswith(b"POST /dead"):
                self._file.write(f"{event[1].decode()} {time.time()}\n")
                self._transport.write(_ANSWER)


async def main(port: int, file: str, certificate: str | None) -> None:
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    with open(file, "w", buffering=1) as out:  # noqa: PTH123
        server = await asyncio.get_running_loop().create_server(lambda: Receiver(out), "127.0.0.1", port, ssl=tls)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
