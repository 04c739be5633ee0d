"""Every call ends: at the limit of an attempt or at its deadline, whatever the service sends or asks for."""

import asyncio
import io
import math
import socket
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from stoa_client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    StoaError,
    codes,
    deadline,
    errors,
    flows,
    installations,
    limiter,
)
from stoa_client.flows import Authorize, Enter, Pause, RetryPolicy, Send, send
from stoa_client.limiter import Limiter
from stoa_client.requests import request
from stoa_client.time_limits import late
from stoa_client.uploads import Source

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n"
ENDLESS = {
    "in the body": (HEAD + b"content-length: 100000\r\n\r\n", b"["),
    "in the headers": (HEAD + b"x-padding: ", b"a"),
    "in informational responses": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
}


@contextmanager
def trickling(start: bytes, part: bytes) -> Generator[str]:
    """A server that answers every request with a start and then, ten times a second, with a part; its URL."""
    stopped = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(start)
            while not stopped.wait(0.1):
                connection.sendall(part)

    def accept(server: socket.socket) -> None:
        while not stopped.is_set():
            with suppress(TimeoutError):
                threading.Thread(target=serve, args=[server.accept()[0]]).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=accept, args=[server])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stopped.set()
            thread.join()


@pytest.mark.parametrize("endless", ENDLESS)
async def test_a_response_that_never_ends_is_connection_failed_at_the_limit_of_the_attempt(endless: str) -> None:
    limits: Any = {"token": "t", "retries": 1, "timeout_s": 0.5}
    with trickling(*ENDLESS[endless]) as url:
        with (
            Client(url, **limits) as client,
            pytest.raises(ConnectionFailed, match=r"2 attempts: no complete response within 0\.\d+ s"),
        ):
            client.products.get(1)
        async with AsyncClient(url, **limits) as client:
            with pytest.raises(ConnectionFailed, match=r"2 attempts: no complete response within 0\.\d+ s"):
                await client.products.get(1)


@pytest.mark.parametrize("upload", [False, True], ids=["JSON", "file"])
def test_the_time_of_an_upload_is_added_to_the_limits(upload: bool) -> None:
    sent = b"x" * 3_000_000
    body: Any = {"upload": Source(io.BytesIO(sent), "text/csv")} if upload else {"body": {"data": sent.decode()}}
    made = request("POST", "http://127.0.0.1/products", **body, wait_s=5)
    assert made.allowance_s == pytest.approx(35, abs=0.1)


async def test_a_report_that_trickles_in_is_connection_failed() -> None:
    with trickling(*ENDLESS["in the body"]) as url:
        with Client(url, token="t", timeout_s=0.5) as client, pytest.raises(ConnectionFailed, match="bytes a second"):
            list(client.products.imports.rows("imp_1"))
        async with AsyncClient(url, token="t", timeout_s=0.5) as client:
            with pytest.raises(ConnectionFailed, match="bytes a second"):
                assert [row async for row in client.products.imports.rows("imp_1")] == []


async def test_the_deadline_ends_a_call_with_retries_left() -> None:
    with trickling(*ENDLESS["in the body"]) as url:
        with Client(url, token="t", timeout_s=0.3, deadline_s=1, retries=1000) as client:
            with pytest.raises(ConnectionFailed) as failed:
                client.products.get(1)
            assert isinstance(failed.value.__cause__, httpx.ReadTimeout)
        async with AsyncClient(url, client_id="a", client_secret="b", deadline_s=0.5, retries=1000) as client:
            with pytest.raises((ConnectionFailed, DeadlineExceeded)):  # for a token
                await client.products.get(1)


def test_a_deadline_ends_the_list_of_installations() -> None:
    with trickling(*ENDLESS["in the body"]) as url:
        listing = installations(f"{url}/oauth/token", "a", "b")
        with deadline(0.3), pytest.raises(ConnectionFailed, match="no complete response within 0"):
            next(listing)
        with deadline(0.001):
            time.sleep(0.01)
            with pytest.raises(DeadlineExceeded):
                next(installations(f"{url}/oauth/token", "a", "b"))


async def test_limits_may_be_infinite() -> None:
    """More calls run at a time than the client sends at a time, so that some wait for a place."""
    limits: Any = {"token": "t", "timeout_s": math.inf, "deadline_s": math.inf}
    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n"
    with trickling(answer, b'{"data":{}}') as url:
        with Client(url, **limits) as client, ThreadPoolExecutor(20) as threads:
            assert len([*threads.map(client.products.get, range(20))]) == 20
        async with AsyncClient(url, **limits) as client:
            assert len(await asyncio.gather(*(client.products.get(1) for _ in range(20)))) == 20


def test_a_long_retry_after_of_one_call_does_not_stop_the_others() -> None:
    problem = {"code": "overloaded", "retryable": True}
    answers = [
        httpx.Response(503, headers={"retry-after": "3600"}, json=problem),
        httpx.Response(200, json={"data": {}}),
    ]
    with httpx.Client(transport=httpx.MockTransport(lambda _: answers.pop(0))) as http:
        client = Client("http://localhost", token="t", http=http)
        with pytest.raises(errors.ServiceFailed) as busy:
            client.products.get(1)
        assert busy.value.retry_after_s == 3600
        client.products.get(1)
    assert not answers


async def test_a_call_that_would_wait_beyond_its_deadline_says_how_long() -> None:
    sent: list[httpx.Request] = []

    def refuse(wanted: httpx.Request) -> httpx.Response:
        sent.append(wanted)
        headers = {"retry-after": "50", "x-ratelimit-remaining": "0"}
        return httpx.Response(429, headers=headers, json={"code": "rate_limited", "retryable": True})

    with httpx.Client(transport=httpx.MockTransport(refuse)) as http:
        client = Client("http://localhost", token="t", http=http, deadline_s=10)
        with pytest.raises(codes.RateLimited) as refused:
            client.products.get(1)
        with pytest.raises(DeadlineExceeded, match="asked to wait") as held:
            client.products.get(1)
    assert refused.value.retry_after_s == 50
    assert held.value.retry_after_s is not None
    assert 10 < held.value.retry_after_s < 51
    assert len(sent) == 1
    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        client = AsyncClient("http://localhost", token="t", http=http, deadline_s=10)
        with pytest.raises(codes.RateLimited):
            await client.products.get(1)
        with pytest.raises(DeadlineExceeded):
            await client.products.get(1)
    assert len(sent) == 2


def test_a_backoff_beyond_the_deadline_is_not_waited_for() -> None:
    sent: list[httpx.Request] = []

    def fail(wanted: httpx.Request) -> httpx.Response:
        sent.append(wanted)
        return httpx.Response(502)

    with httpx.Client(transport=httpx.MockTransport(fail)) as http:
        client = Client("http://localhost", token="t", http=http, deadline_s=0.2)
        with pytest.raises(errors.ServiceFailed):
            client.products.get(1)
    assert len(sent) == 1


def test_a_call_that_finds_no_place_until_its_deadline_fails() -> None:
    flow = send(request("GET", "http://localhost"), RetryPolicy(), Limiter(threading.Semaphore()))
    assert isinstance(next(flow), Enter)
    with pytest.raises(DeadlineExceeded, match="in progress"):
        flow.send(False)  # noqa: FBT003 - the result of the step


def ended(
    monkeypatch: pytest.MonkeyPatch, method: str, outcomes: list[httpx.Response | httpx.RequestError], late_s: float = 0
) -> StoaError:
    """How a call with these outcomes ends, by a clock on which only timeouts and waits take time, waits longer by `late_s`."""
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    for module in (flows, limiter):
        monkeypatch.setattr(module, "time", clock)
    policy = RetryPolicy(timeout_s=30, deadline_s=30)
    flow = send(request(method, "http://localhost"), policy, Limiter(threading.Semaphore()))

    def carried_out(step: Any) -> Any:
        nonlocal now
        if isinstance(step, Pause):
            now += step.seconds + late_s
        if not isinstance(step, Send):
            return True if isinstance(step, Enter) else "token" if isinstance(step, Authorize) else None
        outcome = outcomes.pop(0)
        if isinstance(outcome, httpx.TimeoutException):
            now = step.until
        return outcome

    def run() -> None:
        step = next(flow)
        while True:
            step = flow.send(carried_out(step))

    with pytest.raises(StoaError) as failed:
        run()
    assert not outcomes
    return failed.value


def busy(status: int) -> httpx.Response:
    return httpx.Response(status, headers={"retry-after": "0"}, request=httpx.Request("GET", "http://localhost"))


@pytest.mark.parametrize(("status", "kind"), [(429, errors.TooManyRequests), (503, errors.ServiceFailed)])
def test_the_deadline_that_ends_an_attempt_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[StoaError]
) -> None:
    """A read raises the refusal, which says why. A write may have taken effect, which a refusal would deny."""
    assert type(ended(monkeypatch, "GET", [busy(status), late(0.015)])) is kind
    assert type(ended(monkeypatch, "POST", [busy(status), late(0.015)])) is ConnectionFailed


def test_the_deadline_that_passes_between_two_attempts_raises_the_error_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DeadlineExceeded would say that nothing was sent."""
    assert type(ended(monkeypatch, "GET", [busy(429)], 100)) is errors.TooManyRequests
    assert type(ended(monkeypatch, "POST", [httpx.ReadError("lost")], 100)) is ConnectionFailed


@pytest.mark.parametrize("limits", [{"retries": -1}, {"deadline_s": 0}, {"timeout_s": float("nan")}])
def test_limits_that_make_no_sense_are_refused(limits: Any) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Client("http://localhost", token="t", **limits)
