"""Keeps a copy of the stock of a store in `stock.json`: reads it once, then follows the events of a subscription.

Run it with `PORT=3000 python stock_app.py`.
"""

import json
import os
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

from stoa_client import Client, SignatureRefused, models, verify

LARGEST = 1024 * 1024
PORT = int(os.environ.get("PORT", "3000"))
URL = os.environ.get("APP_URL", f"http://localhost:{PORT}/stoa")


class Level(NamedTuple):
    sku: str | None
    available: int
    version: int


stock: dict[int, Level] = {}  # by variant


def store(variant_id: int, level: Level) -> bool:
    """Store a level, unless the copy is as new: an event can arrive late, twice, or after a newer one."""
    if variant_id in stock and stock[variant_id].version >= level.version:
        return False
    stock[variant_id] = level
    return True


def save() -> None:
    levels = {variant_id: level._asdict() for variant_id, level in stock.items()}
    Path("stock.json").write_text(json.dumps(levels, indent=2), encoding="utf-8")


def subscribe() -> str:
    """Subscribe first and read the stock after that, so that no change is lost in between; returns the secret.

    Stoa repeats the events that it sends before this program listens.
    """
    with Client.from_environment() as stoa:
        for old in stoa.webhooks.list():
            if old.url == URL:
                stoa.webhooks.delete(old.id)
        hook = stoa.webhooks.create(name="Stock copy", url=URL, events=["product.inventory_changed"])
        for level in stoa.products.inventory.list(limit=250):
            store(level.variant_id, Level(level.sku, level.stock.available, level.version))
    save()
    return hook.secret


def receive(body: bytes, headers: dict[str, str], secret: str) -> int:
    """The status to answer with. Stoa sends the event again after any status but 2xx."""
    try:
        event = verify(body, headers, secret)
    except SignatureRefused as error:
        print(f"refused: {error}", flush=True)
        return 400
    if event.type == "product.inventory_changed" and event.data:
        variant = event.read(models.Variant)
        level = Level(variant.sku, variant.stock.available, variant.version)
        if store(variant.id, level):
            save()
            print(f"verified {event.id}: {level.sku} has {level.available} available", flush=True)
    return 204


class Receiver(BaseHTTPRequestHandler):
    timeout = 30  # for a connection that is cut while the body arrives
    secret = ""

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if size.isdecimal() and int(size) <= LARGEST:
            status = receive(self.rfile.read(int(size)), dict(self.headers), self.secret)
        else:
            status = 413
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """No log line for each request."""


def main() -> None:
    Receiver.secret = subscribe()
    server = HTTPServer(("localhost", PORT), Receiver)
    print(f"{len(stock)} stock levels in stock.json, listening at {URL}", flush=True)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
