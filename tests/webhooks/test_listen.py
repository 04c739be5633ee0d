"""`stoa listen` forwards the events of a store to a local URL; tested with a running service and the real command."""

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
from tests.support.service import PATIENCE_S, STOA, Account, Service, free_port, migrated_database

NAMES = ("STOA_BASE_URL", "STOA_AUTH_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Service]:
    url = await migrated_database(f"listen_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("listen"), database_url=url, workers=1) as running:
        yield running


def variables(account: Account) -> dict[str, str]:
    service = account.service.url
    values = (f"{service}/stores/{account.handle}", f"{service}/oauth/token", account.client_id, account.client_secret)
    return dict(zip(NAMES, values, strict=True))


class ListenProcess:
    """A running `stoa listen` process and its output."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.secret = ""

    async def wait_until_subscribed(self) -> None:
        """Wait until the command has subscribed, and read the secret if it prints one."""
        assert self.process.stderr is not None
        first = await self.message_line()
        assert first.startswith("Subscription "), first + (await self.process.stderr.read()).decode()
        match = re.search(r"whsec_\w+", await self.message_line())
        self.secret = match[0] if match else ""

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def message_line(self) -> str:
        """The next line of standard error; on a busy machine, the command may have to wait for the service before."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while (line := await self.process.stderr.readline()).startswith(b"The service does not respond"):
                pass
            return line.decode().strip()

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@asynccontextmanager
async def listening(
    given: Mapping[str, str], url: str, *options: str, folder: Path | None = None
) -> AsyncGenerator[ListenProcess]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    process = await asyncio.create_subprocess_exec(
        *STOA, "listen", "--forward-to", url, *options, stdout=PIPE, stderr=PIPE, cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1", **given},
    )  # fmt: skip
    command = ListenProcess(process)
    try:
        await command.wait_until_subscribed()
        yield command
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def add(account: Account, name: str) -> int:
    async with account.client() as client:
        answer = await client.post("/products", json={"name": name, "price": "5.00"})
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["id"]


async def test_each_event_is_forwarded_signed_and_printed_in_one_line(service: Service) -> None:
    account = await service.account("one")
    async with Receiver() as receiver, listening(variables(account), receiver.url) as command:
        mug = await add(account, "Café Mug")
        (got,) = await receiver.until(1)
        event = got.verify(command.secret)
        assert (event["type"], event["resource"]["id"]) == ("product.created", mug)
        assert event["data"]["name"] == "Café Mug"
        line = await command.line()
        assert re.fullmatch(rf"\d\d:\d\d:\d\d +1  product\.created +product {mug} +200  \d+ ms", line), line
        assert await command.stop() == 0
        assert await command.message_line() == "Stopped. Use --after 1 to continue from here."


async def test_the_json_option_prints_json_lines(service: Service) -> None:
    account = await service.account("two")
    options = ("--json", "--events", "product.deleted,product.updated")
    async with (
        Receiver(answering(500)) as receiver,
        listening(variables(account), receiver.url, *options) as command,
    ):
        mug = await add(account, "Mug")
        async with account.client() as client:
            await client.delete(f"/products/{mug}")
        entry = json.loads(await command.line())
    assert entry | {"time": 0, "ms": 0, "event_id": 0} == {
        "time": 0, "sequence": 1, "event_id": 0, "type": "product.deleted", "resource": f"product {mug}",
        "status": 500, "ms": 0, "error": None,
    }  # fmt: skip


async def test_events_wait_in_order_while_the_url_is_unreachable(service: Service) -> None:
    account = await service.account("three")
    port = free_port()
    async with listening(variables(account), f"http://127.0.0.1:{port}/hook", "--json") as command:
        await add(account, "A")
        await add(account, "B")
        message = await command.message_line()
        assert message.startswith(f"http://127.0.0.1:{port}/hook is unreachable (")
        assert message.endswith("; event 1 waits ...")
        async with Receiver(at_port=port) as receiver:
            await receiver.until(2)
            entries = [json.loads(await command.line()) for _ in range(2)]
        assert [(each["sequence"], each["status"], each["error"]) for each in entries] == [
            (1, 200, None),
            (2, 200, None),
        ]
        assert [each.verify(command.secret)["data"]["name"] for each in receiver.received] == ["A", "B"]
        await add(account, "C")
        assert (await command.message_line()).endswith("; event 3 waits ...")
        assert await command.stop() == 0
        assert await command.message_line() == "Stopped. Use --after 2 to continue from here."


async def test_an_event_is_sent_once_more_when_the_connection_is_aborted(service: Service) -> None:
    account = await service.account("aborting")
    requests = 0

    async def abort_three_times(request: web.Request, _received: Received) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        if requests <= 3 and request.transport is not None:
            request.transport.abort()
        return web.Response()

    async with (
        Receiver(abort_three_times) as receiver,
        listening(variables(account), receiver.url, "--json") as command,
    ):
        await add(account, "A")
        await add(account, "B")
        entries = [json.loads(await command.line()) for _ in range(2)]
    assert [(each["sequence"], each["status"]) for each in entries] == [(1, None), (2, 200)]
    assert entries[0]["error"]
    assert [each.event["data"]["name"] for each in receiver.received] == ["A", "A", "B", "B"]


async def test_an_event_with_an_old_signature_is_pulled_again(service: Service) -> None:
    account = await service.account("fresh-signature")
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


async def test_the_next_run_reuses_the_subscription_and_starts_with_new_events(service: Service) -> None:
    account = await service.account("four")
    async with Receiver() as receiver:
        async with listening(variables(account), receiver.url, "--name", "mine") as command:
            secret = command.secret
            await add(account, "A")
            await receiver.until(1)
            await command.stop()
        async with listening(variables(account), receiver.url, "--name", "mine") as command:
            assert command.secret == ""
            await add(account, "B")
            await receiver.until(2)
            await command.stop()
        async with listening(variables(account), receiver.url, "--name", "mine", "--after", "0", "--delete") as command:
            await receiver.until(4)
            await command.stop()
    assert [each.verify(secret)["data"]["name"] for each in receiver.received] == ["A", "B", "A", "B"]
    async with account.client() as client:
        assert (await client.get("/webhooks")).json()["meta"]["total"] == 0


async def test_a_new_secret_is_made_on_request(service: Service) -> None:
    account = await service.account("five")
    async with Receiver() as receiver:
        async with listening(variables(account), receiver.url) as command:
            first = command.secret
            await command.stop()
        async with listening(variables(account), receiver.url, "--new-secret") as command:
            assert command.secret not in ("", first)
            await add(account, "A")
            (got,) = await receiver.until(1)
            assert got.verify(command.secret)


async def test_the_credentials_are_read_from_the_demo_file(service: Service, tmp_path: Path) -> None:
    account = await service.account("six")
    (tmp_path / ".stoa").mkdir()
    lines = "".join(f"{name}={value}\n" for name, value in variables(account).items())
    (tmp_path / ".stoa/demo.env").write_text(lines)
    async with Receiver() as receiver, listening({}, receiver.url, folder=tmp_path) as command:
        await add(account, "A")
        assert (await receiver.until(1))[0].verify(command.secret)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"STOA_CLIENT_SECRET": ""}, "STOA_CLIENT_SECRET must be set"),
        ({"STOA_CLIENT_SECRET": "wrong"}, "The client id or the client secret is incorrect."),
        ({"STOA_BASE_URL": "http://localhost:1/"}, ""),
    ],
)
async def test_a_missing_or_wrong_setting_prints_a_clear_error(
    service: Service, tmp_path: Path, given: dict[str, str], words: str
) -> None:
    account = await service.account(f"seven-{len(words)}")
    wrong = {**variables(account), **given}
    if not words:
        wrong["STOA_BASE_URL"], words = (
            f"{service.url}/stores/nowhere",
            "the store or the subscription does not exist any more",
        )
    process = await asyncio.create_subprocess_exec(
        *STOA, "listen", "--forward-to", "http://127.0.0.1:1/", stdout=PIPE, stderr=PIPE, cwd=tmp_path,
        env={**{n: v for n, v in os.environ.items() if not n.startswith("STOA_")}, **wrong},
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode().startswith("error: ")
    assert words in errors.decode()
    assert "Traceback" not in errors.decode()


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_a_restart_of_the_service_does_not_end_the_command(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> None:
    url = await migrated_database(f"restart_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("restart"), database_url=url, workers=1) as service:
        account = await service.account("shop")
        async with Receiver() as receiver, listening(variables(account), receiver.url) as command:
            await add(account, "A")
            await receiver.until(1)
            assert await asyncio.to_thread(service.stop) == 0
            await asyncio.to_thread(service.start)
            await add(account, "B")
            got = await receiver.until(2, seconds=PATIENCE_S)
            assert [each.verify(command.secret)["data"]["name"] for each in got] == ["A", "B"]
            assert await command.stop() == 0
