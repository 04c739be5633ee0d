"""A developer's story: an app from its registration to its end, in a browser without script."""

import re
import subprocess
from typing import Any
from urllib.parse import unquote

import pytest

from stoa.access import audit
from stoa.access.contract import SCOPES
from stoa.app import Application
from stoa.db.pool import Database
from tests.portal.people import Somebody
from tests.support.shops import service_client, token_for

APP: dict[str, Any] = {
    "name": "Stock sync",
    "homepage": "https://example.com",
    "scopes": ["products:read", "inventory:write"],
    "reasons[products:read]": "To list them.",
    "reasons[inventory:write]": "To count them.",
    "registration": "a form of its own",
}
_ID, _SECRET = re.compile(r"stoa_ci_\w+"), re.compile(r"stoa_cs_\w+")


async def register(person: Somebody, **more: Any) -> tuple[int, str, str]:
    """Fill in the form; answers the app's number, client id and secret."""
    await person.open("/portal/register-app")
    await person.send("/portal/register-app", {**APP, **more})
    assert person.seen.status_code == 200, person.text
    number = re.search(r"/portal/apps/(\d+)", person.text)
    secret = _SECRET.search(person.text)
    assert number
    assert secret, person.faults
    return int(number[1]), _ID.findall(person.text)[0], secret[0]


async def works(application: Application, client_id: str, secret: str) -> int:
    async with service_client(application) as service:
        form = {"grant_type": "client_credentials"}
        return (await service.post("/oauth/token", data=form, auth=(client_id, secret))).status_code


async def test_an_app_is_registered_and_its_secret_shown_once(application: Application, maria: Somebody) -> None:
    app_id, client_id, secret = await register(maria)
    assert await works(application, client_id, secret) == 200
    for path in ("/portal", "/portal/apps", f"/portal/apps/{app_id}", f"/portal/apps/{app_id}/credentials"):
        await maria.open(path)
        assert "Stock sync" in maria.text
        assert secret not in maria.text
    await maria.open(f"/portal/apps/{app_id}")
    assert "“To count them.”" in maria.text


async def test_the_page_with_the_secret_has_a_file_and_a_line_that_work(
    application: Application, maria: Somebody
) -> None:
    _, client_id, secret = await register(maria, development_store="on")
    file = re.search(r'href="data:text/plain;charset=utf-8,([^"]+)" download="stock-sync.env"', maria.text)
    assert file
    lines = dict(line.split("=", 1) for line in unquote(file[1]).splitlines())
    assert lines["STOA_CLIENT_ID"] == client_id
    assert lines["STOA_CLIENT_SECRET"] == secret
    async with service_client(application) as service:
        token = await token_for(service, client_id, secret)
        answer = await service.get(
            f"{lines['STOA_BASE_URL']}/api/v3/app/products?limit=2", headers={"authorization": f"Bearer {token}"}
        )
    assert answer.status_code == 200
    assert answer.json()["meta"]["total"] > 20
    line = re.search(r'<pre id="curl-line"[^>]*>(.*?)</pre>', maria.text, re.DOTALL)
    assert line
    checked = subprocess.run(["bash", "-n"], input=line[1], text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


async def test_the_same_form_sent_twice_makes_one_app(maria: Somebody, db: Database) -> None:
    await maria.open("/portal/register-app")
    await maria.send("/portal/register-app", APP)
    assert _SECRET.search(maria.text)
    await maria.open("/portal/register-app")
    await maria.send("/portal/register-app", APP)
    assert "registered already" in maria.notice
    assert not _SECRET.search(maria.text)
    [[count]] = await db.fetch("SELECT count(*) FROM account_apps WHERE account_id = $1", maria.account.id)
    assert count == 1


async def test_every_fault_stands_beside_its_field_and_nothing_typed_is_lost(maria: Somebody) -> None:
    await maria.open("/portal/register-app")
    wrong = {
        "name": "",
        "homepage": "javascript:alert(1)",
        "scopes": ["orders:read", "no:such"],
        "registration": "x" * 9,
    }
    await maria.send("/portal/register-app", wrong)
    assert maria.seen.status_code == 422
    assert set(maria.faults) == {"name", "homepage", "reasons[orders:read]"}
    assert 'value="javascript:alert(1)"' in maria.text
    assert re.search(r'value="orders:read" checked', maria.text)
    await maria.send("/portal/register-app", {**wrong, "name": "N", "homepage": "", "scopes": []})
    assert set(maria.faults) == {"scopes"}


@pytest.mark.parametrize("homepage", ["http://[", "https://user:pass@example.com", "ftp://example.com", "https://"])
async def test_a_homepage_is_a_web_address(maria: Somebody, homepage: str) -> None:
    await maria.open("/portal/register-app")
    await maria.send("/portal/register-app", {**APP, "homepage": homepage})
    assert set(maria.faults) == {"homepage"}


async def test_a_secret_is_changed_without_a_gap(application: Application, maria: Somebody) -> None:
    app_id, client_id, old = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.send(f"/portal/apps/{app_id}/secret", grace_hours=24)
    new = _SECRET.findall(maria.text)[0]
    assert new != old
    assert "works until" in maria.text
    assert await works(application, client_id, old) == await works(application, client_id, new) == 200
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.send(f"/portal/apps/{app_id}/secret", grace_hours=24)
    assert maria.seen.status_code == 422
    assert "two secrets are live" in maria.faults[""].lower()
    await maria.send(f"/portal/apps/{app_id}/secret/end")
    assert maria.notice == "The old secret no longer works."
    assert await works(application, client_id, old) == 401
    assert await works(application, client_id, new) == 200


async def test_after_a_leak_secret_and_tokens_end_at_once(application: Application, maria: Somebody) -> None:
    app_id, client_id, old = await register(maria, development_store="on")
    async with service_client(application) as service:
        await token_for(service, client_id, old)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.send(f"/portal/apps/{app_id}/secret", grace_hours=0)
    assert await works(application, client_id, old) == 401
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.send(f"/portal/apps/{app_id}/tokens/revoke")
    assert maria.notice == "1 access token ended."


@pytest.mark.parametrize("hours", ["-1", "169", "x", ""])
async def test_a_grace_has_its_limits(maria: Somebody, hours: str) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.send(f"/portal/apps/{app_id}/secret", grace_hours=hours)
    assert maria.seen.status_code == 422
    assert "grace_hours" in maria.faults


async def test_an_app_is_changed(maria: Somebody) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/settings")
    assert 'value="To count them."' in maria.text
    changed = {"name": "Renamed", "scopes": ["orders:read"], "reasons[orders:read]": "To see them.", "homepage": ""}
    await maria.send(f"/portal/apps/{app_id}/settings", changed)
    assert maria.notice == "Saved."
    await maria.open(f"/portal/apps/{app_id}")
    assert "Renamed" in maria.text
    assert SCOPES["orders:read"] in maria.text
    assert SCOPES["inventory:write"] not in maria.text


async def test_a_deleted_app_is_gone_everywhere_and_for_good(
    application: Application, maria: Somebody, db: Database
) -> None:
    app_id, client_id, secret = await register(maria, development_store="on")
    async with service_client(application) as service:
        token = await token_for(service, client_id, secret)
    await maria.open("/portal/stores")
    handle = re.search(r"/portal/stores/(dev-\w+)", maria.text)
    assert handle
    await maria.open(f"/portal/apps/{app_id}/settings")
    await maria.send(f"/portal/apps/{app_id}/delete", name="stock sync")
    assert "name" in maria.faults
    await maria.send(f"/portal/apps/{app_id}/delete", name="Stock sync")
    assert maria.notice == "Stock sync is deleted."
    await maria.open(f"/portal/apps/{app_id}")
    assert maria.seen.status_code == 404
    assert await works(application, client_id, secret) == 401
    async with service_client(application) as service:
        url = f"/stores/{handle[1]}/api/v3/app/products"
        answer = await service.get(url, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    [[store_id]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", handle[1])
    assert "app.uninstalled" in {entry.action for entry in await audit.newest(db, store_id, 10)}
    events = await db.fetch("SELECT type FROM events WHERE store_id = $1 AND type = 'app.uninstalled'", store_id)
    assert len(events) == 1


async def test_a_development_store_comes_in_one_click(maria: Somebody) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}")
    assert "Open a development store" in maria.text
    await maria.send(f"/portal/apps/{app_id}/development-store")
    assert "is open, with sample data" in maria.notice
    assert re.search(r"STOA_BASE_URL=http://testserver/stores/dev-\w{8}", maria.text)


async def test_there_are_only_so_many_development_stores(maria: Somebody, db: Database) -> None:
    await maria.open("/portal/stores")
    await db.execute(
        """WITH made AS (INSERT INTO stores (handle, name, currency)
                SELECT 'full-' || $1::bigint || '-' || n, 'Full', 'EUR' FROM generate_series(1, 10) n RETURNING id)
           INSERT INTO account_stores (account_id, store_id, role, development) SELECT $1, id, 'owner', true FROM made""",
        maria.account.id,
    )
    await maria.send("/portal/stores/development")
    assert maria.seen.status_code == 422
    assert "10 development stores" in maria.faults[""]


async def test_what_matters_is_written_into_the_log(maria: Somebody, db: Database) -> None:
    app_id, _, secret = await register(maria)
    entries = [each for each in await audit.newest(db, audit.SERVICE, 50) if each.subject == f"app:{app_id}"]
    assert [entry.action for entry in entries] == ["app.created"]
    assert entries[0].actor == f"account:{maria.account.id}"
    assert secret not in entries[0].detail


async def test_a_name_is_shown_as_it_was_typed_and_does_nothing(maria: Somebody) -> None:
    name = '<script>alert("x")</script>'
    await register(maria, name=name)
    await maria.open("/portal/apps")
    assert "<script>alert" not in maria.seen.text
    assert name in maria.text
