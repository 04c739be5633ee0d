"""Receives events of Stoa and prints each of them once. It needs only Python.

    STOA_WEBHOOK_SECRET=whsec_... python3 receiver.py

During a rotation, set STOA_WEBHOOK_SECRET to both secrets, separated by a comma.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST, PORT = os.environ.get("HOST", "localhost"), int(os.environ.get("PORT", "8787"))
SECRETS = [each for each in os.environ.get("STOA_WEBHOOK_SECRET", "").split(",") if each]
LARGEST, TOLERANCE_S = 1024 * 1024, 300
handled: set[str] = set()  # in an app, a table with a unique index on the event id
lock = threading.Lock()


def handle(event: dict[str, Any]) -> None:
    """Your code. Ignore types that you do not know: later releases may add events."""
    resource: dict[str, Any] = event.get("resource") or {}
    print("verified", event["type"], resource.get("id"), flush=True)


def is_signed(body: bytes, event_id: str, timestamp: str, signatures: str) -> bool:
    """Check the signature over exactly the bytes that arrived, and that they are not old."""
    if "." in event_id:  # Stoa also signs other texts with the secret of an app
        return False
    if not re.fullmatch("[0-9]{1,15}", timestamp) or abs(time.time() - int(timestamp)) > TOLERANCE_S:
        return False
    content = f"{event_id}.{timestamp}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in SECRETS]
    expected = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)) for key in keys]
    given = [each.removeprefix("v1,").encode() for each in signatures.split() if each.startswith("v1,")]
    return any(hmac.compare_digest(one, other) for one in expected for other in given)


class Receiver(BaseHTTPRequestHandler):
    """Answers with 2xx only after an event was handled: Stoa sends it again after any other status."""

    timeout = 30  # for a connection that is cut while the body arrives

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,15}", size) or int(size) > LARGEST:
            self.answer(413)
            return
        body = self.rfile.read(int(size))
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        event_id, timestamp, signatures = (self.headers.get(name, "") for name in names)
        if not is_signed(body, event_id, timestamp, signatures):
            print("REFUSED: the signature is invalid", flush=True)
            self.answer(400)
            return
        with lock:
            if event_id not in handled:
                handle(json.loads(body))
                handled.add(event_id)  # only after it was handled: an event that fails is sent again
            else:
                print("repeated", json.loads(body)["type"], event_id, flush=True)
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    if not SECRETS:
        sys.exit("set STOA_WEBHOOK_SECRET to the secret of the subscription")
    ThreadingHTTPServer((HOST, PORT), Receiver).serve_forever()
