"""`python -m benchmarks.matching`: the CPU that the router needs to match an event with a subscription, by kind of rule.

All kinds take turns. Values are converted by name, so an older revision, which lacks some of them, runs the same file.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from stoa.products.events import ProductUpdated
from stoa.webhooks.delivery.matching import match
from stoa.webhooks.delivery.queries import Subscription
from stoa.webhooks.http.message import AddressedEvent

STORES, EVENTS, SUBSCRIPTIONS, ROUNDS = 20, 10, 10, 30
PRODUCT: dict[str, Any] = {
    "id": 1,
    "name": "Washed linen shirt",
    "description": "x" * 800,
    "price": "59.00",
    "tags": ["summer", "linen"],
    "metadata": {"material": "linen"},
    "variants": [
        {"id": n, "sku": f"SKU-{n}", "price": "59.00", "stock": {"on_hand": n, "available": n}} for n in range(8)
    ],
}
# What a filter has to read to send only some events, and the `changed` that reads only the recorded changes.
KINDS: dict[str, dict[str, Any]] = {
    "no rule": {},
    "filter": {"filter": '{"metadata.material":"linen"}'},
    "changed, sent": {"changed": ["price"]},
    "changed, not sent": {"changed": ["description", "metadata.season"]},
    "changed within a list": {"changed": ["variants.price"]},
}


def events() -> list[AddressedEvent]:
    """Changes of prices, of some events in each store."""
    changes = {"price": ["49.00", "59.00"], "variants": [[{**PRODUCT["variants"][0], "price": "49.00"}], [PRODUCT["variants"][0]]]}  # fmt: skip
    actor = {"type": "app", "app_id": 9, "name": "Prices", "email": None, "account_id": None}
    values: dict[str, Any] = {
        "type": ProductUpdated.name,
        "resource_type": ProductUpdated.resource_type,
        "resource_id": 1,
        "resource_version": 2,
        "actor": msgspec.json.encode(actor).decode(),
        "changes": msgspec.json.encode(changes).decode(),
        "data": msgspec.json.encode(PRODUCT).decode(),
        "created_at": datetime.now(UTC),
        "parent_version": None,
        "app_views": None,
        "audience": None,
    }
    return [
        msgspec.convert({**values, "store_id": store, "id": f"evt_{n}"}, AddressedEvent)
        for store in range(STORES)
        for n in range(EVENTS)
    ]


def subscriptions(rule: dict[str, Any]) -> list[Subscription]:
    values: dict[str, Any] = {
        "events": ["product.*"],
        "filter": "{}",
        "changed": [],
        "skip_own": False,
        "ordered": True,
        "granted_scopes": ["products:read"],
        "of_app": False,
        "url": "https://app.example.com/hooks",
        "payload": "full",
        "fields": [],
        "sealed_headers": None,
        "sealed_secret": b"",
        "sealed_old_secret": None,
        "status": "active",
        "max_in_flight": 10,
        "rate_per_s": None,
        "skip_before": None,
        "ended": False,
        "suspended": False,
        "store_handle": "acme",
        "store_name": "Acme",
        "currency": "USD",
        "timezone": "UTC",
        "locale": "en",
        "managed": False,
        **rule,
    }
    return [
        msgspec.convert({**values, "store_id": store, "id": n, "app_id": n % 3}, Subscription)
        for store in range(STORES)
        for n in range(SUBSCRIPTIONS)
    ]


async def cpu_us(events: Sequence[AddressedEvent], subscriptions: Sequence[Subscription]) -> float:
    """The CPU of one event with one subscription."""
    started = time.process_time()
    await match(events, subscriptions)
    return (time.process_time() - started) / (len(events) * SUBSCRIPTIONS) * 1e6


async def measure(kinds: Sequence[str]) -> dict[str, float]:
    own = events()
    sides = {kind: subscriptions(KINDS[kind]) for kind in kinds}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, each in sides.items():
            found[kind].append(await cpu_us(own, each))
    return {kind: statistics.median(values) for kind, values in found.items()}


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)))
def main(kinds: tuple[str, ...]) -> None:
    """Print the CPU of each kind of rule, and its ratio to a subscription without a rule."""
    found = asyncio.run(measure(kinds or list(KINDS)))
    first = next(iter(found.values()))
    for kind, us in found.items():
        click.echo(f"{kind:22} {us:6.2f} us  {us / first:.2f}")


if __name__ == "__main__":
    main()
