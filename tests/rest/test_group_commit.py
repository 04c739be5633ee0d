"""Group commit: each call of a group has its own outcome and key, and no call fails because of another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.grouping import Submissions
from tests.support.notes import GET, INSERT, NewNote, Note, TitleTaken
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.connection import Connection
from stoa.db.errors import StaleTransaction
from stoa.db.pool import Database
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, Routes
from stoa.rest.group_commit import MAX_BYTES, RefusedCalls, only_outcome
from stoa.rest.problems import Refusal
from stoa.settings import Settings

BODY = '"price":"5.00","color":"red","pinned":false,"detail":{"author":null,"pages":null},"labels":[]'
FIRST = "first"


class Slips:
    """An endpoint whose calls are grouped; some titles make something go wrong."""

    def __init__(self, submissions: Submissions) -> None:
        self.submissions = submissions
        self.groups: list[list[str]] = []
        self.released = asyncio.Event()
        self.released.set()
        self.routes = Routes("Slips")
        self.stale = 0  # how many more groups find out that they are stale

        @self.routes.post("/slips", scope="products:write", errors=[TitleTaken], grouped=self.write_slips)
        async def create_slip(call: Call, body: NewNote) -> Created[Note]:  # pyright: ignore[reportUnusedFunction]
            """Write a slip."""
            return await only_outcome(call, self.write_slips(call.db, [(call, body)]))

    async def write_slips(self, db: Any, calls: Sequence[tuple[Call, NewNote]]) -> list[Created[Note] | Refusal | None]:
        self.groups.append([body.title for _, body in calls])
        await self.released.wait()
        outcomes = [await self._write(db, call, body, calls) for call, body in calls]
        refused = {call: TitleTaken("late") for call, body in calls if body.title.startswith("late")}
        if refused:
            raise RefusedCalls(refused)
        if self.stale:
            self.stale -= 1
            raise StaleTransaction("once more")
        return outcomes

    async def _write(
        self, db: Connection, call: Call, body: NewNote, calls: Sequence[tuple[Call, NewNote]]
    ) -> Created[Note] | Refusal | None:
        if body.title.startswith("refused"):
            return TitleTaken("refused")
        if body.title == "dependent" and len(calls) > 1:
            return None
        if body.title == "poison" and len(calls) > 1:
            raise RuntimeError("only works alone")
        if body.title == "broken":
            raise RuntimeError("never works")
        if body.title == "lost":
            await db.fetch("SELECT pg_terminate_backend(pg_backend_pid())")
        values = (body.title, 500, body.color, body.pinned, f'"title":"{body.title}",{BODY}')
        new = await INSERT.one(db, call.store_id, *values)
        row = await GET.one(db, call.store_id, new)
        return Created(row.doc, row.version, f"/notes/{new}")


@pytest.fixture
def slips(monkeypatch: pytest.MonkeyPatch) -> Slips:
    return Slips(Submissions(monkeypatch))


@pytest.fixture
async def shop_of_slips(settings: Settings, db: Database, slips: Slips) -> AsyncIterator[Shop]:
    application = Application(settings, slips.routes.endpoints)
    shop = await open_shop(application, db)
    yield shop
    await shop.client.aclose()
    await application.close()


async def write(shop: Shop, title: str, key: str | None = None, **body: Any) -> Any:
    headers = {"idempotency-key": key} if key else {}
    return await shop.client.post("/slips", json={"title": title, "price": "5.00", **body}, headers=headers)


async def write_group(shop: Shop, slips: Slips, *titles: str, keys: Sequence[str | None] = ()) -> list[Any]:
    """Send one call first, and the others while it runs, so that they form one group."""
    before = slips.submissions.count
    slips.released.clear()
    first = asyncio.create_task(write(shop, FIRST))
    while slips.groups[-1:] != [[FIRST]]:
        await asyncio.sleep(0.001)
    sent = [
        asyncio.create_task(write(shop, title, key))
        for title, key in zip(titles, keys or [None] * len(titles), strict=True)
    ]
    await slips.submissions.until(before + 1 + len(sent))
    slips.groups.clear()
    slips.released.set()
    assert (await first).status_code == 201
    return [await each for each in sent]


async def stored_titles(shop: Shop) -> list[str]:
    rows = await shop.db.fetch("SELECT title FROM notes WHERE store_id = $1 ORDER BY title", shop.store_id)
    return [row[0] for row in rows if row[0] != FIRST]


def statuses(answers: Sequence[Any]) -> list[int]:
    return [answer.status_code for answer in answers]


async def test_each_call_gets_its_own_answer_from_one_transaction(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "b", "c")
    assert slips.groups == [["a", "b", "c"]]
    assert statuses(answers) == [201, 201, 201]
    assert [answer.json()["data"]["title"] for answer in answers] == ["a", "b", "c"]
    assert len({answer.headers["location"] for answer in answers}) == 3
    assert len({answer.headers["x-request-id"] for answer in answers}) == 3
    made = await shop_of_slips.db.fetch(
        "SELECT count(DISTINCT xmin::text), count(*) FROM notes WHERE store_id = $1 AND title <> $2",
        shop_of_slips.store_id,
        FIRST,
    )
    assert tuple(made[0]) == (1, 3)


async def test_each_response_is_stored_under_its_own_key(shop_of_slips: Shop, slips: Slips) -> None:
    first = await write_group(shop_of_slips, slips, "a", "b", keys=["key-a", "key-b"])
    again = [await write(shop_of_slips, "a", "key-a"), await write(shop_of_slips, "b", "key-b")]
    assert [answer.content for answer in again] == [answer.content for answer in first]
    assert [answer.headers["location"] for answer in again] == [answer.headers["location"] for answer in first]
    assert {answer.headers["idempotent-replayed"] for answer in again} == {"true"}
    reused = await write(shop_of_slips, "other", "key-a")
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    assert slips.groups == [["a", "b"]]


async def test_a_group_replays_and_refuses_used_keys_and_carries_out_the_rest(
    shop_of_slips: Shop, slips: Slips
) -> None:
    stored = await write(shop_of_slips, "a", "k")
    answers = await write_group(shop_of_slips, slips, "a", "b", "c", keys=["k", "k", "new"])
    assert statuses(answers) == [201, 422, 201]
    assert answers[0].content == stored.content
    assert answers[0].headers["idempotent-replayed"] == "true"
    assert slips.groups == [["c"]]


async def test_one_key_twice_in_a_group_has_one_effect(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "a", "b", "a", keys=["k", "k", "k", "k"])
    assert slips.groups == [["a"]]
    assert statuses(answers) == [201, 201, 422, 201]
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    assert ["idempotent-replayed" in answer.headers for answer in answers] == [False, True, False, True]


async def test_a_key_whose_first_call_was_refused_goes_to_the_next(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "refused", "a", keys=["k", "k"])
    assert statuses(answers) == [409, 201]
    assert slips.groups == [["refused"], ["a"]]


async def test_a_key_in_flight_elsewhere_is_refused_and_the_others_are_carried_out(
    shop_of_slips: Shop, slips: Slips
) -> None:
    async with shop_of_slips.db.transaction() as held:
        await held.execute(
            "INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint) VALUES ($1, $2, 'slow', 'x')",
            shop_of_slips.store_id,
            shop_of_slips.app_id,
        )
        answers = await write_group(shop_of_slips, slips, "a", "b", "c", keys=["1", "slow", "2"])
    assert statuses(answers) == [201, 409, 201]
    assert answers[1].json()["code"] == "idempotency_in_progress"
    assert answers[1].headers["retry-after"] == "1"
    assert await stored_titles(shop_of_slips) == ["a", "c"]


@pytest.mark.parametrize("title", ["a", "refused"])
async def test_a_key_that_another_request_stores_meanwhile_is_replayed(
    shop_of_slips: Shop, slips: Slips, title: str
) -> None:
    """Also if the call itself would be refused, for example because of what the other request did."""
    before = slips.submissions.count
    slips.released.clear()
    waiting = asyncio.create_task(write(shop_of_slips, title, "a"))
    await slips.submissions.until(before + 1)
    while not slips.groups:
        await asyncio.sleep(0.001)
    await shop_of_slips.db.execute(
        """INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint, status, headers, body)
           VALUES ($1, $2, 'a', 'x', 201, '[]', '{}')""",
        shop_of_slips.store_id,
        shop_of_slips.app_id,
    )
    slips.released.set()
    assert (await waiting).json()["code"] == "idempotency_key_reused"  # the other request has another fingerprint
    assert await stored_titles(shop_of_slips) == []


async def test_a_refusal_is_the_outcome_of_its_call_only(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "refused", "b")
    assert statuses(answers) == [201, 409, 201]
    assert slips.groups == [["a", "refused", "b"]]


async def test_a_refusal_after_a_write_leaves_no_trace(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "late-1", "b", "late-2", keys=["1", "2", "3", "4"])
    assert statuses(answers) == [201, 409, 201, 409]
    assert slips.groups == [["a", "late-1", "b", "late-2"], ["a", "b"]]
    assert await stored_titles(shop_of_slips) == ["a", "b"]
    assert (await write(shop_of_slips, "mended", "2")).status_code == 201


async def test_a_call_that_depends_on_another_runs_in_the_next_transaction(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "dependent", "b")
    assert statuses(answers) == [201, 201, 201]
    assert slips.groups == [["a", "dependent", "b"], ["dependent"]]


async def test_a_stale_group_runs_again(shop_of_slips: Shop, slips: Slips) -> None:
    slips.stale = 2  # of the call before, and of the group
    answers = await write_group(shop_of_slips, slips, "a", "b")
    assert statuses(answers) == [201, 201]
    assert await stored_titles(shop_of_slips) == ["a", "b"]


@pytest.mark.parametrize(("cause", "status"), [("poison", 201), ("broken", 500), ("taken", 409)])
async def test_no_call_fails_because_of_another(shop_of_slips: Shop, slips: Slips, cause: str, status: int) -> None:
    """A group that fails is split: each call runs alone, and only the one at fault fails."""
    if cause == "taken":
        await write(shop_of_slips, "taken")
    with capture_logs() as logs:
        answers = await write_group(shop_of_slips, slips, "a", cause, "b")
    split = [entry for entry in logs if entry["event"] == "group split"]
    assert [(entry["operation"], entry["calls"]) for entry in split] == [("create_slip", 3)]
    assert statuses(answers)[::2] == [201, 201]
    assert answers[1].status_code == (status if cause != "taken" else 500)
    assert set(await stored_titles(shop_of_slips)) >= {"a", "b"}


async def test_a_lost_connection_is_never_tried_again(shop_of_slips: Shop, slips: Slips) -> None:
    answers = await write_group(shop_of_slips, slips, "a", "lost")
    assert statuses(answers) == [503, 503]
    assert slips.groups == [["a", "lost"]]
    assert (await write(shop_of_slips, "a")).status_code == 201


async def test_large_calls_are_not_grouped(shop_of_slips: Shop, slips: Slips) -> None:
    before = slips.submissions.count
    slips.released.clear()
    first = asyncio.create_task(write(shop_of_slips, FIRST))
    while not slips.groups:
        await asyncio.sleep(0.001)
    # Spaces are no part of the title, but of the body.
    large = " " * MAX_BYTES + '{"title":"large","price":"5.00"}'
    sent = [
        asyncio.create_task(write(shop_of_slips, "a")),
        asyncio.create_task(
            shop_of_slips.client.post("/slips", content=large, headers={"content-type": "application/json"})
        ),
        asyncio.create_task(write(shop_of_slips, "b")),
    ]
    await slips.submissions.until(before + 4)
    slips.released.set()
    assert (await first).status_code == 201
    assert statuses([await each for each in sent]) == [201, 201, 201]
    assert slips.groups == [[FIRST], ["a"], ["large"], ["b"]]
