"""Release 0.3.0 and this one deliver from the same rows: a managed subscription waits for this release, and nothing is lost."""

import os
import sys
from pathlib import Path

import pytest

from stoa.access.apps import create_app
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import load
from stoa.webhooks.app_subscriptions import AppSubscription, declare
from tests.support.receivers import Receiver
from tests.support.service import Account, Service, new_database
from tests.upgrades.releases import Installation, exported
from tests.upgrades.test_upgrade import open_store

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]


async def create(account: Account, name: str) -> None:
    async with account.client() as client:
        answer = await client.post("/products", json={"name": name, "price": "1.00"})
        assert answer.status_code == 201, answer.text


async def test_a_worker_of_the_previous_release_leaves_managed_subscriptions_to_this_one(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "installed", exported())
    url = await new_database(f"app_subscriptions_{os.getpid()}")
    options: dict[str, object] = {"workers": 1, "access_log": False, "webhook_allow": "127.0.0.0/8"}
    old = Service(tmp_path / "old", database_url=url, command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    async with Receiver() as receiver:
        with old:
            account = await open_store(old)
            # This release migrates, and declares a subscription, while the workers of the previous one run.
            with Service(tmp_path / "new", database_url=url, background=False, **options) as new:
                db = Database(url, size=2)
                by = Operator(
                    db, load(new.environment, database_url=url), actor="operator:tests", request_id="req_tests"
                )
                app = await create_app(by, "Everywhere", ["products:read"])
                _, secret = await declare(by, app.client_id, AppSubscription("all", ["product.created"], receiver.url))
                assert secret
                await install(by, app.client_id, account.handle)  # the function that the previous release calls too
                rows = await db.fetch("SELECT count(*) FROM webhooks WHERE managed_by IS NOT NULL AND ended_at IS NULL")
                assert rows[0][0] == 1
                await create(account, "By the old release")
                await create(
                    Account(new, account.handle, account.client_id, account.client_secret, account.token), "New"
                )
                sys.stdout.write("the workers of 0.3.0 have the lane\n")
                with Service(tmp_path / "worker", database_url=url, **options):
                    await receiver.until(2)
                await db.close()
        names = sorted(each.verify(secret)["data"]["name"] for each in receiver.received)
    assert names == ["By the old release", "New"]
    assert all(each.headers["webhook-store"] for each in receiver.received)
