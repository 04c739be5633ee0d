"""The tasks of the documentation: their examples work in the order of an order's life, and end as their samples show."""

from stoa.openapi_examples.orders import responses
from stoa.orders.examples import NEW_ORDER, STATUS_CHANGE
from stoa.orders.status import TASKS
from stoa.products.examples import NEW_SHIRT
from tests.support.shops import Shop


async def test_the_examples_of_the_tasks_do_what_they_say(shop: Shop) -> None:
    assert (await shop.client.post("/products", json=NEW_SHIRT)).status_code == 201
    samples = responses()
    for task in TASKS:
        placed = await shop.client.post(
            "/orders", json={**NEW_ORDER, "customer": {"email": f"{task.name}@example.com"}}
        )
        assert placed.status_code == 201, placed.text
        address = f"/orders/{placed.json()['data']['id']}/status"
        if task.name != "take_payment":
            assert (await shop.client.put(address, json=STATUS_CHANGE)).status_code == 200
        done = await shop.client.put(address, json=dict(task.example))
        assert done.status_code == 200, done.text
        order, shown = done.json()["data"], samples[task.name]["data"]
        for field in (
            "status",
            "payment_status",
            "fulfillment_status",
            "amount_paid",
            "amount_refunded",
            "amount_due",
            "balance",
        ):
            assert order[field] == shown[field], (task.name, field)
        for field in ("payments", "refunds", "fulfillments"):
            assert len(order[field]) == len(shown[field]), (task.name, field)
