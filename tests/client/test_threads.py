"""Twelve threads use the SDK for the first time in their process, all at once."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stoa_client

# Each run is a process of its own, forked before the first use, so that it starts with types that nobody has used.
PROGRAM = """
import os, sys, threading, time
import base64, hashlib, hmac, json
import httpx
from stoa_client import Client, models, verify

PRODUCT = {"id": 1, "name": "Mug", "price": "1.00", "variants": [{"id": 2, "sku": "M"}], "version": 1}
KEY = b"k" * 32

def answer(request):
    return httpx.Response(200, json={"data": PRODUCT, "meta": {}})

def call(client):
    assert client.products.get(1).name == "Mug"

def receive(_client):
    body = json.dumps({"id": "1", "type": "product.created", "timestamp": "2026-01-01T00:00:00Z", "data": PRODUCT}).encode()
    stamp = str(int(time.time()))
    signature = base64.b64encode(hmac.digest(KEY, f"1.{stamp}.".encode() + body, hashlib.sha256)).decode()
    headers = {"webhook-id": "1", "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}
    secret = "whsec_" + base64.b64encode(KEY).decode()
    assert verify(body, headers, secret).read(models.Product).name == "Mug"

def first_use(use):
    sys.setswitchinterval(1e-6)
    client = Client("http://localhost", token="t", http=httpx.Client(transport=httpx.MockTransport(answer)))
    start, done = threading.Barrier(12), []
    def work():
        start.wait()
        use(client)
        done.append(True)
    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0 if len(done) == 12 else 1)

codes_of_runs = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        first_use({"call": call, "receive": receive}[sys.argv[1]])
    codes_of_runs.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes_of_runs))
"""


@pytest.mark.parametrize("use", ["call", "receive"])
def test_the_first_use_by_twelve_threads_at_once_does_not_crash_the_process(use: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, use, "80"], capture_output=True, text=True, check=False, timeout=100
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [0] * 80, run.stderr


def test_types_are_described_in_one_place() -> None:
    direct = re.compile(r"msgspec\.(convert|json\.decode|json\.Decoder)\(")
    found = {file.name for file in Path(stoa_client.__file__).parent.glob("*.py") if direct.search(file.read_text())}
    assert found == {"decoding.py"}
