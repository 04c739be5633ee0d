"""The receivers to download: the files as the page offers them run, verify events and refuse forgeries."""

import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from stoa.portal.apps.receivers import OF_APP, OF_SUBSCRIPTION, receivers
from tests.generated.node import NODE, needs_npm
from tests.portal.installed_app import InstalledApp
from tests.support.service import free_port, until

SECRETS = [f"whsec_{base64.b64encode(hashlib.sha256(word).digest()).decode()}" for word in (b"new", b"old")]
Prepared = Callable[[Path, str], list[str]]


def _python(folder: Path, code: str) -> list[str]:
    (folder / "receiver.py").write_text(code)
    return [sys.executable, "-W", "error", str(folder / "receiver.py")]


def _typescript(folder: Path, code: str) -> list[str]:
    (folder / "receiver.ts").write_text(code)
    return [str(NODE), str(folder / "receiver.ts")]


def signed(secret: str, body: bytes, event_id: str, at: float) -> dict[str, str]:
    content = f"{event_id}.{int(at)}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256)
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": event_id, "webhook-timestamp": str(int(at)), "webhook-signature": signature}


@pytest.mark.parametrize(
    ("number", "prepare"),
    [pytest.param(0, _python, id="python"), pytest.param(1, _typescript, id="typescript", marks=needs_npm)],
)
def test_a_receiver_verifies_handles_once_and_refuses_forgeries(tmp_path: Path, number: int, prepare: Prepared) -> None:
    port = free_port()
    receiver = receivers(OF_APP, port)[number]
    assert OF_SUBSCRIPTION not in receiver.code
    command, log = prepare(tmp_path, receiver.code), tmp_path / "log"
    environment = {"PATH": os.environ["PATH"], OF_APP: ",".join(SECRETS)}
    body = json.dumps({"type": "order.created", "resource": {"id": 7}}).encode()
    url, now = f"http://localhost:{port}/", time.time()
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            until(lambda: _status(url, b"", {}) is not None, "the receiver listens")
            for secret in SECRETS:
                assert _status(url, body, signed(secret, body, "evt_1", now)) == 204
            assert _status(url, body, signed(SECRETS[0], b"other", "evt_2", now)) == 400, "another body"
            assert _status(url, body, signed("whsec_" + "A" * 43 + "=", body, "evt_3", now)) == 400, "another secret"
            assert _status(url, body, signed(SECRETS[0], body, "evt_4", now - 400)) == 400, "too old"
            of_install = signed(SECRETS[0], body, "install.stoa_ci_1.demo", now)
            assert _status(url, body, of_install) == 400, "the signature of a return from an install link"
            digits = {**signed(SECRETS[0], body, "evt_5", now), "webhook-timestamp": "9" * 5000}
            letters = {**signed(SECRETS[0], body, "evt_6", now), "webhook-signature": f"v1,{'é' * 22}"}
            for headers in (
                {},
                {"webhook-id": "x", "webhook-timestamp": "²", "webhook-signature": "v1,é v2,x"},
                digits,
                letters,
            ):
                assert _status(url, body, headers) == 400
            assert _status(url, b"x" * (1024 * 1024 + 1), {}) in (413, None)
        finally:
            process.terminate()
            process.wait(timeout=10)
    assert re.findall(r"verified .*", log.read_text()) == ["verified order.created 7"], log.read_text()


def _status(url: str, body: bytes, headers: dict[str, str]) -> int | None:
    try:
        raw = {name.encode(): value.encode() for name, value in headers.items()}
        return httpx.post(url, content=body, headers=raw, timeout=20).status_code
    except httpx.TransportError:
        return None


@pytest.mark.parametrize(
    ("number", "prepare"),
    [pytest.param(0, _python, id="python"), pytest.param(1, _typescript, id="typescript", marks=needs_npm)],
)
def test_a_receiver_without_a_secret_says_which_variable_to_set(tmp_path: Path, number: int, prepare: Prepared) -> None:
    command = prepare(tmp_path, receivers(OF_APP, 1)[number].code)
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert f"set {OF_APP} to the secret" in done.stderr


async def test_the_page_offers_files_with_the_right_variable_and_no_secret(app: InstalledApp) -> None:
    user = app.user
    for query, variable, port in (("", OF_SUBSCRIPTION, 8787), ("?of=app&port=3001", OF_APP, 3001)):
        await user.open(f"{app.path}/receivers{query}")
        links = re.findall(r'href="data:text/plain;charset=utf-8,([^"]+)" download="([^"]+)"', user.text)
        assert [(unquote(code), file) for code, file in links] == [
            (each.code, each.file) for each in receivers(variable, port)
        ]
        for code, _ in links:
            assert variable in unquote(code)
            assert f'"{port}"' in unquote(code)
            assert ({OF_APP, OF_SUBSCRIPTION} - {variable}).pop() not in unquote(code)
    for port in ("0", "70000", "x", "-1", "%00", "9" * 30):
        await user.open(f"{app.path}/receivers?port={port}")
        assert '"8787"' in user.text
    webhook_id = await app.add_deliveries()
    await user.open(app.hook(webhook_id))
    assert f'href="{app.path}/receivers?port=8787"' in user.text
