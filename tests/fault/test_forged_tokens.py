"""Forged tokens are refused, cause no errors, and cost hardly any database time."""

import random
import string
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
import pytest

from stoa.access.admission import Admission
from stoa.access.credentials import new_access_token
from stoa.db.pool import Database
from stoa.rest.problems import InvalidToken
from stoa.settings import Settings
from tests.support.shops import Shop

MUTATIONS = 10_000
VISIBLE = string.ascii_letters + string.digits + string.punctuation


def mutations(token: str, seed: int) -> Iterator[str]:
    """Variants of a token with characters changed, removed, inserted, swapped or in the other case."""
    chance = random.Random(seed)
    while True:
        letters = list(token)
        for _ in range(chance.choice((1, 1, 1, 2, 5, 30))):
            if not letters:
                break
            index = chance.randrange(len(letters))
            match chance.randrange(6):
                case 0:
                    letters[index] = chance.choice(VISIBLE)
                case 1:
                    letters.pop(index)
                case 2:
                    letters.insert(index, chance.choice(VISIBLE))
                case 3:
                    other = chance.randrange(len(letters))
                    letters[index], letters[other] = letters[other], letters[index]
                case 4:
                    letters[index] = letters[index].swapcase()
                case _:
                    letters = letters[: index + 1]
        mutated = "".join(letters)
        if mutated != token:
            yield mutated


async def ask(shop: Shop, authorization: bytes) -> tuple[int, str]:
    """Send one request through ASGI; returns the status and code of the response."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path = f"/stores/{shop.store.handle}/api/v3/app/products"
    headers = [(b"host", b"testserver"), (b"authorization", authorization)]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers, "scheme": "http"}
    await shop.application(scope, receive, send)
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])["code"]


async def test_ten_thousand_mutated_tokens_are_all_refused(shop: Shop) -> None:
    for _, token in zip(range(MUTATIONS), mutations(shop.token, 1), strict=False):
        assert await ask(shop, f"Bearer {token}".encode()) == (401, "invalid_token"), token
    assert (await shop.client.get("/products")).status_code == 200


async def test_a_mutated_token_is_refused_without_a_database_query(shop: Shop, settings: Settings) -> None:
    offline = Admission(Database("postgresql://127.0.0.1:1/nowhere"), settings)
    for _, token in zip(range(MUTATIONS), mutations(shop.token, 2), strict=False):
        with pytest.raises(InvalidToken):
            await offline.caller(shop.store, token)


async def test_well_formed_tokens_that_were_never_issued_are_refused(shop: Shop) -> None:
    for _ in range(500):
        assert await ask(shop, f"Bearer {new_access_token()}".encode()) == (401, "invalid_token")


@pytest.mark.parametrize(("header", "code"), [
    (b"", "missing_token"),
    (b"Basic eDp5", "missing_token"),
    (b"Bearer", "invalid_token"),
    (b"Bearer ", "invalid_token"),
    (b"Bearer a b", "invalid_token"),
    (b"Bearer \xff\xfe", "invalid_token"),
    (b"bearer \x00\x1f", "invalid_token"),
    (b"Bearer " + b"a" * 9_000, "invalid_token"),
])  # fmt: skip
async def test_a_malformed_authorization_header_is_refused(shop: Shop, header: bytes, code: str) -> None:
    assert await ask(shop, header) == (401, code)
