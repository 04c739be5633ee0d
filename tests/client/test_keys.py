"""Every error of a write carries its idempotency key, with which the caller repeats it safely."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from stoa_client import AsyncClient, Client, ConnectionFailed, StoaError, codes, errors
from tests.client.lossy import instead, through
from tests.docs.pages import GUIDES, blocks
from tests.support.service import Account

(SAFE_RETRY,) = [
    block.text for block in blocks(GUIDES / "python-sdk.md", "python") if "error.idempotency_key" in block.text
]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (201, b'{"data": {"id": ', errors.UnexpectedAnswer),
        (200, b"<html>log in</html>", errors.UnexpectedAnswer),
        (502, b"", errors.ServiceFailed),
        (404, b"", errors.NotFound),
        (422, b'{"code": "validation_failed"}', codes.ValidationFailed),
    ],
)
async def test_a_write_that_fails_names_its_key(status: int, body: bytes, kind: type[StoaError]) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(status, content=body)

    transport = httpx.MockTransport(answer)
    client = Client("http://localhost", token="t", http=httpx.Client(transport=transport), retries=0)
    writes: list[Callable[[str | None], object]] = [
        lambda key: client.products.create(name="Mug", price="1", idempotency_key=key),
        lambda key: client.products.delete(1, idempotency_key=key),
        lambda key: client.products.batch(items=[], idempotency_key=key),
        lambda key: client.products.imports.create([{"sku": "A"}], idempotency_key=key),
        lambda key: client.request("POST", "/products", body={}, idempotency_key=key),
    ]
    for write in writes:
        for key in (None, "order-4711"):
            with pytest.raises(kind) as failed:
                write(key)
            assert failed.value.idempotency_key == sent[-1].headers["idempotency-key"]
            assert key in (None, failed.value.idempotency_key)
    with pytest.raises(StoaError) as failed:
        client.products.list().page()
    assert failed.value.idempotency_key is None
    async with httpx.AsyncClient(transport=transport) as http:
        with pytest.raises(kind) as failed:
            await AsyncClient("http://localhost", token="t", http=http, retries=0).products.create(
                name="Mug", price="1"
            )
    assert failed.value.idempotency_key == sent[-1].headers["idempotency-key"]


def test_a_refused_token_and_a_lost_connection_name_the_key_too() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/oauth/token":
            return httpx.Response(401, json={"error": "invalid_client"})
        raise httpx.ReadError("connection lost")

    http = httpx.Client(transport=httpx.MockTransport(answer))
    accounts: list[Any] = [{"client_id": "a", "client_secret": "b"}, {"token": "t"}]
    for account in accounts:
        client = Client("http://localhost", http=http, retries=0, **account)
        with pytest.raises(StoaError) as failed:
            client.products.delete(1, idempotency_key="k-1")
        assert failed.value.idempotency_key == "k-1"


def test_the_safe_retry_of_the_guide_writes_once(account: Account) -> None:
    def cut_at_first(_request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
        """The work is done, but its response is cut by a proxy."""
        return httpx.Response(response.status_code, content=response.content[:20]) if times == 1 else response

    with through(account, cut_at_first) as (client, transport):
        names: dict[str, Any] = {"stoa": client, "ConnectionFailed": ConnectionFailed, "errors": errors}
        exec(SAFE_RETRY, names)  # noqa: S102 - the code of our guide
        assert names["mug"].answer.replayed
        sent = transport.to(f"/stores/{account.handle}/api/v3/app/products", "POST")
        assert [answer.status_code for _, answer in sent] == [201, 201]
    with through(account, lambda _request, response, _times: response) as (client, _):
        assert client.products.list().page().total == 1


def test_the_key_of_a_lost_write_repeats_it(account: Account) -> None:
    page = instead(200, "<html>log in</html>")
    with through(account, page, retries=0) as (client, _), pytest.raises(errors.UnexpectedAnswer) as failed:
        client.products.create(name="Mug", price="1.00")
    with through(account, lambda _request, response, _times: response) as (client, _):
        again = client.products.create(name="Mug", price="1.00", idempotency_key=failed.value.idempotency_key)
        assert again.answer.replayed
