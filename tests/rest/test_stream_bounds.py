"""What one app can take from others with its streams: their number, statements, memory and time of the event loop are bounded."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support import notes
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop, api_client, open_shop
from tests.support.stream_reader import Reader, write_notes

from stoa.access.grants import install
from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.db.pool import Database
from stoa.rest.call import Call, NamedOperator
from stoa.rest.csv_files import CELLS_AT_ONCE, CsvFile, columns_of_resource
from stoa.rest.list_reader import PART_BYTES, ListReader
from stoa.rest.lists import Page, read_list
from stoa.rest.request import Peer
from stoa.rest.response import Response, send_response
from stoa.rest.unsent import UnsentResponses
from stoa.settings import Settings

LIST_NOTES = next(each for each in notes.routes.endpoints if each.name == "list_notes")


@pytest.fixture
async def fresh(settings: Settings) -> AsyncIterator[Application]:
    """A worker that has served nothing, and in which an app may read two streams."""
    limited = msgspec.structs.replace(settings, app_concurrency=2)
    application = Application(limited, [*ENDPOINTS, *notes.routes.endpoints])
    yield application
    await application.close()


async def status(reader: Reader) -> int:
    """The status of a request, which may not be read on."""
    async with asyncio.timeout(PATIENCE_S):
        while not reader.status:
            await asyncio.sleep(0.01)
    return reader.status


async def test_of_twelve_first_requests_at_once_one_opens_a_stream(shop: Shop, settings: Settings) -> None:
    await write_notes(shop, 5_000)
    application = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    readers = [Reader(replace(shop, application=application)) for _ in range(12)]
    statuses = await asyncio.gather(*map(status, readers))
    assert sorted(statuses) == [200, *[409] * 11]
    for reader in readers:
        if reader.status == 200:
            assert (await reader.rest())[-1]["meta"]["count"] == 5_000
        else:
            await reader.read_on()
            assert json.loads(reader.text)["code"] == "export_in_progress"
    await application.close()


async def test_twelve_apps_read_their_first_streams_at_once(shop: Shop, db: Database, settings: Settings) -> None:
    application = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    shops = [await open_shop(shop.application, db) for _ in range(12)]
    for each in shops:
        await write_notes(each, 1_300)
    readers = [Reader(replace(each, application=application)) for each in shops]
    for lines in await asyncio.gather(*(reader.rest() for reader in readers)):
        assert [line.get("title") for line in lines[:-1]] == [f"note {n}" for n in range(1, 1_301)]
        assert lines[-1]["meta"]["complete"]
    await application.close()


async def test_an_app_reads_few_streams_of_all_its_stores_at_the_same_time(
    shop: Shop, db: Database, fresh: Application
) -> None:
    stores = [shop, *[await open_shop(shop.application, db) for _ in range(2)]]
    for each in stores:
        await write_notes(each, 5_000)
        await install(each.operator, shop.client_id, each.store.handle, rate_burst=10_000, rate_refill=1_000)
    mine = [replace(each, application=fresh, token=shop.token, app_id=shop.app_id) for each in stores]
    first, second = Reader(mine[0]), Reader(mine[1])
    await first.take()
    await second.take()
    third = Reader(mine[2])
    await third.read_on()
    assert (third.status, json.loads(third.text)["code"]) == (429, "too_many_in_flight")
    other = Reader(replace(stores[2], application=fresh))
    assert (await other.rest())[-1]["meta"]["complete"], "of another app"
    await first.leave()
    again = Reader(mine[2])
    assert (await again.rest())[-1]["meta"]["complete"]
    await second.leave()


async def test_the_statements_of_streams_leave_connections_to_others(shop: Shop, fresh: Application) -> None:
    await write_notes(shop, 300)
    reads = fresh.streams.reads
    async with reads, reads:  # as many as streams may run at the same time
        reader = Reader(replace(shop, application=fresh))
        client = api_client(fresh, shop.store.handle, shop.token)
        for _ in range(20):
            assert (await client.get("/notes")).status_code == 200
        assert reader.status == 0
        assert fresh.database.in_use == 0, "it waits without a connection"
    assert (await reader.rest())[-1]["meta"]["count"] == 300


@pytest.mark.parametrize(("row_bytes", "rows"), [(200, 1_000), (2_700, 500), (100_000, 10), (2_000_000, 1)])
async def test_large_rows_are_read_few_at_a_time(shop: Shop, row_bytes: int, rows: int) -> None:
    call = Call(shop.db, shop.store, NamedOperator("a test"), "req_tests", "")
    assert LIST_NOTES.lists is not None
    reader = ListReader(LIST_NOTES, call, {"query": read_list(LIST_NOTES.lists, b"", shop.store, "/notes")})
    page: Page[Any] = Page([], range(250), 0, 250, None, "next", None, last=[250])
    reader.move_on(page, 250 * row_bytes)
    await write_notes(shop, 1_300)
    assert len((await reader.read()).docs) <= rows
    assert rows * row_bytes <= max(PART_BYTES, row_bytes)


def test_a_wide_file_is_written_a_few_records_at_a_time() -> None:
    columns = columns_of_resource(notes.Note)
    doc = json.dumps({"id": 1, "title": "x", "detail": {}, "labels": []}).encode()
    file = CsvFile(columns, [doc], None, frozenset(), deleted=False)
    width = file.header().count(b",") + 1
    pieces = list(file.pieces([doc] * 1_000))
    assert all(piece.count(b"\r\n") * width < CELLS_AT_ONCE + width for piece in pieces)
    assert sum(piece.count(b"\r\n") for piece in pieces) == 1_000


class Recording(UnsentResponses):
    """Remembers what is counted for clients while it is sent."""

    def __init__(self) -> None:
        super().__init__(10**9, 10**9, 1)
        self.sizes: list[int] = []

    @contextmanager
    def keeping(self, peer: Peer, size: int) -> Generator[None]:
        self.sizes.append(size)
        with super().keeping(peer, size):
            yield


@pytest.mark.parametrize("compress", [False, True])
async def test_what_a_stream_holds_and_reads_ahead_counts_for_its_client(*, compress: bool) -> None:
    async def parts() -> AsyncGenerator[bytes]:
        yield b"x" * 1_000_000

    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    unsent = Recording()
    await send_response(send, Response(200, [], b"", parts()), unsent, ("127.0.0.1", 1), compress=compress)
    [counted] = unsent.sizes
    assert counted >= 1_000_000 + sum(map(len, sent[:-1])), "slow clients above the limit are disconnected by it"
