"""The bytes of responses that clients have not taken."""

import socket
from collections.abc import MutableMapping
from typing import Any

from stoa.rest.response import Response, send_response
from stoa.rest.unsent import KERNEL_BYTES, WHOLE_BYTES, UnsentResponses


async def test_a_large_response_counts_until_its_last_part_is_sent() -> None:
    unsent, size, kept = UnsentResponses(1), WHOLE_BYTES + 7, set[int]()

    async def send(_: MutableMapping[str, Any]) -> None:
        kept.add(unsent.kept)

    await send_response(send, Response(200, [], b"x" * size), unsent)
    assert (kept, unsent.kept, unsent.at_most) == ({0, 7}, 0, size), "nothing while the headers are sent"
    await send_response(send, Response(200, [], b"x"), unsent)
    assert unsent.at_most == size + 1
    assert not unsent.exceeded(), "no client has left anything"


def test_a_client_that_does_not_read_counts_until_it_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_BYTES)
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as connection:
            connection.setblocking(False)  # noqa: FBT003
            sent = 0
            try:
                while True:
                    sent += connection.send(bytes(KERNEL_BYTES))
            except BlockingIOError:
                pass
            limit = WHOLE_BYTES + KERNEL_BYTES // 2
            assert UnsentResponses(limit - 1).exceeded()
            client.settimeout(10)
            while sent:
                sent -= len(client.recv(1_000_000))
            assert not UnsentResponses(limit - 1).exceeded()
