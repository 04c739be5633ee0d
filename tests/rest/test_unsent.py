"""The bytes of responses that clients have not taken."""

import socket
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from stoa.rest.request import Peer
from stoa.rest.response import Response, send_response
from stoa.rest.unsent import KERNEL_BYTES, WHOLE_BYTES, UnsentResponses

PEER: Peer = ("127.0.0.1", 1)
MANY = 2**40
MOST_HELD = WHOLE_BYTES + 4 * KERNEL_BYTES  # for one connection


async def ignore(_: MutableMapping[str, Any]) -> None:
    pass


async def test_a_large_response_counts_until_its_last_part_is_sent() -> None:
    unsent, size, kept = UnsentResponses(1, 1, 1), WHOLE_BYTES + 7, set[int]()

    async def send(_: MutableMapping[str, Any]) -> None:
        kept.add(await unsent.measure())

    await send_response(send, Response(200, [], b"x" * size), unsent, PEER)
    assert kept == {0, 7}, "nothing while the headers are sent"
    unsent = UnsentResponses(1, 1, 1)
    for length in (size, 1):
        await send_response(ignore, Response(200, [], b"x" * length), unsent, PEER)
    assert unsent.at_most == size + 1
    assert not unsent.exceeded(), "no client has left anything"


class Connection:
    """A client, and the end of its connection that a worker has, with as much sent as the kernel takes."""

    def __init__(self, listener: socket.socket) -> None:
        self.client = socket.create_connection(listener.getsockname())
        self.client.settimeout(10)
        self.end = listener.accept()[0]
        self.end.setblocking(False)  # noqa: FBT003
        self.sent = 0
        self.fill()

    @property
    def peer(self) -> Peer:
        return self.client.getsockname()

    @property
    def closed(self) -> bool:
        try:
            self.end.send(b"x")
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return False

    def fill(self) -> None:
        """Send until the client's kernel has all that it takes without a reader."""
        sent = -1
        while sent < self.sent:
            sent = self.sent
            with suppress(BlockingIOError):
                while True:
                    self.sent += self.end.send(bytes(KERNEL_BYTES))
            while self.end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)[24:] != bytes(4):
                pass  # `tcpi_unacked`: what is on its way

    def read(self, size: int) -> None:
        self.sent -= size
        while size:
            size -= len(self.client.recv(size))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_BYTES)
        yield made


@pytest.fixture
def connect(listener: socket.socket) -> Iterator[Callable[[], Connection]]:
    with ExitStack() as stack:

        def made() -> Connection:
            connection = Connection(listener)
            stack.enter_context(connection.client)
            stack.enter_context(connection.end)
            return connection

        yield made


async def test_a_client_that_does_not_read_counts_until_it_does(
    listener: socket.socket, connect: Callable[[], Connection]
) -> None:
    unsent, connection = UnsentResponses(MANY, MANY, listener.getsockname()[1]), connect()
    assert await unsent.measure() >= WHOLE_BYTES + KERNEL_BYTES // 2
    connection.read(connection.sent)
    assert await unsent.measure() == 0


async def test_connections_to_other_ports_do_not_count(connect: Callable[[], Connection]) -> None:
    connection = connect()
    assert await UnsentResponses(1, 1, connection.peer[1]).measure() == 0
    assert not connection.closed


async def test_above_the_limit_the_slowest_clients_are_disconnected(
    listener: socket.socket, connect: Callable[[], Connection]
) -> None:
    unsent = UnsentResponses(5 * MOST_HELD, MANY, listener.getsockname()[1])
    silent, reader = [connect() for _ in range(3)], connect()
    await unsent.measure()
    while not unsent.closed:
        for _ in range(5):
            reader.read(reader.sent // 2)
            reader.fill()
        await unsent.measure()
        silent.append(connect())
    assert unsent.closed == {"worker": sum(each.closed for each in silent)}
    assert not reader.closed, "it takes more than the silent ones"
    assert not unsent.exceeded(), "others are served"


async def test_the_clients_of_one_address_are_bounded_also_behind_a_proxy(
    listener: socket.socket, connect: Callable[[], Connection]
) -> None:
    unsent = UnsentResponses(MANY, 4 * MOST_HELD, listener.getsockname()[1])
    greedy, other = [connect() for _ in range(12)], [connect() for _ in range(2)]
    for client, connections in (("2001:db8::1:0", greedy[:6]), ("2001:db8::2:0", greedy[6:]), ("192.0.2.1", other)):
        for each in connections:
            unsent.forwarded(each.peer, client)
    await unsent.measure()
    left = [each for each in greedy if not each.closed]
    assert 0 < len(left) * (WHOLE_BYTES + KERNEL_BYTES // 2) <= 4 * MOST_HELD, "both addresses are in one /64"
    assert not any(each.closed for each in other)
    assert unsent.closed == {"address": len(greedy) - len(left)}


async def test_a_large_response_counts_for_its_client(
    listener: socket.socket, connect: Callable[[], Connection]
) -> None:
    unsent, connection = UnsentResponses(20 * MOST_HELD, MANY, listener.getsockname()[1]), connect()
    with unsent.keeping(connection.peer, 15 * MOST_HELD):
        assert await unsent.measure() > 15 * MOST_HELD
        with unsent.keeping(connection.peer, 15 * MOST_HELD):
            assert await unsent.measure() == 0
    assert connection.closed
    assert unsent.closed == {"worker": 1}
