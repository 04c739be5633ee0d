"""The example apps in Python and TypeScript run against a service, with the same results."""

import itertools
import os
import subprocess
from pathlib import Path

import httpx

from tests.examples.conftest import Program
from tests.support.service import PATIENCE_S, Account, Service, free_port, until
from tests.typescript.conftest import variables

_numbers = itertools.count(1)


def environment(account: Account | None = None, **more: str) -> dict[str, str]:
    return {**os.environ, **(variables(account) if account else {}), **more}


async def test_the_stock_sync_sets_the_counted_stock_and_then_changes_nothing(
    program: Program, service: Service, tmp_path: Path
) -> None:
    account = await service.account(f"sync-{next(_numbers)}")

    def sync(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*program("stock-sync"), *words]
        return subprocess.run(
            command, env=environment(account), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    async with account.client() as client:
        for sku, on_hand in {"MUG": 5, "BOWL": 7}.items():
            body = {"name": sku, "price": "1.00", "sku": sku, "stock": {"on_hand": on_hand}}
            assert (await client.post("/products", json=body)).status_code == 201
        (tmp_path / "warehouse.csv").write_text("sku,on_hand\nMUG,9\nBOWL,7\nCUP,1\n")
        first = sync("warehouse.csv")
        assert (first.returncode, first.stdout) == (0, "1 changed, 0 failed, 1 unknown\n"), first.stderr
        assert "CUP: no such SKU" in first.stderr
        levels = (await client.get("/products/inventory")).json()["data"]
        assert {level["sku"]: level["stock"]["on_hand"] for level in levels} == {"MUG": 9, "BOWL": 7}
        second = sync()
        assert second.stdout == "0 changed, 0 failed, 1 unknown\n", second.stderr
    (tmp_path / "warehouse.csv").write_text("sku,on_hand\nMUG,many\n")
    wrong = sync()
    assert (wrong.returncode, "not a SKU and a number" in wrong.stderr) == (1, True)


async def test_the_webhook_receiver_handles_each_event_once_and_rejects_forgeries(
    program: Program, service: Service
) -> None:
    account = await service.account(f"receiver-{next(_numbers)}")
    url = f"http://127.0.0.1:{(port := free_port())}/hook"
    async with account.client() as client:
        hook = (await client.post("/webhooks", json={"url": url, "events": ["product.*"]})).json()["data"]
        receiver = subprocess.Popen(
            program("webhook-receiver"),
            env=environment(PORT=str(port), STOA_WEBHOOK_SECRET=hook["secret"]),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            made = (await client.post("/products", json={"name": "Mug", "price": "1.00"})).json()["data"]
            assert receiver.stdout.readline() == f"product.created {made['id']}\n"
            path = f"/webhooks/{hook['id']}"
            # Delivered again, it is accepted but not handled again.
            again = await client.post(f"{path}/redeliver", json={"since": made["created_at"]})
            assert again.status_code in (200, 202), again.text
            log = httpx.Client(base_url=account.url, headers=account.headers)
            until(
                lambda: [each["status"] for each in log.get(f"{path}/deliveries").json()["data"]] == ["succeeded"] * 2,
                "both deliveries succeeded",
            )
            log.close()
            forged = httpx.post(url, content=b"{}", headers={"webhook-id": "x"})
            assert forged.status_code == 400
        finally:
            receiver.terminate()
            rest, _ = receiver.communicate(timeout=PATIENCE_S)
        assert rest == ""
