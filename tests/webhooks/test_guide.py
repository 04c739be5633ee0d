"""Send every request of the webhooks guide, and run its programs on signed requests and on the feed."""

import asyncio
import base64
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import httpx
import jsonschema
import msgspec
import pytest

import stoa_client
from stoa.api import EVENTS
from stoa.ids import new_id
from stoa.webhooks.api.samples import sample
from stoa.webhooks.api.schemas import schema
from stoa.webhooks.http.message import new_secret, sign
from tests.docs.pages import GUIDES, blocks
from tests.support.shops import MUG, Shop
from tests.webhooks.subscriptions import add_products, route, subscribe

GUIDE = GUIDES / "webhooks.md"
# The values of these fields differ between runs.
VARY = {"id", "webhook_id", "secret", "created_at", "updated_at"}


def masked(value: Any) -> Any:
    """Replace values that differ between runs with "..."; null stays null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else masked(each) for name, each in members}
    return [masked(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


async def test_every_example_matches_the_response(shop: Shop) -> None:
    webhook_id, response, compared = 0, cast("httpx.Response | None", None), 0
    for language, text in blocks(GUIDE, "http", "json"):
        if language == "http":
            line, _, body = text.partition("\n")
            method, path = line.replace("{webhook_id}", str(webhook_id)).split(" ")
            content = {"json": msgspec.json.decode(body)} if body.strip() else {}
            response = await shop.client.request(method, path, **content)
            assert response.status_code in (200, 201), response.text
            if path == "/webhooks":
                webhook_id = response.json()["data"]["id"]
        elif response is not None:
            assert masked(response.json()) == masked(msgspec.json.decode(text))
            response, compared = None, compared + 1
        else:
            shown = msgspec.json.decode(text)
            real = sample(EVENTS[shown["type"]])
            assert shown.pop("data").items() - {("...", "the whole product")} <= real.pop("data").items()
            assert shown == real
            jsonschema.validate(shown, schema(EVENTS[shown["type"]]), cls=jsonschema.Draft202012Validator)
    assert compared == 3


# --- signature verification ------------------------------------------------------------------------------------------

SECRET, OLD_SECRET = new_secret(), new_secret()
BODY = msgspec.json.encode({"name": "Café Mug, 5 €", "note": "line\nbreak 'quoted' $HOME"}) + b" \n"


def signed(secrets: list[str], *, seconds_ago: int = 0) -> dict[str, str]:
    return sign(secrets, new_id("evt"), int(time.time()) - seconds_ago, BODY)


def verified_by_python(secret: str, headers: dict[str, str], body: bytes, _folder: Path) -> bool:
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[0].text, names)  # noqa: S102 - our own page
    return names["verify"](secret, headers, body)


def _run(command: list[str], program: str) -> bool:
    run = subprocess.run([*command, program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() in ("yes", "no")
    return run.stdout.strip() == "yes"


def verified_by_node(secret: str, headers: dict[str, str], body: bytes, _folder: Path) -> bool:
    (program,) = blocks(GUIDE, "javascript")
    given = msgspec.json.encode([secret, headers, base64.b64encode(body).decode()]).decode()
    call = f"const [s, h, b] = {given};\nconsole.log(verify(s, h, Buffer.from(b, 'base64')) ? 'yes' : 'no');"
    return _run(["node", "--input-type=module", "-e"], f"{program.text}\n{call}")


def verified_by_php(secret: str, headers: dict[str, str], body: bytes, _folder: Path) -> bool:
    (program,) = blocks(GUIDE, "php")
    given = base64.b64encode(msgspec.json.encode([secret, headers, base64.b64encode(body).decode()])).decode()
    call = (
        f"[$s, $h, $b] = json_decode(base64_decode('{given}'), true);\n"
        "echo verify($s, $h, base64_decode($b)) ? 'yes' : 'no';"
    )
    return _run(["php", "-r"], program.text.removeprefix("<?php\n") + call)


def verified_by_openssl(secret: str, headers: dict[str, str], body: bytes, folder: Path) -> bool:
    (program,) = [block for block in blocks(GUIDE, "bash") if "openssl" in block.text]
    (folder / "the body").write_bytes(body)
    names = {"ID": "webhook-id", "TIMESTAMP": "webhook-timestamp", "SIGNATURE": "webhook-signature"}
    environment = {
        "SECRET": secret,
        "BODY": "the body",
        "PATH": "/usr/bin:/bin",
        **{name: headers[header] for name, header in names.items()},
    }
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", program.text],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return {"genuine": True, "forged": False}[run.stdout.strip()]


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


PROGRAMS = [
    pytest.param(verified_by_python, id=f"python {sys.version_info.major}"),
    pytest.param(verified_by_node, id="javascript", marks=needs("node")),
    pytest.param(verified_by_php, id="php", marks=needs("php")),
    pytest.param(verified_by_openssl, id="openssl", marks=needs("openssl")),
]


@pytest.mark.parametrize("verifies", PROGRAMS)
def test_a_verification_program_rejects_forgeries(verifies: Any, tmp_path: Path) -> None:
    headers = signed([SECRET])
    assert verifies(SECRET, headers, BODY, tmp_path)
    assert not verifies(SECRET, headers, BODY.replace(b"5", b"6"), tmp_path)
    assert not verifies(OLD_SECRET, headers, BODY, tmp_path)
    assert not verifies(SECRET, headers | {"webhook-id": new_id("evt")}, BODY, tmp_path)
    assert not verifies(SECRET, headers | {"webhook-signature": "v1,"}, BODY, tmp_path)


@pytest.mark.parametrize("verifies", PROGRAMS)
def test_a_verification_program_accepts_both_secrets_during_a_rotation(verifies: Any, tmp_path: Path) -> None:
    headers = signed([SECRET, OLD_SECRET])
    assert verifies(SECRET, headers, BODY, tmp_path)
    assert verifies(OLD_SECRET, headers, BODY, tmp_path)


@pytest.mark.parametrize("verifies", PROGRAMS[:3])
def test_a_verification_program_rejects_old_timestamps(verifies: Any, tmp_path: Path) -> None:
    assert not verifies(SECRET, signed([SECRET], seconds_ago=400), BODY, tmp_path)
    headers = signed([SECRET])
    assert not verifies(SECRET, headers | {"webhook-timestamp": "soon"}, BODY, tmp_path)


@pytest.mark.parametrize("verifies", PROGRAMS[:3])
def test_a_verification_program_rejects_whatever_a_stranger_sends(verifies: Any, tmp_path: Path) -> None:
    headers = signed([SECRET])
    for name in headers:
        for text in ("", "\u00b2", "\u0663", "9" * 400, "9" * 5000, "v1,\u00e9"):
            assert not verifies(SECRET, headers | {name: text}, BODY, tmp_path), (name, text)
        assert not verifies(SECRET, {each: headers[each] for each in headers if each != name}, BODY, tmp_path)


@pytest.mark.parametrize("verifies", PROGRAMS[:3])
def test_a_verification_program_rejects_ids_with_periods(verifies: Any, tmp_path: Path) -> None:
    headers = sign([SECRET], "install.stoa_ci_1.demo", int(time.time()), BODY)
    assert not verifies(SECRET, headers, BODY, tmp_path)


@pytest.mark.parametrize("verifies", PROGRAMS)
def test_a_signed_event_of_the_guide_passes_every_verification(verifies: Any, tmp_path: Path) -> None:
    (program,) = [block for block in blocks(GUIDE, "python") if "def signed(" in block.text]
    names: dict[str, Any] = {}
    exec(program.text, names)  # noqa: S102 - our own page
    event = sample(EVENTS["product.updated"])
    headers, body = names["signed"](SECRET, event)
    assert verifies(SECRET, headers, body, tmp_path)
    assert not verifies(SECRET, headers, body + b" ", tmp_path)
    assert stoa_client.verify(body, headers, SECRET).id == event["id"]


# --- the feed ---------------------------------------------------------------------------------------------------------


class Enough(Exception):
    """Ends the guide's endless loop."""


class Bridge(httpx.BaseTransport):
    """Forwards requests from a thread to the service in this process."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self._loop = client, asyncio.get_running_loop()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        response = asyncio.run_coroutine_threadsafe(self._client.request(request.method, path), self._loop).result(30)
        return httpx.Response(response.status_code, content=response.content)


async def test_the_feed_loop_receives_every_event(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    await add_products(shop, *"ABC")
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[2].text, names)  # noqa: S102 - our own page
    handled: list[str] = []

    def handle(event: dict[str, Any]) -> None:
        handled.append(event["data"]["name"])
        if event["data"]["name"] == "E":
            raise Enough

    with httpx.Client(transport=Bridge(shop.client), base_url="http://localhost") as api:
        loop = asyncio.create_task(asyncio.to_thread(names["follow"], api, hook["id"], 0, handle))
        await add_products(shop, *"DE")
        with pytest.raises(Enough):
            await loop
    assert handled == [*"ABCDE"]


# --- repeats ----------------------------------------------------------------------------------------------------------


async def test_the_receiver_handles_each_event_once_though_several_share_a_version(shop: Shop) -> None:
    hook = await subscribe(shop, url=None, events=["order.*"])
    await shop.add(MUG | {"stock": {"on_hand": 9}})
    order = (await shop.client.post("/orders", json={"line_items": [{"sku": "MUG-1", "quantity": 1}]})).json()["data"]
    both = {"status": "processing", "payment_status": "paid"}
    changed = (await shop.client.put(f"/orders/{order['id']}/status", json=both)).json()["data"]
    await route(shop)
    query = {"after": 0, "include": "payload"}
    page = (await shop.client.get(f"/webhooks/{hook['id']}/deliveries", params=query)).json()["data"]
    events = [delivery["payload"] for delivery in page]
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[1].text, names)  # noqa: S102 - our own page
    handled: set[str] = set()
    copies: dict[tuple[str, int], dict[str, Any]] = {}
    newest_first = sorted(events, key=lambda event: -event["resource"]["version"])
    done = [event["type"] for event in [*newest_first, *events] if names["receive"](event, handled, copies)]
    assert sorted(done) == [
        "order.created",
        "order.payment_recorded",
        "order.payment_status_changed",
        "order.status_changed",
    ]
    assert len({event["resource"]["version"] for event in events}) == 2, "three of the four events share a version"
    assert copies["order", order["id"]] == {"version": changed["version"], "data": events[-1]["data"]}
    assert copies["order", order["id"]]["data"]["payment_status"] == "paid"
