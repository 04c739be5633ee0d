"""A temporary demo with its receivers of webhooks and mail, and the browser that looks at it."""

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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.chromium import ARGUMENTS, PATHS
from tests.support.smtp import MailboxServer

SHOWN = "http://localhost:8000"  # the address on the pages, which should be the default one
PATIENCE_S = 300  # also on a busy machine
UNDELIVERABLE = "gone@example.com"
LOOPBACK = "localhost,127.0.0.0/8,::1"  # where the receivers are; a demo allows it


class Demo(msgspec.Struct):
    """A running demo: its data folder, its address, the password of its account, and the address of a receiver."""

    folder: Path
    url: str
    password: str
    hook: str


@contextmanager
def running_demo() -> Generator[Demo]:
    with tempfile.TemporaryDirectory(prefix="stoa-pictures-") as name, _mailbox() as mail_url, _receiver() as hook:
        folder, port = Path(name), _free_port()
        settings = {
            "STOA_DATA_DIR": name,
            "STOA_PUBLIC_URL": SHOWN,
            "STOA_METRICS": "off",
            "STOA_LOG_LEVEL": "error",
            "STOA_SIGN_UP": "open",
            "STOA_SMTP_URL": mail_url,
            "STOA_MAIL_FROM": "Stoa <noreply@example.com>",
        }
        command = [sys.executable, "-m", "stoa", "demo", "--port", str(port)]
        signal.signal(signal.SIGTERM, _exit)
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            wait_until(lambda: process.poll() is not None or _is_ready(port), "the demo does not start")
            lines = (folder / "demo.env").read_text().splitlines()
            password = dict(line.split("=", 1) for line in lines)["STOA_PORTAL_PASSWORD"]
            yield Demo(folder, f"http://localhost:{port}", password, hook)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _exit(*_: object) -> None:
    """Exit as on an error, so that the demo is stopped, too."""
    sys.exit("terminated")


def wait_until(done: Any, problem: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit(problem)
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


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


@contextmanager
def _mailbox() -> Generator[str]:
    """A mail server that accepts everything, except for one recipient who does not exist."""
    server, started, loop = MailboxServer(), threading.Event(), asyncio.new_event_loop()
    server.answers[UNDELIVERABLE] = "550 5.1.1 No such mailbox"

    async def serve() -> None:
        async with server.running():
            started.set()
            await asyncio.Event().wait()

    task = loop.create_task(serve())

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    yield server.url()
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


@contextmanager
def open_browser(demo: Demo) -> Generator[Browser]:
    """A browser in which the demo has the default address, because samples show the address of the page."""
    mapped = f"--host-resolver-rules=MAP {SHOWN.removeprefix('http://')} {demo.url.removeprefix('http://')}"
    path = next((path for path in PATHS if path.exists()), None)
    if path is None:
        sys.exit("Chromium is not installed; on Debian: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, mapped])
        yield browser
        browser.close()


def sign_in(page: Page, email: str, password: str) -> None:
    """Sign in, up to the second step if the account has one."""
    page.goto(f"{SHOWN}/portal/sign-in")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: not url.endswith("/sign-in"))
