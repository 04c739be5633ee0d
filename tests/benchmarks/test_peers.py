"""The comparison with other platforms, as far as it needs none of them: lock files, checks of responses, orders, rows."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from benchmarks.drive import CannotMeasure, Figures, Load, Request, TooFew
from benchmarks.peers import node, rows
from benchmarks.peers.__main__ import PEERS
from benchmarks.peers.goods import QUANTITIES, SHIPPING, Order, Product, Variant, orders
from benchmarks.peers.medusa import peer as medusa
from benchmarks.peers.sides import PAGE, Checkout, Placed, Read, Run, Seen, difference, drive_orders, post
from benchmarks.peers.vendure import peer as vendure

HOME = Path(node.__file__).parent
PRODUCTS = [
    Product(
        number,
        f"Shirt {number}",
        f"shirt-{number}",
        "A shirt.",
        "active" if number % 10 else "draft",
        "Fjord",
        "Clothing",
        ["new"],
        [],
        [Variant(f"SKU-{number}-1", f"40{number}", "Small", Decimal(f"{number}.90"))],
    )
    for number in range(1, 101)
]

CHEAP = msgspec.structs.replace(PRODUCTS[0], variants=PRODUCTS[4].variants)


@pytest.mark.parametrize("name", PEERS)
def test_a_lock_file_holds_exact_versions_and_hashes_and_no_address(name: str) -> None:
    text = (HOME / name / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    wanted = json.loads((HOME / name / "package.json").read_text())["dependencies"]
    assert "://" not in text
    assert all("integrity" in each for at, each in packages.items() if at)
    assert packages[""]["dependencies"] == wanted
    assert {package: packages[f"node_modules/{package}"]["version"] for package in wanted} == wanted
    assert all(re.fullmatch(r"[\d.]+", version) for version in wanted.values())


def test_drivers_of_node_get_the_folder_of_the_socket_as_host() -> None:
    url = node.database_url("postgresql://stoa@/stoa?host=/tmp/a/data&port=5432")
    assert url == "postgresql://stoa@%2Ftmp%2Fa%2Fdata:5432/stoa"


def page(products: list[Product], total: int) -> Any:
    """A list of Vendure's Admin API."""
    items = [{"name": each.name, "variants": [{"price": int(each.variants[0].price * 100)}]} for each in products]
    return {"data": {"products": {"totalItems": total, "items": items}}}


def vendure_listing() -> Read:
    return vendure.reads(vendure.Loaded([1, 100], []), "")["listing"]


def test_a_page_with_the_products_their_prices_and_the_total_is_accepted() -> None:
    assert not difference(page(PRODUCTS[:PAGE], 100), vendure_listing(), PRODUCTS)
    sold = [product for product in PRODUCTS if product.status == "active"]
    assert not difference(page(sold[:PAGE], 90), vendure_listing(), PRODUCTS)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (page(PRODUCTS[:PAGE], 99), "99 instead of 100 products"),
        (page(PRODUCTS[: PAGE - 1], 100), "49 products"),
        ({"errors": [{"message": "no"}]}, "another form"),
        (page([*PRODUCTS[1:PAGE], CHEAP], 100), "Shirt 1 costs"),
    ],
)
def test_a_page_that_lacks_something_is_not_measured(answer: Any, found: str) -> None:
    assert found in difference(answer, vendure_listing(), PRODUCTS)


def test_a_page_of_medusa_shows_calculated_prices_in_the_shop_and_stored_ones_to_an_administrator() -> None:
    reads = medusa.reads(PRODUCTS, medusa.Loaded("", "", "", ""), {})
    prices = [{"amount": 19.9}, {"amount": 19.90000000001}]
    one = {"product": {"title": "Shirt 19", "variants": [{"prices": prices}]}}
    assert reads["one"].seen(one) == (None, [Seen("Shirt 19", {Decimal("19.90")})])
    sold = {"count": 1, "products": [{"title": "A", "variants": [{"calculated_price": {"calculated_amount": 5}}]}]}
    assert reads["listing-shop"].seen(sold) == (1, [Seen("A", {Decimal(5)})])


def test_orders_are_for_three_products_that_are_for_sale() -> None:
    made = list(islice(orders(PRODUCTS, 1), 200))
    assert all(len({each.number for each in order.products}) == len(QUANTITIES) for order in made)
    assert all(each.status == "active" for order in made for each in order.products)
    assert len({order.key for order in made}) == len(made)
    order = Order("1", PRODUCTS[:3])
    assert order.total == 2 * Decimal("1.90") + Decimal("2.90") + Decimal("3.90") + SHIPPING


class _Shop(BaseHTTPRequestHandler):
    """Answers each order with its own body, and refuses everything else."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/orders" else 409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def buying(path: str, extra: Decimal = Decimal(0)) -> Checkout:
    def place(connection: HTTPConnection, order: Order) -> Placed:
        answer = post(connection, path, json.dumps({"total": str(order.total + extra)}).encode(), {})
        return Placed(QUANTITIES, Decimal(answer["total"]))

    return Checkout(place, "")


def test_orders_are_counted_and_timed(shop: str) -> None:
    figures = drive_orders(shop, buying("/orders"), PRODUCTS, Load(2, 0.5))
    assert figures.per_second > 0
    assert figures.p50_ms is not None
    assert figures.p99_ms is not None
    assert 0 < figures.p50_ms <= figures.p99_ms


@pytest.mark.parametrize(
    ("checkout", "found"), [(buying("/orders", Decimal("0.01")), "became"), (buying("/other"), "409")]
)
def test_an_order_that_is_refused_or_has_another_total_ends_the_measurement(
    shop: str, checkout: Checkout, found: str
) -> None:
    with pytest.raises(CannotMeasure, match=found):
        drive_orders(shop, checkout, PRODUCTS, Load(1, 5))


def test_a_run_without_orders_is_too_short(shop: str) -> None:
    with pytest.raises(TooFew):
        drive_orders(shop, buying("/orders"), PRODUCTS, Load(1, 0))


def test_a_row_shows_the_run_with_the_median_rate_and_its_cpu_as_a_multiple_of_ours() -> None:
    ours = [Run(Figures(rate, 1.0, 2.0), 0.5, 0.5) for rate in (10.0, 30.0, 20.0)]
    theirs = [Run(Figures(2.0, 1.0, 2.0), 6.0, 2.0)]
    found = rows.rows_of("one", [("Stoa", ours), ("Other", theirs)])
    assert [row.cells() for row in found] == [
        ["one", "Stoa", "20.0", "1.0", "2.0", "0.50", "0.50", "1.0"],
        ["one", "Other", "2.0", "1.0", "2.0", "6.00", "2.00", "8.0"],
    ]


def test_requests_of_both_apis_name_products_by_the_numbers_that_wrk_chooses() -> None:
    reads = medusa.reads(PRODUCTS, medusa.Loaded("", "", "", ""), {})
    assert (reads["one"].request.first_id, reads["one"].request.last_id) == (1, 100)
    asked: Request = vendure.reads(vendure.Loaded([7, 9], []), "")["one"].request
    assert json.loads(asked.text(asked.body))["query"].startswith('{ product(id: "7") {')
