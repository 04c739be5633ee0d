"""Tokens that nobody issued open nothing, break nothing, and cost the database next to nothing."""

import asyncio
import random
import string
from collections.abc import Iterator

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
    """The token with some of its characters changed, lost, doubled, swapped or turned to other case."""
    chance = random.Random(seed)
    while True:
        letters = list(token)
        for _ in range(chance.choice((1, 1, 1, 2, 5, 30))):
            if not letters:
                break
            place = chance.randrange(len(letters))
            match chance.randrange(6):
                case 0:
                    letters[place] = chance.choice(VISIBLE)
                case 1:
                    letters.pop(place)
                case 2:
                    letters.insert(place, chance.choice(VISIBLE))
                case 3:
                    other = chance.randrange(len(letters))
                    letters[place], letters[other] = letters[other], letters[place]
                case 4:
                    letters[place] = letters[place].swapcase()
                case _:
                    letters = letters[: place + 1]
        mutated = "".join(letters)
        if mutated != token:
            yield mutated


async def test_ten_thousand_mutated_tokens_are_all_refused(shop: Shop) -> None:
    async def refuse(seed: int) -> None:
        for _, token in zip(range(MUTATIONS // 10), mutations(shop.token, seed), strict=False):
            answer = await shop.anonymous.get("/products", headers={"authorization": f"Bearer {token}"})
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token"), token
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]

    await asyncio.gather(*map(refuse, range(10)))
    assert (await shop.client.get("/products")).status_code == 200


async def test_a_mutated_token_is_refused_without_asking_the_database(shop: Shop, settings: Settings) -> None:
    nowhere = Admission(Database("postgresql://127.0.0.1:1/nowhere"), settings)
    for _, token in zip(range(MUTATIONS), mutations(shop.token, 1), strict=False):
        with pytest.raises(InvalidToken):
            await nowhere.caller(shop.store, token)


async def test_well_formed_tokens_that_were_never_issued_are_refused(shop: Shop) -> None:
    for _ in range(500):
        answer = await shop.anonymous.get("/products", headers={"authorization": f"Bearer {new_access_token()}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer",
        b"Bearer ",
        b"Bearer \xff\xfe",
        b"Bearer a b",
        b"bearer \x80" * 50,
        b"Basic eDp5",
        b"",
        b"Bearer " + b"a" * 9_000,
    ],
)
async def test_an_authorization_header_of_any_shape_is_refused(shop: Shop, header: bytes) -> None:
    answer = await shop.anonymous.get("/products", headers={b"authorization": header})
    assert answer.status_code == 401
    assert answer.json()["code"] in ("missing_token", "invalid_token")
