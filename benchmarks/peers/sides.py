"""A platform that runs with its own database server, the requests that it is measured by, and what one run of them costs."""

import itertools
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from tests.support.nodes import Node

from benchmarks.drive import CannotMeasure, Figures, Load, Request, TooFew, drive_http
from benchmarks.peers.goods import QUANTITIES, Order, Product, orders
from benchmarks.services import Service

PAGE = 50
MOST_SECONDS = 120


class Seen(msgspec.Struct, frozen=True):
    """What a response shows of a product: its name, and the prices of the variants that it shows."""

    name: str
    prices: set[Decimal]


class Read(msgspec.Struct, frozen=True):
    """A request for products. `seen` reads the response: the number of all products, if it shows one, and the products."""

    request: Request
    seen: Callable[[Any], tuple[int | None, list[Seen]]]
    note: str = ""


class Placed(msgspec.Struct, frozen=True):
    """An order as the platform shows it when it is placed."""

    quantities: Sequence[int]
    total: Decimal


class Checkout(msgspec.Struct, frozen=True):
    """How a client places an order; `requests` says by which calls."""

    place: Callable[[HTTPConnection, Order], Placed]
    requests: str


class Side(msgspec.Struct, frozen=True):
    """One platform."""

    name: str
    service: Service
    database: Node
    reads: Mapping[str, Read]
    checkout: Checkout

    def check(self, row: str, products: Sequence[Product]) -> None:
        """Refuse to measure a read whose response lacks a product, a price or the total."""
        read = self.reads[row]
        answer = httpx.request(
            read.request.method,
            self.service.origin + read.request.text(read.request.path),
            headers=dict(read.request.headers),
            content=read.request.text(read.request.body) or None,
            timeout=60,
        )
        if answer.status_code != 200:
            raise CannotMeasure(f"{row} of {self.name}: {answer.status_code} {answer.text[:500]}")
        if wrong := difference(answer.json(), read, products):
            raise CannotMeasure(f"{row} of {self.name}: {wrong}")

    def run(self, row: str, products: Sequence[Product], load: Load) -> "Run":
        """One run of a row, and the CPU time of the platform and of its database for one request or order.

        On a busy machine a run may end before the first responses. It is then repeated, twice as long.
        """
        try:
            return self._run(row, products, load)
        except TooFew:
            if 2 * load.seconds > MOST_SECONDS:
                raise
        return self.run(row, products, msgspec.structs.replace(load, seconds=2 * load.seconds))

    def _run(self, row: str, products: Sequence[Product], load: Load) -> "Run":
        before = (self.service.cpu_seconds(), self.database.cpu_seconds())
        if row in self.reads:
            figures = drive_http(self.service.origin, self.reads[row].request, load)
        else:
            figures = drive_orders(self.service.origin, self.checkout, products, load)
        spent = (self.service.cpu_seconds() - before[0], self.database.cpu_seconds() - before[1])
        count = figures.per_second * load.seconds
        if count < load.connections:
            raise TooFew(f"{row} of {self.name}: {count:.0f} responses in {load.seconds:g} s")
        return Run(figures, 1000 * spent[0] / count, 1000 * spent[1] / count)


class Run(msgspec.Struct, frozen=True):
    """The result of a run: rate, latency, and CPU time for one request in ms."""

    figures: Figures
    service_ms: float
    database_ms: float

    @property
    def cpu_ms(self) -> float:
        return self.service_ms + self.database_ms


def difference(answer: Any, read: Read, products: Sequence[Product]) -> str:
    """What a response lacks; empty if it shows the right products with their prices."""
    try:
        total, seen = read.seen(answer)
    except (KeyError, IndexError, TypeError) as error:
        return f"the response has another form ({error!r}): {str(answer)[:500]}"
    known = {product.name: product for product in products}
    sold = sum(product.status == "active" for product in products)
    if total is not None and total not in (len(products), sold):
        return f"{total} instead of {len(products)} products, or {sold} for sale"
    if len({each.name for each in seen}) != (1 if total is None else PAGE):
        return f"{len(seen)} products in the response"
    for each in seen:
        prices = {variant.price for variant in known[each.name].variants} if each.name in known else set[Decimal]()
        if not each.prices or not each.prices <= prices:
            return f"{each.name} costs {sorted(each.prices)} instead of {sorted(prices)}"
    return ""


def drive_orders(origin: str, checkout: Checkout, products: Sequence[Product], load: Load) -> Figures:
    """Place orders over as many connections at once, each after the one before, and check every one."""
    seed = secrets.randbelow(2**31)
    ends = time.monotonic() + load.seconds
    with ThreadPoolExecutor(load.connections) as threads:
        barrier = threading.Barrier(load.connections)
        client = [
            threads.submit(_buy, origin, checkout, products, seed + n, ends, barrier) for n in range(load.connections)
        ]
    times = sorted(itertools.chain.from_iterable(each.result() for each in client))
    if len(times) < 2:
        raise TooFew(f"{origin}: {len(times)} orders in {load.seconds:g} s")
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return Figures(len(times) / load.seconds, 1000 * cuts[49], 1000 * cuts[98])


def _buy(
    origin: str, checkout: Checkout, products: Sequence[Product], seed: int, ends: float, barrier: threading.Barrier
) -> list[float]:
    """The seconds of each order that one connection places until the end."""
    seconds: list[float] = []
    with closing(HTTPConnection(urlsplit(origin).netloc, timeout=60)) as connection:
        connection.connect()
        barrier.wait(60)
        for order in orders(products, seed):
            started = time.monotonic()
            if started >= ends:
                break
            placed = checkout.place(connection, order)
            if (sorted(placed.quantities), placed.total) != (sorted(QUANTITIES), order.total):
                raise CannotMeasure(f"{origin}: an order over {order.total} became {placed}")
            finished = time.monotonic()
            if finished < ends:  # what ends later belongs to no run
                seconds.append(finished - started)
    return seconds


def post(connection: HTTPConnection, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
    """The JSON response of a POST; a refusal ends the measurement."""
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    content = answer.read()
    if not 200 <= answer.status < 300:
        raise CannotMeasure(f"{path}: {answer.status} {content[:500].decode(errors='replace')}")
    return msgspec.json.decode(content)
