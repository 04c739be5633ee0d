"""Receives events over HTTP and prints each of them once.

    STOA_WEBHOOK_SECRET=whsec_... PORT=3000 python webhook_receiver.py

During a rotation, set `STOA_WEBHOOK_SECRET` to both secrets, separated by a comma.
"""

import os
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stoa_client import Event, SignatureRefused, models, verify

LARGEST = 1024 * 1024
SECRETS = [secret for secret in os.environ.get("STOA_WEBHOOK_SECRET", "").split(",") if secret]
handled: set[str] = set()  # in an app, a table with a unique index on the event id
lock = threading.Lock()


def handle(event: Event) -> None:
    if event.type == "order.created" and event.data:
        order = event.read(models.Order)
        print(f"order {order.number}: {order.total}", flush=True)
    elif event.type in ("product.inventory_changed", "product.low_stock") and event.data:
        variant = event.read(models.Variant)
        print(f"stock of {variant.sku}: {variant.stock.available} available", flush=True)
    else:  # later releases may add events
        print(event.type, event.resource and event.resource.id, flush=True)


class Receiver(BaseHTTPRequestHandler):
    """Answers with 2xx only after an event was handled: Stoa sends it again after any other status."""

    timeout = 30  # for a connection that is cut while the body arrives

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > LARGEST:
            self.answer(413)
            return
        body = self.rfile.read(int(size))  # the signature covers exactly these bytes
        try:
            event = verify(body, dict(self.headers), SECRETS)
        except SignatureRefused:
            self.answer(400)
            return
        with lock:
            if event.id not in handled:
                handle(event)
                handled.add(event.id)  # only after it was handled: an event that fails is sent again
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """No log line for each request."""


def main() -> None:
    if not SECRETS:
        sys.exit("set STOA_WEBHOOK_SECRET to the secret of the subscription")
    server = ThreadingHTTPServer(("localhost", int(os.environ.get("PORT", "3000"))), Receiver)
    print("ready", flush=True)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
