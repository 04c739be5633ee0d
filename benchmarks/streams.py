"""Measures a stream of all orders, read by one client, beside `COPY` of the same documents, which is its limit."""

import socket
import subprocess
import time
from urllib.parse import urlsplit

from rich.console import Console

from benchmarks.catalog import Loaded
from benchmarks.drive import CannotMeasure, Figures, Load
from benchmarks.measures import Access, Measure, Wanted, of_trade
from benchmarks.results import Round, Row, row_of
from benchmarks.services import Service
from benchmarks.trade import Trade
from stoa.db.embedded import binary
from stoa.orders.queries import LISTING
from stoa.rest.dispatch import PREFIX

_PIECE = 256 * 1024


def measure(
    service: Service, dsn: str, store: Loaded, trade: Trade, access: Access, load: Load, rounds: int, console: Console
) -> Row:
    """Stream and copy in turns, each as often as fits into the time of a run; the figures are rows per second."""
    found: list[Round] = []
    path = f"/stores/{store.handle}{PREFIX}/orders"
    for number in range(rounds + 1):  # the first is a warm-up
        seconds = load.seconds if number else 2.0
        ours = _stream(service.origin, path, access.token, trade.orders, seconds)
        copied = _copy(dsn, store, trade, seconds)
        if number:
            found.append(Round(ours, copied, None, None))
            console.print(
                f"{'stream':14} round {number}: stoa {ours.per_second:,.0f}/s | COPY {copied.per_second:,.0f}/s"
            )
    like = of_trade(store, trade, access, baseline=False)[0]
    title = f"rows of a stream of {trade.orders:,} orders to one client, compared with COPY"
    return row_of(Measure("stream", title, like.request, like.limit, wanted=Wanted(of_limit=0.6)), found)


def _stream(origin: str, path: str, token: str, rows: int, seconds: float) -> Figures:
    started, times = time.perf_counter(), 0
    while (took := time.perf_counter() - started) < seconds:
        end = _read(origin, path, token)
        if f'"count":{rows},'.encode() not in end or b'"complete":true' not in end:
            raise CannotMeasure(f"the stream ended with {end!r}")
        times += 1
    return Figures(times * rows / took)


def _read(origin: str, path: str, token: str) -> bytes:
    """Read a response to its end as cheaply as a client can; returns the end."""
    address = urlsplit(origin)
    request = f"GET {path} HTTP/1.1\r\nhost: {address.netloc}\r\naccept: application/x-ndjson\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    with socket.create_connection((address.hostname or "", address.port or 80), timeout=60) as client:
        client.sendall(request.encode())
        tail, piece = b"", bytearray(_PIECE)
        while size := client.recv_into(piece):
            tail = (tail + piece[max(0, size - 500) : size])[-500:]
    return tail


def _copy(dsn: str, store: Loaded, trade: Trade, seconds: float) -> Figures:
    copied = f"COPY (SELECT {LISTING.doc} FROM {LISTING.table} WHERE store_id = {store.store_id} ORDER BY id) TO STDOUT"
    command = [str(binary("psql")), dsn, "-X", "-q", "-c", copied]
    started, times = time.perf_counter(), 0
    while (took := time.perf_counter() - started) < seconds:
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
        times += 1
    return Figures(times * trade.orders / took)
