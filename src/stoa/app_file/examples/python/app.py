"""Receives the events of all stores that install the app, and verifies each of them before it uses it.

Run it with `python app.py`, in the folder of the file `.env`.
"""

import os
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from stoa_client import SignatureRefused, verify

LARGEST = 1024 * 1024
pairs = (line.partition("=") for line in Path(".env").read_text(encoding="utf-8").splitlines())
settings = {name: value for name, _, value in pairs} | os.environ
SECRET = settings["STOA_WEBHOOK_SECRET"]  # one secret for all stores; `stoa app push` writes it to .env
PORT = int(settings.get("PORT", "3000"))


def receive(body: bytes, headers: dict[str, str]) -> int:
    """The status to answer with. Stoa sends the event again after any status but 2xx."""
    try:
        event = verify(body, headers, SECRET)
    except SignatureRefused as error:
        print(f"refused: {error}", flush=True)
        return 400
    store = event.store.handle if event.store else ""
    print(f"verified {event.id}: {event.type} on {store}", flush=True)
    return 204


class Receiver(BaseHTTPRequestHandler):
    timeout = 30  # for a connection that is cut while the body arrives

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if size.isdecimal() and int(size) <= LARGEST:
            status = receive(self.rfile.read(int(size)), dict(self.headers))
        else:
            status = 413
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """No log line for each request."""


if __name__ == "__main__":
    server = HTTPServer(("localhost", PORT), Receiver)
    print(f"listening at http://localhost:{PORT}/stoa", flush=True)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
