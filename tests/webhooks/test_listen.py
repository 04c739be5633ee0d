"""`stoa listen`: the events of a store, brought to this machine by a real service and a real command."""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from stoa.webhooks.listen import FRESH_S, Store, follow, subscribe, with_fresh_signature
from tests.support.receivers import Received, Receiver, answering
from tests.support.service import PATIENCE_S, STOA, Account, Service, free_port, new_database

NAMES = ("STOA_BASE_URL", "STOA_AUTH_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Service]:
    url = await new_database(f"listen_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("listen"), database_url=url, workers=1) as running:
        yield running


def variables(account: Account) -> dict[str, str]:
    service = account.service.url
    values = (f"{service}/stores/{account.handle}", f"{service}/oauth/token", account.client_id, account.client_secret)
    return dict(zip(NAMES, values, strict=True))


class Listener:
    """A running `stoa listen`, and what it says."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.secret = ""

    async def introduced(self) -> None:
        """Wait until it has subscribed; learn the secret if it says one."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            first = (await self.process.stderr.readline()).decode()
            assert first.startswith("Subscription "), first + (await self.process.stderr.read()).decode()
            told = re.search(r"whsec_\w+", (await self.process.stderr.readline()).decode())
        self.secret = told[0] if told else ""

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def remark(self) -> str:
        """The next line that is not for programs."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stderr.readline()).decode().strip()

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@asynccontextmanager
async def listening(
    given: Mapping[str, str], url: str, *options: str, folder: Path | None = None
) -> AsyncGenerator[Listener]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    process = await asyncio.create_subprocess_exec(
        *STOA, "listen", "--forward-to", url, *options, stdout=PIPE, stderr=PIPE, cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1", **given},
    )  # fmt: skip
    listener = Listener(process)
    try:
        await listener.introduced()
        yield listener
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def add(account: Account, name: str) -> int:
    async with account.client() as client:
        answer = await client.post("/products", json={"name": name, "price": "5.00"})
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["id"]


async def test_each_event_is_posted_on_signed_and_told_in_one_line(service: Service) -> None:
    account = await service.account("one")
    async with Receiver() as receiver, listening(variables(account), receiver.url) as listener:
        mug = await add(account, "Café Mug")
        (got,) = await receiver.until(1)
        event = got.verify(listener.secret)
        assert (event["type"], event["resource"]["id"]) == ("product.created", mug)
        assert event["data"]["name"] == "Café Mug"
        line = await listener.line()
        assert re.fullmatch(rf"\d\d:\d\d:\d\d +1  product\.created +product {mug} +200  \d+ ms", line), line
        assert await listener.stop() == 0
        assert await listener.remark() == "Stopped. Use --after 1 to continue from here."


async def test_lines_for_programs_are_json(service: Service) -> None:
    account = await service.account("two")
    options = ("--json", "--events", "product.deleted,product.updated")
    async with (
        Receiver(answering(500)) as receiver,
        listening(variables(account), receiver.url, *options) as listener,
    ):
        mug = await add(account, "Mug")
        async with account.client() as client:
            await client.delete(f"/products/{mug}")
        told = json.loads(await listener.line())
    assert told | {"time": 0, "ms": 0, "event_id": 0} == {
        "time": 0, "sequence": 1, "event_id": 0, "type": "product.deleted", "resource": f"product {mug}",
        "status": 500, "ms": 0, "error": None,
    }  # fmt: skip


async def test_while_nobody_is_at_the_address_events_wait_in_order(service: Service) -> None:
    account = await service.account("three")
    port = free_port()
    async with listening(variables(account), f"http://127.0.0.1:{port}/hook", "--json") as listener:
        await add(account, "A")
        await add(account, "B")
        said = await listener.remark()
        assert said.startswith(f"http://127.0.0.1:{port}/hook is unreachable (")
        assert said.endswith("; event 1 waits ...")
        async with Receiver(at_port=port) as receiver:
            await receiver.until(2)
            told = [json.loads(await listener.line()) for _ in range(2)]
        assert [(each["sequence"], each["status"], each["error"]) for each in told] == [(1, 200, None), (2, 200, None)]
        assert [each.verify(listener.secret)["data"]["name"] for each in receiver.received] == ["A", "B"]
        await add(account, "C")
        assert (await listener.remark()).endswith("; event 3 waits ...")
        assert await listener.stop() == 0
        assert await listener.remark() == "Stopped. Use --after 2 to continue from here."


async def test_a_program_that_hangs_up_gets_the_event_once_more(service: Service) -> None:
    account = await service.account("hanging-up")
    tries = 0

    async def hang_up_thrice(request: web.Request, _received: Received) -> web.StreamResponse:
        nonlocal tries
        tries += 1
        if tries <= 3 and request.transport is not None:
            request.transport.abort()
        return web.Response()

    async with (
        Receiver(hang_up_thrice) as receiver,
        listening(variables(account), receiver.url, "--json") as listener,
    ):
        await add(account, "A")
        await add(account, "B")
        told = [json.loads(await listener.line()) for _ in range(2)]
    assert [(each["sequence"], each["status"]) for each in told] == [(1, None), (2, 200)]
    assert told[0]["error"]
    assert [each.event["data"]["name"] for each in receiver.received] == ["A", "A", "B", "B"]


async def test_an_event_whose_signature_is_getting_old_is_pulled_once_more(service: Service) -> None:
    account = await service.account("signed-anew")
    with closing(Store(variables(account))) as store:
        webhook, _ = await asyncio.to_thread(subscribe, store, "mine", ["product.*"])
        for name in ("A", "B", "C"):
            await add(account, name)
        events = follow(store, webhook["id"], 0)
        await asyncio.to_thread(next, events)
        item = await asyncio.to_thread(next, events)
        assert with_fresh_signature(store, webhook["id"], item) is item
        item.pulled_at -= FRESH_S
        again = await asyncio.to_thread(with_fresh_signature, store, webhook["id"], item)
    assert (again.sequence, again.event_id) == (2, item.event_id)
    assert again.pulled_at > item.pulled_at
    assert Webhook(webhook["secret"]).verify(bytes(again.payload), again.headers)["data"]["name"] == "B"


async def test_the_next_run_finds_the_subscription_and_begins_with_what_is_new(service: Service) -> None:
    account = await service.account("four")
    async with Receiver() as receiver:
        async with listening(variables(account), receiver.url, "--name", "mine") as listener:
            secret = listener.secret
            await add(account, "A")
            await receiver.until(1)
            await listener.stop()
        async with listening(variables(account), receiver.url, "--name", "mine") as listener:
            assert listener.secret == ""
            await add(account, "B")
            await receiver.until(2)
            await listener.stop()
        async with listening(
            variables(account), receiver.url, "--name", "mine", "--after", "0", "--delete"
        ) as listener:
            await receiver.until(4)
            await listener.stop()
    assert [each.verify(secret)["data"]["name"] for each in receiver.received] == ["A", "B", "A", "B"]
    async with account.client() as client:
        assert (await client.get("/webhooks")).json()["meta"]["total"] == 0


async def test_a_new_secret_is_made_on_request(service: Service) -> None:
    account = await service.account("five")
    async with Receiver() as receiver:
        async with listening(variables(account), receiver.url) as listener:
            first = listener.secret
            await listener.stop()
        async with listening(variables(account), receiver.url, "--new-secret") as listener:
            assert listener.secret not in ("", first)
            await add(account, "A")
            (got,) = await receiver.until(1)
            assert got.verify(listener.secret)


async def test_the_demos_own_file_is_enough(service: Service, tmp_path: Path) -> None:
    account = await service.account("six")
    (tmp_path / ".stoa").mkdir()
    lines = "".join(f"{name}={value}\n" for name, value in variables(account).items())
    (tmp_path / ".stoa/demo.env").write_text(lines)
    async with Receiver() as receiver, listening({}, receiver.url, folder=tmp_path) as listener:
        await add(account, "A")
        assert (await receiver.until(1))[0].verify(listener.secret)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"STOA_CLIENT_SECRET": ""}, "STOA_CLIENT_SECRET must be set"),
        ({"STOA_CLIENT_SECRET": "wrong"}, "The client id or the client secret is incorrect."),
        ({"STOA_BASE_URL": "http://localhost:1/"}, ""),
    ],
)
async def test_what_is_missing_or_wrong_is_one_clear_line(
    service: Service, tmp_path: Path, given: dict[str, str], words: str
) -> None:
    account = await service.account(f"seven-{len(words)}")
    wrong = {**variables(account), **given}
    if not words:
        wrong["STOA_BASE_URL"], words = f"{service.url}/stores/nowhere", "the store or the subscription is gone"
    process = await asyncio.create_subprocess_exec(
        *STOA, "listen", "--forward-to", "http://127.0.0.1:1/", stdout=PIPE, stderr=PIPE, cwd=tmp_path,
        env={**{n: v for n, v in os.environ.items() if not n.startswith("STOA_")}, **wrong},
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == 1
    assert said.decode().startswith("error: ")
    assert words in said.decode()
    assert "Traceback" not in said.decode()


@pytest.mark.timeout(180)
async def test_a_restart_of_the_service_is_waited_for_and_ends_nobodys_listening(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> None:
    url = await new_database(f"restart_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("restart"), database_url=url, workers=1) as service:
        account = await service.account("shop")
        async with Receiver() as receiver, listening(variables(account), receiver.url) as listener:
            await add(account, "A")
            await receiver.until(1)
            assert await asyncio.to_thread(service.stop) == 0
            await asyncio.to_thread(service.start)
            await add(account, "B")
            got = await receiver.until(2, seconds=PATIENCE_S)
            assert [each.verify(listener.secret)["data"]["name"] for each in got] == ["A", "B"]
            assert await listener.stop() == 0
