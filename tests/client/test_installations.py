"""The list of installations is read like any other list: with retries, and with a token that is renewed."""

from collections.abc import Callable

import httpx
import pytest

from stoa_client import PrivateKey, TokenRefused, errors, installations
from tests.client.test_private_keys import new_key

AUTH_URL = "http://localhost/oauth/token"


def page(cursor: str | None = None) -> httpx.Response:
    store = {"id": 7, "handle": "demo", "name": "Demo", "base_url": "http://localhost/stores/demo", "currency": "EUR"}
    at = "2026-01-01T00:00:00Z"
    one = {"store": {**store, "timezone": "UTC", "locale": "en"}, "scopes": ["products:read"], "status": "installed"}
    data = [{**one, "installed_at": at, "updated_at": at}]
    return httpx.Response(200, json={"data": data, "meta": {"next_cursor": cursor}})


def lost() -> httpx.Response:
    raise httpx.ReadError("lost")


@pytest.mark.parametrize(
    "fail",
    [
        lambda: httpx.Response(429, headers={"retry-after": "0"}),
        lambda: httpx.Response(503, headers={"retry-after": "0"}),
        lambda: httpx.Response(502, headers={"retry-after": "0"}),
        lost,
    ],
    ids=["429", "503", "502", "lost"],
)
def test_a_page_is_repeated_after_a_transient_error(fail: Callable[[], httpx.Response]) -> None:
    answers = [fail, lambda: page("a"), fail, page]
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answers.pop(0)()

    found = list(installations(f"{AUTH_URL}/", "a", "b+c", transport=httpx.MockTransport(answer)))
    assert [each.store.handle for each in found] == ["demo", "demo"]
    assert [request.url.params.get("cursor") for request in sent] == [None, None, "a", "a"]
    assert {(request.url.path, request.url.params["limit"]) for request in sent} == {("/oauth/installations", "250")}
    assert len({request.headers["authorization"] for request in sent}) == 1


@pytest.mark.parametrize("lifetime_s", [0, 3600])
def test_a_token_is_renewed_when_it_expires_or_is_refused(lifetime_s: int) -> None:
    """A service whose tokens are valid for one page, and which says so, or is wrong about it."""
    issued: list[str] = []
    used: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            issued.append(f"t{len(issued)}")
            return httpx.Response(200, json={"access_token": issued[-1], "expires_in": lifetime_s})
        token = request.headers["authorization"].removeprefix("Bearer ")
        if token in used:
            return httpx.Response(401, json={"code": "invalid_token"})
        used.append(token)
        return page({1: "a", 2: "b"}.get(len(used)))

    key = PrivateKey(new_key())
    assert len(list(installations(AUTH_URL, "a", private_key=key, transport=httpx.MockTransport(answer)))) == 3
    assert issued == used == ["t0", "t1", "t2"]


def test_a_refusal_is_not_repeated() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(401, json={"error": "invalid_client", "error_description": "No."})

    with pytest.raises(TokenRefused, match="invalid_client: No"):
        list(installations(AUTH_URL, "a", "b", transport=httpx.MockTransport(answer)))
    gone = httpx.MockTransport(lambda _: httpx.Response(404, json={"code": "not_found"}))
    with pytest.raises(errors.NotFound):
        list(installations(AUTH_URL, "a", "b", transport=gone))
    assert len(sent) == 1
