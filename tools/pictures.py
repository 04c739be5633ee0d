"""Takes the screenshots of the README from a temporary demo: `make pictures`."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec
from playwright.sync_api import Page, sync_playwright

from stoa.access.grants import install
from stoa.access.operator import Operator, find_store
from stoa.accounts.contract import OwnedApp
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import owned_app, register_app
from stoa.accounts.registration import find_account
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.pool import Database
from stoa.demo.run import EMAIL
from stoa.settings import load
from stoa.usage.queries import ADD_DAYS
from stoa.usage.rules import COUNTERS
from stoa_client import Client

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"
SIZE: Any = {"width": 1180, "height": 760}
LARGEST = 120_000
SHOWN = "http://localhost:8000"
PATIENCE_S = 120

APP, ASKING = "Stock sync", "Parcel post"
REASONS = {
    "products:read": "To show your goods in the warehouse.",
    "orders:write": "To pick, pack and ship what was ordered.",
    "webhooks:write": "To receive each order as it comes.",
}
PARCELS = {
    "orders:write": "To mark what has left the house as shipped.",
    "customers:read": "To print the address on the parcel.",
}
WORDS = "We bring your parcels within two days. Your neighbours at Atelier use us, too."
ORDERS = ("TS-LIN-S-NAT", "MG-CAF-MOS", "BD-OLV-45", "KN-MER-M-OAT", "KT-ENM-CRM", "MG-CAF-INK")
# Sample usage by endpoint: requests on a working day, and the milliseconds that most of them take.
USAGE = {"list_products": (640, 10), "get_order": (310, 5), "create_order": (90, 20), "update_order_status": (75, 20)}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stoa-pictures-") as name:
        folder = Path(name)
        port = _free_port()
        with _demo(folder, port) as password, _receiver() as hook:
            app_id, secret = asyncio.run(_add_apps(folder))
            webhook_id = _place_orders(f"http://localhost:{port}", *secret, hook)
            _take(port, password, app_id, webhook_id)
    for file in sorted(PICTURES.glob("*.png")):
        size = file.stat().st_size
        click.echo(f"{file.name}: {size:,} bytes")
        if size >= LARGEST:
            sys.exit(f"{file.name} is larger than {LARGEST:,} bytes")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def _demo(folder: Path, port: int) -> Generator[str]:
    """A temporary demo; yields the password of its account."""
    # The pages show this URL, which should be the default one.
    settings = {
        "STOA_DATA_DIR": str(folder),
        "STOA_PUBLIC_URL": SHOWN,
        "STOA_METRICS": "off",
        "STOA_LOG_LEVEL": "error",
    }
    command = [sys.executable, "-m", "stoa", "demo", "--port", str(port)]
    process = subprocess.Popen(  # noqa: S603 - a fixed command
        command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the demo does not start")
            time.sleep(0.2)
        lines = (folder / "demo.env").read_text().splitlines()
        yield dict(line.split("=", 1) for line in lines)["STOA_PORTAL_PASSWORD"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://localhost:{port}/ready").status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _receiver() -> Generator[str]:
    """A webhook receiver that fails for comments."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(502 if b'"order.comment_created"' in body else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/stoa"
    server.shutdown()


async def _add_apps(folder: Path) -> tuple[int, tuple[str, str]]:
    """Add an app with a month of usage, and another one that requests installation."""
    url = EmbeddedPostgres(folder / "postgres").dsn
    db = Database(url, size=2)
    by = Operator(db, load({}, database_url=url, data_dir=folder), actor="operator:demo", request_id="req_pictures")
    me = (await find_account(db, EMAIL)).id
    made = await register_app(by, me, APP, "https://sync.example.com", REASONS, f"{me}:pictures")
    await install(by, made.client_id, "demo")
    second = await register_app(by, me, ASKING, "https://parcels.example.com", PARCELS, f"{me}:asking")
    asking = await owned_app(db, me, second.app_id)
    assert isinstance(asking, OwnedApp)  # noqa: S101 - it was registered a line above
    await request_install(by, me, asking, "demo", WORDS)
    await ADD_DAYS.run(db, msgspec.json.encode(_month((await find_store(db, "demo")).id, made.app_id)).decode())
    await db.close()
    return made.app_id, (made.client_id, made.client_secret)


def _month(store_id: int, app_id: int) -> list[dict[str, Any]]:
    """Usage of thirty days with quiet weekends, slow growth and one bad day."""
    today, rows = datetime.now(UTC), list[dict[str, Any]]()
    for ago in range(1, 31):
        day = today - timedelta(days=ago)
        factor = (0.45 if day.weekday() >= 5 else 1) * (1.25 - ago / 60) * (0.9 + (ago * 7 % 5) / 20)
        bad = ago == 9
        for operation, (usual, fast) in USAGE.items():
            number = int(usual * factor)
            slow = number // (6 if bad else 40)
            figures = {**dict.fromkeys(COUNTERS, 0), "requests": number, f"ms_{fast}": number - slow, "ms_100": slow}
            figures |= {
                "client_errors": number // 90,
                "server_errors": 9 if bad else 0,
                "rate_limited": 14 if bad else 0,
                "total_us": ((number - slow) * int(fast) + slow * 70) * 1000,
            }
            rows.append({"store_id": store_id, "app_id": app_id, "day": f"{day:%Y-%m-%d}", "operation": operation, **figures})  # fmt: skip
    return rows


def _place_orders(service: str, client_id: str, client_secret: str, hook: str) -> int:
    """Place some orders and wait for their deliveries; returns the id of the subscription."""
    with Client(f"{service}/stores/demo", client_id=client_id, client_secret=client_secret) as stoa:
        made = stoa.webhooks.create(name="Orders to the warehouse", url=hook, events=["order.*"])
        for number, sku in enumerate(ORDERS):
            line: Any = {"sku": sku, "quantity": 1 + number % 2}
            order = stoa.orders.create(line_items=[line], customer={"email": f"guest-{number}@example.com"})
            if number % 2 == 0:
                stoa.orders.update_status(order.id, status="processing")
            if number == 3:
                stoa.orders.comments.create(order.id, body="Leave it with the neighbours.")
        deadline = time.monotonic() + PATIENCE_S
        while any(each.attempt_count == 0 for each in stoa.webhooks.deliveries.list(made.id)):
            if time.monotonic() > deadline:
                sys.exit("the deliveries do not arrive")
            time.sleep(0.2)
    return made.id


def _take(port: int, password: str, app_id: int, webhook_id: int) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    portal, docs = f"{SHOWN}/portal", f"{SHOWN}/docs"
    with sync_playwright() as playwright:
        # Samples show the address of the page, which should be the default one.
        mapped = f"--host-resolver-rules=MAP {SHOWN.removeprefix('http://')} localhost:{port}"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", mapped])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{portal}/sign-in")
        page.get_by_label("Email").fill(EMAIL)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Welcome").wait_for()
        _picture(page, f"{portal}/apps/{app_id}", "app")
        _picture(page, f"{portal}/apps/{app_id}/webhooks/demo/{webhook_id}/deliveries", "deliveries")
        _picture(page, f"{portal}/apps/{app_id}/usage?days=30", "usage")
        _picture(page, f"{portal}/stores/demo", "consent")
        page.set_viewport_size(
            {"width": SIZE["width"], "height": 480}
        )  # code has many colors, and the file would be too large
        page.goto(f"{docs}/products/create_product")
        page.get_by_role("tab", name="TypeScript").click()
        page.screenshot(path=PICTURES / "reference.png")
        browser.close()


def _picture(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
