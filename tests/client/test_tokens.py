"""The clients get and renew tokens automatically."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from stoa_client import AsyncClient, Client, TokenRefused, codes, errors
from stoa_client.tokens import Token
from tests.client.conftest import base_url
from tests.client.lossy import AsyncCounting, Lossy
from tests.support.service import Account, until

Counted = tuple[AsyncClient, AsyncCounting]


@pytest.fixture
async def counted(account: Account) -> AsyncIterator[Counted]:
    transport = AsyncCounting()
    async with httpx.AsyncClient(transport=transport, timeout=60) as http:
        yield (
            AsyncClient(
                base_url(account),
                http=http,
                auth_url=f"{account.service.url}/oauth/token",
                client_id=account.client_id,
                client_secret=account.client_secret,
            ),
            transport,
        )


async def test_concurrent_tasks_share_one_token_request(counted: Counted) -> None:
    client, transport = counted
    await asyncio.gather(*(client.products.list().page() for _ in range(20)))
    assert transport.paths.count("/oauth/token") == 1


async def test_a_revoked_token_is_renewed_once_for_all_tasks(account: Account, counted: Counted) -> None:
    client, transport = counted
    await client.products.list().page()
    assert account.service.run("token", "revoke", "--app", account.client_id).returncode == 0
    ours = {"authorization": transport.authorization}
    until(lambda: httpx.get(f"{account.url}/products", headers=ours).status_code == 401, "the token is refused")
    answered = await asyncio.gather(*(client.products.list().page() for _ in range(20)))
    assert len(answered) == 20
    assert transport.paths.count("/oauth/token") == 2


def test_threads_share_a_token(account: Account) -> None:
    transport = Lossy(lambda _request, response, _times: response)
    with httpx.Client(transport=transport, timeout=60) as http, ThreadPoolExecutor(8) as pool:
        client = Client(base_url(account), http=http, client_id=account.client_id, client_secret=account.client_secret)
        reads = [pool.submit(lambda: client.products.list().page()) for _ in range(16)]
        assert [read.result().total for read in reads] == [0] * 16
    requests = [request for request, _ in transport.seen if request.url.path.endswith("/oauth/token")]
    assert len(requests) == 1


async def test_a_token_is_renewed_before_it_expires(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Token, "fresh", property(lambda _: False))
    client, transport = counted
    await client.products.list().page()
    await client.products.list().page()
    assert [path.rsplit("/", 1)[1] for path in transport.paths] == ["token", "products", "token", "products"]


def test_wrong_credentials_raise_token_refused(account: Account) -> None:
    with (
        Client(base_url(account), client_id=account.client_id, client_secret="wrong") as client,
        pytest.raises(TokenRefused) as refused,
    ):
        client.products.list().page()
    assert (refused.value.status, refused.value.error) == (401, "invalid_client")


def test_the_token_endpoint_of_another_kind_of_server_is_an_error_of_its_status(account: Account) -> None:
    wrong = f"{account.service.url}/nothing/here"
    with (
        Client(
            base_url(account), auth_url=wrong, client_id=account.client_id, client_secret=account.client_secret
        ) as client,
        pytest.raises(errors.NotFound),
    ):
        client.products.list().page()


def test_a_given_token_is_used_unchanged(account: Account) -> None:
    with Client(base_url(account), token=account.token) as client:
        assert client.products.list().page().total == 0
    with Client(base_url(account), token="stoa_at_wrong") as client, pytest.raises(codes.InvalidToken):
        client.products.list().page()


def test_a_token_may_have_fewer_scopes_than_the_app(account: Account) -> None:
    with Client(
        base_url(account), client_id=account.client_id, client_secret=account.client_secret, scopes=["products:read"]
    ) as client:
        client.products.list().page()
        with pytest.raises(codes.InsufficientScope) as refused:
            client.products.create(name="Mug", price="1.00")
    assert refused.value.more["required_scope"] == "products:write"


def test_a_client_can_be_configured_by_the_environment(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STOA_CLIENT_ID", "STOA_AUTH_URL"):  # a reader of the quickstart may have set them
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="STOA_CLIENT_ID"):
        Client.from_environment()
    monkeypatch.setenv("STOA_BASE_URL", base_url(account) + "/")
    monkeypatch.setenv("STOA_CLIENT_ID", account.client_id)
    monkeypatch.setenv("STOA_CLIENT_SECRET", account.client_secret)
    with Client.from_environment() as client:
        assert client.products.list().page().total == 0


@pytest.mark.parametrize("options", [{}, {"client_id": "x"}, {"client_id": "x", "client_secret": "y", "token": "z"}])
def test_credentials_and_token_are_mutually_exclusive(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="client_id and private_key, or a token"):
        Client("http://localhost", **options)  # pyright: ignore[reportArgumentType]


def test_a_token_endpoint_may_end_with_a_slash() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if request.method == "POST":
            return httpx.Response(200, json={"access_token": "t"})
        return httpx.Response(200, json={"data": {}})

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        auth_url = "https://shop.example.com/oauth/token/"
        client = Client("https://shop.example.com", http=http, auth_url=auth_url, client_id="a", client_secret="b")
        client.request("GET", "/products/1")
    assert asked[0] == "https://shop.example.com/oauth/token"
