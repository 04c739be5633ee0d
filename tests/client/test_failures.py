"""Bad input and bad networks: every failure is a typed exception, and none is hidden."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from stoa_client import (
    ApiError,
    AsyncClient,
    Client,
    ConnectionFailed,
    TokenRefused,
    codes,
    deadline,
    errors,
    installations,
)
from tests.client.conftest import base_url
from tests.client.lossy import instead, through
from tests.support.service import Account, free_port

PAGE = "<html>log in</html>"


@contextmanager
def cutting(response: bytes) -> Generator[str]:
    """A server that sends this to every request and then closes the connection; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        stopped = threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                try:
                    accepted, _ = server.accept()
                except TimeoutError:
                    continue
                with accepted:
                    accepted.recv(65_536)
                    accepted.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stopped.set()
            thread.join()


async def test_a_store_that_is_gone_or_suspended_is_the_error_of_its_code(account: Account) -> None:
    gone = f"{account.service.url}/stores/gone"
    with Client(gone, token=account.token) as client, pytest.raises(errors.NotFound):
        client.products.list().page()
    with (
        Client(gone, client_id=account.client_id, client_secret=account.client_secret) as client,
        pytest.raises(TokenRefused) as refused,
    ):
        client.products.list().page()
    assert refused.value.error == "invalid_target"
    suspended = account.service.run("store", "suspend", account.handle)
    assert suspended.returncode == 0, suspended.stderr
    async with AsyncClient(base_url(account), token=account.token) as client:
        with pytest.raises(errors.Forbidden):
            await client.products.list().page()


@pytest.mark.parametrize(
    "response",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-len", b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"data": ['],
    ids=["before the response", "in the headers", "in the body"],
)
async def test_a_cut_connection_is_connection_failed_after_all_attempts(response: bytes) -> None:
    with cutting(response) as url:
        with Client(url, token="t", retries=1) as client, pytest.raises(ConnectionFailed, match="2 attempts") as failed:
            client.products.list().page()
        assert isinstance(failed.value.__cause__, httpx.RequestError)
        async with AsyncClient(url, token="t", retries=0) as client:
            with pytest.raises(ConnectionFailed, match="1 attempt"):
                await client.products.get(1)


def test_a_report_that_is_cut_is_connection_failed() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 1000\r\n\r\n"
    with cutting(head + b'{"row":') as url, Client(url, token="t") as client, pytest.raises(ConnectionFailed):
        list(client.products.imports.rows("imp_1"))


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (200, PAGE, errors.UnexpectedAnswer),
        (200, '{"welcome": 1}', errors.UnexpectedAnswer),
        (200, "", errors.UnexpectedAnswer),
        (200, b'{"data": {"id": "\xff"}}', errors.UnexpectedAnswer),
        (302, "", errors.UnexpectedAnswer),
        (404, PAGE, errors.NotFound),
        (418, "[]", ApiError),
        (502, PAGE, errors.ServiceFailed),
        (503, b"\xff", errors.ServiceFailed),
    ],
)
def test_a_body_that_is_not_json_is_an_unexpected_answer_or_the_error_of_its_status(
    account: Account, status: int, text: str | bytes, kind: type[errors.UnexpectedAnswer | ApiError]
) -> None:
    with through(account, instead(status, text), retries=0) as (client, _):
        with pytest.raises(kind) as failed:
            client.products.get(1)
        assert failed.value.status == status
        assert (text if isinstance(text, str) else "\ufffd") in str(failed.value)


@pytest.mark.parametrize("status", [200, 302])
def test_the_page_of_a_proxy_is_never_taken_for_success(account: Account, status: int) -> None:
    with through(account, instead(status, PAGE), retries=0) as (client, transport):
        calls: list[Any] = [
            lambda: client.products.delete(1),
            lambda: client.request("DELETE", "/products/1"),
            lambda: client.products.list(include_deleted=True).page(),
            lambda: client.products.batch(items=[]),
            lambda: list(client.products.imports.rows("imp_1")),
            lambda: client.products.imports.save_failures("imp_1", "/dev/null"),
            lambda: next(client.webhooks.deliveries.feed(1)),
        ]
        for call in calls:
            with pytest.raises(errors.UnexpectedAnswer) as failed:
                call()
            assert failed.value.status == status
        credentials = (account.client_id, account.client_secret)
        with pytest.raises(errors.UnexpectedAnswer):
            list(installations(f"{account.service.url}/oauth/token", *credentials, transport=transport))
        with (
            httpx.Client(transport=transport) as http,
            pytest.raises(errors.UnexpectedAnswer, match="not a token endpoint"),
        ):
            Client(base_url(account), http=http, client_id="a", client_secret="b").products.list().page()


def test_an_error_of_a_proxy_keeps_the_request_id_that_it_passes_on(account: Account) -> None:
    def behind_proxy(_request: httpx.Request, response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(504, text=PAGE, headers={"x-request-id": response.headers["x-request-id"]})

    with through(account, behind_proxy, retries=0) as (client, _), pytest.raises(errors.ServiceFailed) as failed:
        client.products.get(1)
    assert failed.value.request_id.startswith("req_")


def test_a_503_with_retry_after_is_the_error_of_its_code_at_the_deadline(account: Account) -> None:
    problem = {"code": "overloaded", "title": "The service is overloaded", "retryable": True}

    def busy(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(503, json=problem, headers={"retry-after": "120"})

    with through(account, busy) as (client, transport), pytest.raises(errors.ServiceFailed) as failed:
        client.products.list().page()
    assert (failed.value.status, failed.value.retry_after_s, failed.value.retryable) == (503, 120, True)
    assert len(transport.seen) == 1


def test_the_list_of_installations_fails_with_typed_errors(account: Account) -> None:
    auth_url = f"{account.service.url}/oauth/token"
    with pytest.raises(TokenRefused) as refused:
        list(installations(auth_url, account.client_id, "wrong"))
    assert (refused.value.status, refused.value.error) == (401, "invalid_client")
    with deadline(2.0), pytest.raises(ConnectionFailed):
        list(installations(f"http://127.0.0.1:{free_port()}/oauth/token", "a", "b"))


def test_a_refused_token_is_an_error_of_its_code(account: Account) -> None:
    with Client(base_url(account), token="stoa_at_wrong") as client, pytest.raises(codes.InvalidToken) as refused:
        client.products.list().page()
    assert isinstance(refused.value, errors.Unauthorized)
