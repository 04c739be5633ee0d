"""A stream of 100,000 orders in one call: its rate beside COPY of the same documents, and the memory of the worker."""

import asyncio
import os
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from stoa.db.connection import connect
from stoa.orders.queries import LISTING
from tests.support.service import Account, Service

ORDERS, LINES, RUNS = 100_000, 3, 3
LEAST_SHARE = 0.6  # of the rate of COPY
MOST_GROWTH = 32_000_000  # bytes of the worker's memory at its peak above that before; the stream has 200 MB
_PAGE, _TICKS = 4096, os.sysconf("SC_CLK_TCK")
_COLUMNS = """SELECT string_agg(attname, ', ' ORDER BY attnum), string_agg(CASE attname WHEN 'id' THEN 't.id + n'
                     WHEN 'number' THEN 't.number + n' ELSE 't.' || attname END, ', ' ORDER BY attnum)
                FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"""


class Run(msgspec.Struct, frozen=True):
    """One reading of all orders."""

    seconds: float
    size: int
    peak: int = 0  # bytes of memory
    cpu_s: float = 0.0  # of the worker

    @property
    def rate(self) -> float:
        return self.size / self.seconds


async def export_all(folder: Path) -> bool:
    """Read all orders by COPY and by a stream, in turn, and compare the medians."""
    with Service(folder, workers=1, background=False, access_log=False, log_level="error") as service:
        account = await service.account("large", burst=10_000_000, refill=1_000_000)
        store_id = await _fill(service, account)
        [worker] = service.workers()
        await asyncio.to_thread(
            _stream, account, worker
        )  # reads the table into memory, and grows the buffers of the worker
        before = _memory(worker)
        copies: list[Run] = []
        streams: list[Run] = []
        for _ in range(RUNS):
            copies.append(await _copy(service, store_id))
            streams.append(await asyncio.to_thread(_stream, account, worker))
        zipped = await asyncio.to_thread(_stream, account, worker, "gzip")
        after = _memory(worker)
        clean = service.stop() == 0
    share = statistics.median(each.rate for each in streams) / statistics.median(each.rate for each in copies)
    grown = max(each.peak for each in streams) - before
    click.echo(
        f"streams: {ORDERS} orders of {LINES} lines, {streams[0].size / 1e6:.0f} MB in one call: {_shown(streams)};"
        f" COPY of the same documents: {_shown(copies)}; {share:.0%} of its rate; CPU of the worker"
        f" {statistics.median(each.cpu_s for each in streams):.2f} s; its memory {before / 1e6:.0f} MB before, at most"
        f" {grown / 1e6:.1f} MB more meanwhile, {after / 1e6:.0f} MB after; compressed {zipped.size / 1e6:.0f} MB in"
        f" {zipped.seconds:.1f} s; exit code 0: {clean}"
    )
    return clean and share >= LEAST_SHARE and grown <= MOST_GROWTH


def _shown(runs: list[Run]) -> str:
    return f"{', '.join(f'{each.seconds:.2f}' for each in runs)} s, {statistics.median(each.rate for each in runs) / 1e6:.0f} MB/s"


async def _fill(service: Service, account: Account) -> int:
    """Place one order, and copy it."""
    lines = [{"name": f"Linen Shirt {n}", "quantity": n + 1, "unit_price": "59.00"} for n in range(LINES)]
    address = {
        "first_name": "Ada",
        "last_name": "Byron",
        "address1": "1 Mill Lane",
        "city": "Ghent",
        "country_code": "BE",
    }
    async with account.client() as client:
        answer = await client.post("/orders", json={"line_items": lines, "shipping_address": address, "tags": ["web"]})
        assert answer.status_code == 201, answer.text
    db = await connect(service.database_url, statement_timeout_ms=60_000)
    [[store_id]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", account.handle)
    [[names, values]] = await db.fetch(_COLUMNS)
    await db.execute(
        f"INSERT INTO orders ({names}) SELECT {values} FROM orders t, generate_series(1, {ORDERS - 1}) n WHERE t.store_id = $1",
        store_id,
    )
    await db.execute(
        "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'orders', $2)", store_id, ORDERS - 1
    )
    await db.execute("VACUUM ANALYZE orders")
    await db.close()
    return store_id


async def _copy(service: Service, store_id: int) -> Run:
    size = 0

    async def take(part: bytes) -> None:
        nonlocal size
        size += len(part)

    db: Any = await connect(service.database_url, statement_timeout_ms=60_000)
    started = time.perf_counter()
    await db.copy_from_query(f"SELECT {LISTING.doc} FROM orders WHERE store_id = $1 ORDER BY id", store_id, output=take)
    seconds = time.perf_counter() - started
    await db.close()
    return Run(seconds, size)


def _stream(account: Account, worker: int, encoding: str = "identity") -> Run:
    """Read the whole stream, and watch the memory of the worker."""
    over, peak, cpu = threading.Event(), 0, _cpu_s(worker)

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.02):
            peak = max(peak, _memory(worker))

    watching = threading.Thread(target=watch)
    watching.start()
    started, size, end = time.perf_counter(), 0, b""
    request = (
        f"GET /stores/{account.handle}/api/v3/app/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"authorization: Bearer {account.token}\r\naccept: application/x-ndjson\r\naccept-encoding: {encoding}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", account.service.port), timeout=120) as client:
        client.sendall(request.encode())
        while part := client.recv(1024 * 1024):
            size += len(part)
            end = (end + part)[-1_000:]
    seconds = time.perf_counter() - started
    over.set()
    watching.join()
    assert encoding == "gzip" or f'"count":{ORDERS}'.encode() in end, end
    return Run(seconds, size, peak, _cpu_s(worker) - cpu)


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _cpu_s(pid: int) -> float:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / _TICKS
