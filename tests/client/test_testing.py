"""The fake transport answers every operation from its example, pages, fails as told, and records what was sent."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
from tools.sdk.__main__ import description
from tools.sdk.surface import Operation, operations

from stoa.webhooks.http.message import signed_headers
from stoa_client import ApiError, AsyncClient, Client, ConnectionFailed, codes, errors, webhooks
from stoa_client.operations import OPERATIONS
from stoa_client.routes import route_of
from stoa_client.testing import FakeTransport, example_answer, example_event
from stoa_client.webhooks import key_of
from tests.docs.pages import GUIDES, blocks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVERY = operations(description())
PATH = {"product_id": 5, "variant_id": 6, "order_id": 7, "line_item_id": 8, "customer_id": 9, "address_id": 10}


def call(client: Client, operation: Operation) -> Any:
    """Call an operation with any arguments, as the fake does not check them."""
    resource: Any = client
    for part in operation.chain:
        resource = getattr(resource, part.replace("-", "_"))
    values: list[Any] = [PATH.get(name, "imp_1" if name == "import_id" else 11) for name in operation.placeholders]
    if operation.uploads:
        values.append([{"sku": "A"}])
    elif operation.body is not None and operation.members is None:
        values.append({})
    made = getattr(resource, operation.name)(*values, **({"items": [{}, {}]} if operation.is_batch else {}))
    return made.page() if operation.is_list else made


@pytest.mark.parametrize("operation", [pytest.param(each, id=f"{each.id}-{each.name}") for each in EVERY])
def test_every_operation_answers_with_its_example(operation: Operation) -> None:
    fake = FakeTransport()
    answered = call(fake.client(), operation)
    (sent,) = fake.requests
    assert (sent.operation, sent.method, sent.path) == (operation.id, operation.method, operation.path)
    example = example_answer(sent.operation)
    if example is None:
        assert answered is None
    elif operation.is_batch:
        assert [item.index for item in answered] == [0, 1]
    elif operation.is_list:
        assert len(answered) == len(example["data"])
        assert answered.total == len(example["data"])


def test_the_operations_and_events_are_those_of_the_api() -> None:
    assert list(OPERATIONS) == list(dict.fromkeys(each.id for each in EVERY))
    for event in description()["webhooks"]:
        assert example_event(event)["type"] == event
    assert route_of("GET", "/products/variants") == route_of("GET", "/products/variants")
    found = route_of("POST", "/products/batch")
    assert found is not None
    assert found.operation == "batch_products"
    assert route_of("GET", "/nothing") is None


def test_an_answer_replaces_members_of_the_example() -> None:
    fake = FakeTransport()
    client = fake.client()
    fake.answer("get_product", {"name": "Mug", "version": 7}, times=1)
    mug = client.products.get(31)
    assert (mug.id, mug.name, mug.answer.etag) == (31, "Mug", '"7"')
    assert client.products.get(31).name == example_answer("get_product")["data"]["name"]
    short = client.products.get(31, fields=["id", "name"])
    assert short.price is msgspec.UNSET


async def test_lists_are_read_in_pages_and_as_streams_by_both_clients() -> None:
    fake = FakeTransport()
    fake.answer("list_customers", [{"id": n} for n in range(5)])
    wanted = list(range(5))
    assert [each.id for each in fake.client().customers.list(limit=2)] == wanted
    assert [request.query for request in fake.requests] == [
        {"limit": "2"},
        {"limit": "2", "cursor": "c2"},
        {"limit": "2", "cursor": "c4"},
    ]
    client: AsyncClient = fake.async_client()
    assert [each.id async for each in client.customers.list(limit=2)] == wanted
    export = client.customers.export()
    assert [each.id async for each in export] == wanted
    assert (export.total, export.cursor) == (5, "c5")


def test_every_code_can_be_set_where_an_operation_may_fail_with_it() -> None:
    for operation in EVERY:
        name: Any = operation.id
        for code in operation.codes:
            fake = FakeTransport()
            fake.refuse(name, code)
            sent = httpx.Request(operation.method, f"https://store.example/api/v3/app{operation.path}")
            answer = fake.handle_request(sent)
            refused = errors.refusal(answer.status_code, answer.content, None)
            assert type(refused) is ApiError.by_code[code]
            assert (refused.code, refused.status) == (code, answer.status_code)
    fake = FakeTransport()
    fake.refuse("create_product", codes.SkuTaken, existing_id=4)
    with pytest.raises(codes.SkuTaken) as taken:
        fake.client().products.create(name="Mug", price="1.00")
    assert taken.value.more == {"existing_id": 4}
    with pytest.raises(ValueError, match="get_product does not fail with sku_taken"):
        FakeTransport().refuse("get_product", codes.SkuTaken)
    with pytest.raises(ValueError, match="did you mean 'sku_taken'"):
        FakeTransport().refuse("create_product", "sku_takn")
    with pytest.raises(ValueError, match="did you mean 'get_product'"):
        FakeTransport().answer(cast("Any", "get_prodct"))


def test_a_broken_connection_is_retried_and_in_the_end_raised() -> None:
    fake = FakeTransport()
    fake.disconnect("create_order")
    with pytest.raises(ConnectionFailed) as failed:
        fake.client(retries=1).orders.create(line_items=[])
    first, second = fake.requests_of("create_order")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == failed.value.idempotency_key


def test_raw_content_answers_in_another_format(tmp_path: Path) -> None:
    fake = FakeTransport()
    fake.answer("list_products", content=b"id,name\n1,Mug\n", headers={"content-type": "text/csv"})
    fake.client().products.export().to_file(tmp_path / "all.csv", "csv")
    assert (tmp_path / "all.csv").read_text() == "id,name\n1,Mug\n"


def test_an_app_that_makes_its_own_client_gets_a_token() -> None:
    fake = FakeTransport()
    with httpx.Client(transport=fake) as http:
        client = Client("https://shop.example.com", client_id="a", client_secret="b", http=http)
        assert client.webhooks.list().first() is not None
    assert fake.requests[0].headers["authorization"] == "Bearer test"
    with pytest.raises(LookupError, match="GET /unknown"):
        fake.client().request("GET", "/unknown")


@pytest.mark.parametrize("app_secret", [False, True])
def test_a_signed_delivery_has_the_headers_of_the_service(app_secret: bool) -> None:
    event = example_event("product.updated")
    signed = webhooks.sign(event, SECRET, app_secret=app_secret, now=1_700_000_000)
    store = event["store"]["id"] if app_secret else None
    expected = signed_headers([key_of(SECRET)], event["id"], 1_700_000_000, signed.body, store)
    assert signed.headers == {"content-type": "application/json", **expected}
    verified = webhooks.verify(signed.body, signed.headers, SECRET, now=1_700_000_000)
    assert verified.type == "product.updated"
    again = webhooks.sign(verified, SECRET, now=1_700_000_000)
    assert json.loads(again.body)["id"] == event["id"]


def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    """The Python blocks of testing-an-app.md are one file of tests, which needs no service."""
    program = "\n".join(block.text for block in blocks(GUIDES / "testing-an-app.md", "python"))
    (tmp_path / "test_guide.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", tmp_path]
    run = subprocess.run([*command, "test_guide.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "3 passed" in run.stdout


@pytest.mark.parametrize("given", ["../webhooks/9", "7/variants/8", "7?x=1", "7#"])
def test_an_id_from_outside_reaches_no_other_resource(given: str) -> None:
    outside: Any = given
    fake = FakeTransport()
    with fake.client() as client:
        client.products.delete(outside)
        client.products.imports.wait(given)
        list(client.webhooks.deliveries.feed(outside, wait_s=0))
    asked = [(request.operation, *request.parameters.values()) for request in fake.requests]
    expected = ("delete_product", given), ("get_product_import", given), ("list_webhook_deliveries", given)
    assert set(asked) == set(expected)


@pytest.mark.parametrize("given", ["", ".", ".."])
def test_a_path_is_no_id(given: str) -> None:
    outside: Any = given
    with FakeTransport().client() as client, pytest.raises(ValueError, match="is not an id"):
        client.products.get(outside)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_express_clears_no_field(value: float) -> None:
    fake = FakeTransport()
    with fake.client() as client:
        with pytest.raises(ValueError, match="is not a value of a field"):
            client.products.update(7, weight=value)
        with pytest.raises(ValueError, match="is not a value of a field"):
            client.products.imports.create([{"sku": "MUG", "weight": value}])
    assert fake.requests == []


def test_a_decimal_is_sent_without_an_exponent() -> None:
    fake = FakeTransport()
    with fake.client() as client:
        client.products.create(name="Mug", price=Decimal("10.00").normalize(), variants=[{"price": Decimal("1E+2")}])
        client.products.list(price_gte=Decimal("1E+1")).page()
        client.products.imports.create([{"sku": "MUG", "price": Decimal("1E+1")}])
    made, listed, imported = fake.requests
    assert made.body == {"name": "Mug", "price": "10", "variants": [{"price": "100"}]}
    assert listed.query["price[gte]"] == "10"
    assert imported.body == b'{"sku":"MUG","price":"10"}\n'


@pytest.mark.parametrize("key", ["", "a b", "caf\u00e9", "a\nb", "a\n", "x" * 256])
def test_an_invalid_idempotency_key_is_refused_before_anything_is_sent(key: str) -> None:
    fake = FakeTransport()
    with fake.client() as client:
        with pytest.raises(ValueError, match="1 to 255 visible ASCII characters"):
            client.products.create(name="Mug", price="1.00", idempotency_key=key)
        client.products.delete(1, idempotency_key="x" * 255)
    assert [request.operation for request in fake.requests] == ["delete_product"]


async def test_a_request_takes_a_path_with_and_without_its_first_slash() -> None:
    fake = FakeTransport()
    with fake.client() as client:
        assert client.request("GET", "products") == client.request("GET", "/products")
    async with AsyncClient("https://shop.example.com", token="t", http=httpx.AsyncClient(transport=fake)) as client:
        await client.request("GET", "products")
    assert [request.operation for request in fake.requests] == ["list_products"] * 3
