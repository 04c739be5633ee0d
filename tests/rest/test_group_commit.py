"""Calls that are carried out together: each with its own answer and key, none the worse for the company."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.support.company import Company
from tests.support.notes import GET, INSERT, NewNote, Note, create_note
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Connection, Database
from stoa.rest.endpoint import Call, Created, Routes
from stoa.settings import Settings

BODY = '"price":"5.00","colour":"red","pinned":false,"detail":{"author":null,"pages":null},"labels":[]'


class Desk:
    """What was asked of the two ways to write, by titles."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.groups: list[list[str]] = []
        self.alone: list[str] = []
        self.held = asyncio.Event()
        self.held.set()
        self.routes = Routes("Slips")

        @self.routes.post("/slips", scope="products:write", grouped=self.write_together)
        async def create_slip(call: Call, body: NewNote) -> Created[Note]:  # pyright: ignore[reportUnusedFunction]
            """Write a slip, which may go together with others."""
            self.alone.append(body.title)
            return await create_note(call, body)

    async def write_together(self, db: Connection, asked: Sequence[tuple[Call, NewNote]]) -> list[Created[Note] | None]:
        self.groups.append([body.title for _, body in asked])
        await self.held.wait()
        return [await self._write(db, call, body) for call, body in asked]

    async def _write(self, db: Connection, call: Call, body: NewNote) -> Created[Note] | None:
        if body.title == "unusual":
            return None
        if body.title == "poison":
            raise RuntimeError("cannot be written together")
        if body.title == "lost":
            await db.fetch("SELECT pg_terminate_backend(pg_backend_pid())")
        told = (body.title, 500, body.colour, body.pinned, f'"title":"{body.title}",{BODY}')
        new = await INSERT.one(db, call.store_id, *told)
        row = await GET.one(db, call.store_id, new)
        return Created(row.doc, row.version, f"/notes/{new}")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(Company(monkeypatch))


@pytest.fixture
async def slips(settings: Settings, db: Database, desk: Desk) -> AsyncIterator[Shop]:
    application = Application(settings, desk.routes.endpoints)
    shop = await open_shop(application, db)
    yield shop
    await shop.client.aclose()
    await application.close()


async def write(shop: Shop, title: str, key: str | None = None) -> Any:
    headers = {"idempotency-key": key} if key else {}
    return await shop.client.post("/slips", json={"title": title, "price": "5.00"}, headers=headers)


async def at_once(shop: Shop, desk: Desk, *titles: str, keys: Sequence[str | None] | None = None) -> list[Any]:
    """Send one ahead, and the others while it is held, so that they go together."""
    before = desk.company.come
    desk.held.clear()
    first = asyncio.create_task(write(shop, "ahead"))
    while desk.groups[-1:] != [["ahead"]]:
        await asyncio.sleep(0.001)
    sent = [
        asyncio.create_task(write(shop, title, key))
        for title, key in zip(titles, keys or [None] * len(titles), strict=True)
    ]
    await desk.company.until(before + 1 + len(sent))
    desk.held.set()
    assert (await first).status_code == 201
    return [await each for each in sent]


async def test_each_gets_its_own_answer_from_one_transaction(slips: Shop, desk: Desk) -> None:
    answers = await at_once(slips, desk, "a", "b", "c")
    assert desk.groups == [["ahead"], ["a", "b", "c"]]
    assert desk.alone == []
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert [answer.json()["data"]["title"] for answer in answers] == ["a", "b", "c"]
    assert len({answer.headers["location"] for answer in answers}) == 3
    assert len({answer.headers["x-request-id"] for answer in answers}) == 3
    made = await slips.db.fetch(
        "SELECT count(DISTINCT xmin::text), count(*) FROM notes WHERE store_id = $1 AND title <> 'ahead'",
        slips.store_id,
    )
    assert tuple(made[0]) == (1, 3)


async def test_each_answer_is_remembered_under_its_own_key(slips: Shop, desk: Desk) -> None:
    first = await at_once(slips, desk, "a", "b", keys=["key-a", "key-b"])
    again = [await write(slips, "a", "key-a"), await write(slips, "b", "key-b")]
    assert [answer.content for answer in again] == [answer.content for answer in first]
    assert [answer.headers["location"] for answer in again] == [answer.headers["location"] for answer in first]
    assert {answer.headers["idempotent-replayed"] for answer in again} == {"true"}
    reused = await write(slips, "other", "key-a")
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    assert desk.groups[2:] == []
    assert desk.alone == []


async def test_one_key_twice_in_a_group_has_one_effect(slips: Shop, desk: Desk) -> None:
    answers = await at_once(slips, desk, "a", "a", "a", keys=["k", "k", "k"])
    assert desk.groups[1] == ["a"]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 2


async def test_what_is_unusual_goes_alone(slips: Shop, desk: Desk) -> None:
    answers = await at_once(slips, desk, "a", "unusual", "b")
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert desk.alone == ["unusual"]


@pytest.mark.parametrize("poison", ["poison", "taken"])
async def test_nobody_fails_for_another(slips: Shop, desk: Desk, poison: str) -> None:
    """One that breaks, and one whose title is taken: all go alone then, and only it is told."""
    await write(slips, "taken")
    answers = await at_once(slips, desk, "a", poison, "b")
    assert sorted(desk.alone) == sorted(["a", poison, "b"])
    assert [answer.status_code for answer in answers] == [201, 201 if poison == "poison" else 409, 201]
    titles = await slips.db.fetch("SELECT title FROM notes WHERE store_id = $1 ORDER BY title", slips.store_id)
    assert [row[0] for row in titles] == sorted({"a", "ahead", "b", "taken", poison})


async def test_what_was_lost_on_the_way_is_not_tried_again(slips: Shop, desk: Desk) -> None:
    answers = await at_once(slips, desk, "a", "lost")
    assert [answer.status_code for answer in answers] == [503, 503]
    assert desk.alone == []
    assert (await write(slips, "a")).status_code == 201
