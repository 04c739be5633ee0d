"""Vendure beside Stoa: filled by its importer, served by its GraphQL APIs."""

import asyncio
import json
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.support.nodes import Node

from benchmarks.drive import CannotMeasure, Request
from benchmarks.peers import node
from benchmarks.peers.goods import QUANTITIES, Order, Product
from benchmarks.peers.sides import PAGE, Checkout, Placed, Read, Seen, Side, post
from benchmarks.services import Service
from benchmarks.trade import ADDRESS
from stoa.db.embedded import EmbeddedPostgres

HOME = Path(__file__).parent
_ADMIN, _SHOP = "/admin-api", "/shop-api"
_PRODUCT = """id name slug description enabled createdAt updatedAt optionGroups { name options { name } }
    facetValues { name facet { name } }"""
_LISTING = f"""{{ products(options: {{take: {PAGE}, sort: {{id: ASC}}}}) {{
    totalItems items {{ {_PRODUCT} variants {{ sku price }} }} }} }}"""
_SEARCH = f"""{{ search(input: {{take: {PAGE}, groupByProduct: true, sort: {{name: ASC}}}}) {{
    totalItems items {{ productId productName slug description sku facetValueIds
    price {{ ... on PriceRange {{ min max }} ... on SinglePrice {{ value }} }} }} }} }}"""
_ONE = f"""{{ product(id: "%d") {{ {_PRODUCT}
    variants {{ id sku name price currencyCode options {{ name }} stockLevels {{ stockOnHand stockAllocated }} createdAt
    updatedAt }} }} }}"""
_LOGIN = """mutation ($password: String!) { login(username: "superadmin", password: $password) {
    ... on CurrentUser { id } ... on ErrorResult { message } } }"""
# The fields of a mutation run one after another, so that one request places an order.
_PLACE = """mutation ($lines: [AddItemInput!]!, $customer: CreateCustomerInput!, $address: CreateAddressInput!, $shipping: [ID!]!) {
    addItemsToOrder(inputs: $lines) { errorResults { ... on ErrorResult { message } } }
    setCustomerForOrder(input: $customer) { ... on ErrorResult { message } }
    setOrderShippingAddress(input: $address) { ... on ErrorResult { message } }
    setOrderShippingMethod(shippingMethodId: $shipping) { ... on ErrorResult { message } }
    transitionOrderToState(state: "ArrangingPayment") { ... on ErrorResult { message } }
    addPaymentToOrder(input: {method: "card", metadata: {}}) {
        ... on Order { code state totalWithTax lines { quantity productVariant { sku } } } ... on ErrorResult { message } } }"""
_STEPS = (
    "one GraphQL request to the Shop API with six mutations: addItemsToOrder, setCustomerForOrder, "
    "setOrderShippingAddress, setOrderShippingMethod, transitionOrderToState, addPaymentToOrder"
)


class Loaded(msgspec.Struct, frozen=True):
    """The ids of the products in the order of the catalog, and of the first variant of each."""

    products: list[int]
    variants: list[int]


@contextmanager
def running(folder: Path, products: Sequence[Product], workers: int) -> Generator[Side, None, None]:
    """Load the products into a new database and serve it."""
    folder.mkdir(mode=0o711)
    server = EmbeddedPostgres(folder / "postgres")
    password = secrets.token_hex(16)
    settings = {
        "DATABASE_URL": node.database_url(server.dsn),
        "ADMIN_PASSWORD": password,
        "COOKIE_SECRET": secrets.token_hex(16),
    }
    catalog, loaded = folder / "catalog.json", folder / "loaded.json"
    catalog.write_bytes(msgspec.json.encode(products))
    with EmbeddedPostgres(folder / "postgres", durable=False):  # only while it is loaded
        creating = settings | {"CREATE_TABLES": "1", "PORT": str(node.free_port())}
        node.run(HOME, ["load.js", str(catalog), str(loaded)], creating, folder / "load.log")
    ids = msgspec.json.decode(loaded.read_bytes(), type=Loaded)
    with server, node.serving(HOME, settings, workers, folder / "serve.log") as service:
        database = asyncio.run(Node.of(server.dsn, "Vendure"))
        name = f"Vendure {node.version(HOME, '@vendure/core')}"
        yield Side(name, service, database, reads(ids, _log_in(service, password)), _checkout(products, ids))


def _log_in(service: Service, password: str) -> str:
    answer = httpx.post(
        service.origin + _ADMIN, content=_body(_LOGIN, {"password": password}), headers=_JSON, timeout=60
    )
    token = answer.headers.get("vendure-auth-token")
    if not token:
        raise CannotMeasure(f"Vendure: no token: {answer.status_code} {answer.text[:500]}")
    return token


_JSON = {"Content-Type": "application/json"}


def _body(query: str, variables: dict[str, Any] | None = None) -> str:
    return json.dumps({"query": " ".join(query.split()), "variables": variables or {}})


def reads(ids: Loaded, token: str) -> dict[str, Read]:
    admin = {**_JSON, "Authorization": f"Bearer {token}"}

    def asked(path: str, query: str, headers: dict[str, str]) -> Request:
        return Request(
            path, method="POST", headers=headers, body=_body(query), first_id=ids.products[0], last_id=ids.products[-1]
        )

    return {
        "listing": Read(
            asked(_ADMIN, _LISTING, admin), _listed, "Admin API, `products` with the prices of the variants"
        ),
        "listing-shop": Read(asked(_SHOP, _SEARCH, _JSON), _found, "Shop API, `search` by product in the search index"),
        "one": Read(asked(_ADMIN, _ONE, admin), _one, "Admin API, `product`"),
    }


def _listed(answer: Any) -> tuple[int | None, list[Seen]]:
    found = answer["data"]["products"]
    return found["totalItems"], [_seen(item) for item in found["items"]]


def _one(answer: Any) -> tuple[int | None, list[Seen]]:
    return None, [_seen(answer["data"]["product"])]


def _seen(product: Any) -> Seen:
    return Seen(product["name"], {_money(variant["price"]) for variant in product["variants"]})


def _found(answer: Any) -> tuple[int | None, list[Seen]]:
    found = answer["data"]["search"]
    return found["totalItems"], [
        Seen(item["productName"], {_money(price) for price in item["price"].values()}) for item in found["items"]
    ]


def _money(minor: int) -> Decimal:
    return Decimal(minor) / 100


class _Answer(msgspec.Struct):
    """The response to the mutations; a refused payment has a message instead of a state."""

    class Data(msgspec.Struct):
        class Order(msgspec.Struct):
            class Line(msgspec.Struct):
                quantity: int

            state: str = ""
            totalWithTax: int = 0  # noqa: N815
            lines: list[Line] = []

        addPaymentToOrder: Order  # noqa: N815

    data: Data | None


def _checkout(products: Sequence[Product], ids: Loaded) -> Checkout:
    variants = dict(zip((product.number for product in products), ids.variants, strict=True))
    return Checkout(_placing(lambda product: str(variants[product.number])), _STEPS)


def _placing(variant_of: Callable[[Product], str]) -> Callable[[HTTPConnection, Order], Placed]:
    def place(connection: HTTPConnection, order: Order) -> Placed:
        lines = [
            {"productVariantId": variant_of(product), "quantity": count}
            for product, count in zip(order.products, QUANTITIES, strict=True)
        ]
        variables = {
            "lines": lines,
            "customer": {
                "firstName": ADDRESS["first_name"],
                "lastName": ADDRESS["last_name"],
                "emailAddress": f"new-{order.key}@example.com",
            },
            "address": {
                "fullName": f"{ADDRESS['first_name']} {ADDRESS['last_name']}",
                "streetLine1": ADDRESS["address1"],
                "city": ADDRESS["city"],
                "postalCode": ADDRESS["postal_code"],
                "countryCode": ADDRESS["country_code"],
            },
            "shipping": ["1"],
        }
        answer = post(connection, _SHOP, _body(_PLACE, variables).encode(), {})
        placed = msgspec.convert(answer, _Answer).data
        if placed is None or placed.addPaymentToOrder.state != "PaymentAuthorized":
            raise CannotMeasure(f"Vendure did not place an order: {str(answer)[:500]}")
        shown = placed.addPaymentToOrder
        return Placed([line.quantity for line in shown.lines], _money(shown.totalWithTax))

    return place
