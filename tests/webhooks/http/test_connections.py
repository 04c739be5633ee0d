"""Connections to receivers: keep-alive only where it is safe, and name lookups that do not delay other hosts."""

import asyncio

import pytest

from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender, Target
from stoa.webhooks.http.message import new_secret
from stoa.webhooks.http.resolver import Infos, look_up
from tests.support.receivers import Receiver
from tests.webhooks.workers import quick_sender

LOOPBACK = Allowed.parse("127.0.0.0/8 localhost")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """Answers each request with the next of its responses, and counts connections and requests."""

    def __init__(self, *responses: bytes) -> None:
        self.responses = list(responses)
        self.connections = self.requests = 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.responses:
                self.heads.append(await reader.readuntil(b"{}"))
                self.requests += 1
                writer.write(self.responses.pop(0))
                await writer.drain()
                if not self.responses or self.responses[0] == b"":
                    self.responses[:1] = []
                    break
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


async def statuses(peer: Peer, count: int) -> list[int | None]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    target = Target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=b", [new_secret()])
    async with server, quick_sender(LOOPBACK) as sender:
        return [(await sender.send(target, "evt_1", b"{}")).status for _ in range(count)]


async def test_a_connection_is_reused_for_the_next_request() -> None:
    peer = Peer(OK, OK, OK)
    assert await statuses(peer, 3) == [200, 200, 200]
    assert peer.connections == 1
    assert peer.heads[0].startswith(b"POST /hook?a=b HTTP/1.1\r\nhost: 127.0.0.1:")


async def test_a_connection_with_extra_bytes_after_the_response_is_not_reused() -> None:
    peer = Peer(OK + b"HTTP/1.1 500 Forged\r\ncontent-length: 0\r\n\r\n", OK)
    assert await statuses(peer, 2) == [200, 200]
    assert peer.connections == 2


async def test_a_request_on_a_new_connection_that_breaks_is_not_sent_again() -> None:
    peer = Peer(b"HTT", b"", OK)
    assert await statuses(peer, 1) == [None]
    assert peer.requests == 1


async def test_a_reused_connection_that_breaks_within_a_response_is_a_failure() -> None:
    peer = Peer(OK, b"HTTP/1.1 200", b"", OK)
    assert await statuses(peer, 2) == [200, None]
    assert peer.requests == 2


async def test_a_header_value_cannot_inject_another_header() -> None:
    async with Receiver() as receiver, quick_sender(LOOPBACK) as sender:
        for value in ("a\r\nx-evil: 1", "a\nx-evil: 1", "a\rb", "a\x00b"):
            answer = await sender.send(Target(receiver.url, [new_secret()], {"x-mine": value}), "evt_1", b"{}")
            assert answer.status is None
        assert receiver.received == []


async def test_a_subscription_can_replace_the_user_agent_but_not_other_headers_of_the_service() -> None:
    headers = {"Accept-Encoding": "gzip", "User-Agent": "Shop/1", "X-Mine": "é"}
    async with Receiver() as receiver, quick_sender(LOOPBACK) as sender:
        await sender.send(Target(receiver.url, [new_secret()], headers), "evt_1", b"{}")
        [got] = receiver.received
    assert (got.headers["accept-encoding"], got.headers["user-agent"], got.headers["x-mine"]) == (
        "identity",
        "Shop/1",
        "é",
    )


SILENT = Allowed.parse("localhost silent.example.com")


async def look_up_but_silent(host: str, port: int) -> Infos:
    if host.startswith("silent"):
        await asyncio.Event().wait()
    return await look_up(host, port)


async def test_a_name_lookup_that_hangs_does_not_delay_other_hosts() -> None:
    async with Receiver() as receiver, quick_sender(SILENT, look_up_but_silent) as sender:
        stuck = [
            asyncio.create_task(sender.send(Target(f"http://silent.example.com/{n}", [new_secret()]), "evt_1", b"{}"))
            for n in range(50)
        ]
        answer = await sender.send(Target(f"http://localhost:{receiver.port}/", [new_secret()]), "evt_1", b"{}")
        assert answer.status == 200
        assert not any(task.done() for task in stuck)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_name_lookup_that_hangs_times_out() -> None:
    async with Sender(SILENT, request_timeout_s=0.2, connect_timeout_s=10, resolve=look_up_but_silent) as sender:
        answer = await sender.send(Target("http://silent.example.com/", [new_secret()]), "evt_1", b"{}")
    assert (answer.status, answer.error) == (None, "timeout")


async def test_concurrent_requests_to_a_host_share_one_name_lookup() -> None:
    lookups: list[str] = []

    async def resolve(host: str, port: int) -> Infos:
        lookups.append(host)
        return await look_up("localhost", port)

    async with (
        Receiver() as receiver,
        quick_sender(Allowed.parse("hooks.example.com"), resolve) as sender,
    ):
        target = Target(f"http://hooks.example.com:{receiver.port}/", [new_secret()])
        answers = await asyncio.gather(*(sender.send(target, f"evt_{n}", b"{}") for n in range(20)))
    assert [answer.status for answer in answers] == [200] * 20
    assert lookups == ["hooks.example.com"]


@pytest.mark.parametrize("size", [1, 100_000, 1_000_000])
async def test_a_body_of_any_size_is_sent_completely(size: int) -> None:
    async with Receiver() as receiver, quick_sender(LOOPBACK) as sender:
        answer = await sender.send(Target(receiver.url, [new_secret()]), "evt_1", b"x" * size)
        assert answer.status == 200
        assert [len(got.body) for got in receiver.received] == [size]
