"""Apps: registration, credentials, settings, deletion and development stores."""

import json
import re
import subprocess
from typing import Any
from urllib.parse import unquote

import pytest

from stoa.access import audit
from stoa.access.contract import SCOPES
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts import ownership
from stoa.app import Application
from stoa.db.pool import Database
from tests.support.people import User, new_email
from tests.support.shops import service_client, token_for

APP: dict[str, Any] = {
    "name": "Stock sync",
    "homepage": "https://example.com",
    "scopes": ["products:read", "inventory:write"],
    "reasons[products:read]": "To list them.",
    "reasons[inventory:write]": "To count them.",
    "registration": "one-form",
}
_ID, _SECRET = re.compile(r"stoa_ci_\w+"), re.compile(r"stoa_cs_\w+")


async def register(user: User, **more: Any) -> tuple[int, str, str]:
    """Submit the registration form; return the app's number, client ID and secret."""
    await user.open("/portal/register-app")
    await user.submit("/portal/register-app", {**APP, **more})
    assert user.response.status_code == 200, user.text
    number = re.search(r"/portal/apps/(\d+)", user.text)
    secret = _SECRET.search(user.text)
    assert number
    assert secret, user.faults
    return int(number[1]), _ID.findall(user.text)[0], secret[0]


async def token_status(application: Application, client_id: str, secret: str) -> int:
    async with service_client(application) as service:
        form = {"grant_type": "client_credentials"}
        return (await service.post("/oauth/token", data=form, auth=(client_id, secret))).status_code


async def test_registration_shows_the_secret_once(application: Application, maria: User) -> None:
    app_id, client_id, secret = await register(maria)
    assert await token_status(application, client_id, secret) == 200
    for path in ("/portal", "/portal/apps", f"/portal/apps/{app_id}", f"/portal/apps/{app_id}/credentials"):
        await maria.open(path)
        assert "Stock sync" in maria.text
        assert secret not in maria.text
    await maria.open(f"/portal/apps/{app_id}")
    assert "“To count them.”" in maria.text


async def test_the_env_file_and_the_command_on_the_secret_page_work(application: Application, maria: User) -> None:
    _, client_id, secret = await register(maria, development_store="on")
    link = re.search(r'href="data:text/plain;charset=utf-8,([^"]+)" download="stock-sync.env"', maria.text)
    assert link
    variables = dict(line.split("=", 1) for line in unquote(link[1]).splitlines())
    assert variables["STOA_CLIENT_ID"] == client_id
    assert variables["STOA_CLIENT_SECRET"] == secret
    async with service_client(application) as service:
        token = await token_for(service, client_id, secret)
        response = await service.get(
            f"{variables['STOA_BASE_URL']}/api/v3/app/products?limit=2", headers={"authorization": f"Bearer {token}"}
        )
    assert response.status_code == 200
    assert response.json()["meta"]["total"] > 20
    command = re.search(r'<pre id="curl-command"[^>]*>(.*?)</pre>', maria.text, re.DOTALL)
    assert command
    checked = subprocess.run(["bash", "-n"], input=command[1], text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


async def test_a_form_submitted_twice_registers_one_app(maria: User, db: Database) -> None:
    await maria.open("/portal/register-app")
    await maria.submit("/portal/register-app", APP)
    assert _SECRET.search(maria.text)
    await maria.open("/portal/register-app")
    await maria.submit("/portal/register-app", APP)
    assert "already registered" in maria.notice
    assert not _SECRET.search(maria.text)
    [[count]] = await db.fetch("SELECT count(*) FROM account_apps WHERE account_id = $1", maria.account.id)
    assert count == 1


async def test_every_fault_is_shown_beside_its_field_and_values_are_kept(maria: User) -> None:
    await maria.open("/portal/register-app")
    invalid = {
        "name": "",
        "homepage": "javascript:alert(1)",
        "scopes": ["orders:read", "no:such"],
        "registration": "x" * 9,
    }
    await maria.submit("/portal/register-app", invalid)
    assert maria.response.status_code == 422
    assert set(maria.faults) == {"name", "homepage"}
    assert 'value="javascript:alert(1)"' in maria.text
    assert re.search(r'value="orders:read" checked', maria.text)
    await maria.submit("/portal/register-app", {**invalid, "name": "N", "homepage": "", "scopes": []})
    assert set(maria.faults) == {"scopes"}


@pytest.mark.parametrize("field", ["name", "homepage", "reasons[products:read]"])
@pytest.mark.parametrize("character", ["\x00", "\n", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e"])
async def test_a_control_character_is_refused(maria: User, field: str, character: str) -> None:
    await maria.open("/portal/register-app")
    changed = {**APP, field: f"{APP[field]}{character}x"}
    await maria.submit("/portal/register-app", changed)
    assert maria.response.status_code == 422
    of_form = character in "\u2028\u202e" and field.startswith(
        "reasons"
    )  # merchants read reasons, so the rules are stricter
    assert {name.partition("[")[0] for name in maria.faults} == {"" if of_form else field.partition("[")[0]}


@pytest.mark.parametrize("homepage", ["http://[", "https://user:pass@example.com", "ftp://example.com", "https://",
                                      "https://example.com/\r\nx", "https://exa\tmple.com", "https://example.com/\x07",
                                      "https://example.com/\u202e"])  # fmt: skip
async def test_a_homepage_must_be_a_web_url(maria: User, homepage: str) -> None:
    await maria.open("/portal/register-app")
    await maria.submit("/portal/register-app", {**APP, "homepage": homepage})
    assert set(maria.faults) == {"homepage"}


async def test_a_rotated_secret_stays_valid_during_the_grace_period(application: Application, maria: User) -> None:
    app_id, client_id, old = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"/portal/apps/{app_id}/secret", grace_hours=24)
    new = _SECRET.findall(maria.text)[0]
    assert new != old
    assert "is valid until" in maria.text
    assert await token_status(application, client_id, old) == await token_status(application, client_id, new) == 200
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"/portal/apps/{app_id}/secret", grace_hours=24)
    assert maria.response.status_code == 422
    assert "two secrets are live" in maria.faults[""].lower()
    await maria.submit(f"/portal/apps/{app_id}/secret/end")
    assert maria.notice == "The old secret was revoked."
    assert await token_status(application, client_id, old) == 401
    assert await token_status(application, client_id, new) == 200


async def test_a_leaked_secret_and_its_tokens_are_revoked_at_once(application: Application, maria: User) -> None:
    app_id, client_id, old = await register(maria, development_store="on")
    async with service_client(application) as service:
        await token_for(service, client_id, old)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"/portal/apps/{app_id}/secret", grace_hours=0)
    assert await token_status(application, client_id, old) == 401
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"/portal/apps/{app_id}/tokens/revoke")
    assert "confirmed" in maria.faults
    await maria.submit(f"/portal/apps/{app_id}/tokens/revoke", confirmed="on")
    assert maria.notice == "1 access token revoked."


async def test_public_keys_are_added_and_removed(maria: User) -> None:
    app_id, _, _ = await register(maria)
    url = f"/portal/apps/{app_id}/keys"
    await maria.open(f"/portal/apps/{app_id}/credentials")
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "first"}
    await maria.submit(url, jwk=json.dumps(jwk))
    assert maria.notice == "Key first added. Your app can authenticate with it now."
    assert "<code>first</code>" in maria.text
    await maria.submit(url, jwk=json.dumps({**jwk, "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}))
    assert "private key" in maria.faults["jwk"]
    await maria.submit(url, jwk="")
    assert "jwk" in maria.faults
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"{url}/remove", kid="first")
    assert maria.notice == "Key first removed."
    assert "<code>first</code>" not in maria.text


@pytest.mark.parametrize("hours", ["-1", "169", "x", ""])
async def test_the_grace_period_is_limited(maria: User, hours: str) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/credentials")
    await maria.submit(f"/portal/apps/{app_id}/secret", grace_hours=hours)
    assert maria.response.status_code == 422
    assert "grace_hours" in maria.faults


async def test_an_app_is_changed(maria: User) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}/settings")
    assert 'value="To count them."' in maria.text
    changed = {"name": "Renamed", "scopes": ["orders:read"], "reasons[orders:read]": "To see them.", "homepage": ""}
    await maria.submit(f"/portal/apps/{app_id}/settings", changed)
    assert maria.notice == "Saved."
    await maria.open(f"/portal/apps/{app_id}")
    assert "Renamed" in maria.text
    assert SCOPES["orders:read"] in maria.text
    assert SCOPES["inventory:write"] not in maria.text


async def test_a_deleted_app_is_uninstalled_everywhere(application: Application, maria: User, db: Database) -> None:
    app_id, client_id, secret = await register(maria, development_store="on")
    async with service_client(application) as service:
        token = await token_for(service, client_id, secret)
    await maria.open("/portal/stores")
    handle = re.search(r"/portal/stores/(dev-\w+)", maria.text)
    assert handle
    await maria.open(f"/portal/apps/{app_id}/settings")
    await maria.submit(f"/portal/apps/{app_id}/delete", name="stock sync")
    assert "name" in maria.faults
    await maria.submit(f"/portal/apps/{app_id}/delete", name="Stock sync")
    assert maria.notice == "Stock sync was deleted."
    await maria.open(f"/portal/apps/{app_id}")
    assert maria.response.status_code == 404
    assert await token_status(application, client_id, secret) == 401
    async with service_client(application) as service:
        url = f"/stores/{handle[1]}/api/v3/app/products"
        response = await service.get(url, headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 401
    [[store_id]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", handle[1])
    assert "app.uninstalled" in {entry.action for entry in await audit.newest(db, store_id, 10)}
    events = await db.fetch("SELECT type FROM events WHERE store_id = $1 AND type = 'app.uninstalled'", store_id)
    assert len(events) == 1


async def test_a_development_store_is_created_with_one_click(maria: User) -> None:
    app_id, _, _ = await register(maria)
    await maria.open(f"/portal/apps/{app_id}")
    assert "Create development store" in maria.text
    await maria.submit(f"/portal/apps/{app_id}/development-store")
    assert "created, with sample data" in maria.notice
    assert re.search(r"STOA_BASE_URL=http://testserver/stores/dev-\w{8}", maria.text)


async def test_the_number_of_development_stores_is_limited(maria: User, db: Database) -> None:
    await maria.open("/portal/stores")
    await db.execute(
        """WITH created AS (INSERT INTO stores (handle, name, currency)
                SELECT 'full-' || $1::bigint || '-' || n, 'Full', 'EUR' FROM generate_series(1, 10) n RETURNING id)
           INSERT INTO account_stores (account_id, store_id, role, development) SELECT $1, id, 'owner', true FROM created""",
        maria.account.id,
    )
    await maria.submit("/portal/stores/development")
    assert maria.response.status_code == 422
    assert "10 development stores" in maria.faults[""]


async def test_own_development_stores_grant_new_scopes_at_once(maria: User, db: Database) -> None:
    app_id, _, _ = await register(maria, scopes=["products:read"], development_store="on")
    more = {"scopes": ["products:read", "webhooks:write"], "reasons[webhooks:write]": "To subscribe to changes."}
    await maria.open(f"/portal/apps/{app_id}/settings")
    await maria.submit(f"/portal/apps/{app_id}/settings", {**APP, **more})
    assert maria.notice == "Saved."
    [[scopes]] = await db.fetch("SELECT scopes FROM installations WHERE app_id = $1", app_id)
    assert scopes == ["products:read", "webhooks:write"]


async def test_development_stores_of_others_do_not_grant_new_scopes(
    maria: User, zeno: User, db: Database, operator: Operator
) -> None:
    store = await ownership.open_development_store(operator, maria.account.id, "Not Zeno's", "EUR")
    app = await ownership.register_app(operator, zeno.account.id, "Walker", "", {"products:read": "x"}, new_email())
    await install(operator, app.client_id, store.handle)
    fields = {"name": "Walker", "scopes": "customers:read", "reasons[customers:read]": "To see people."}
    await zeno.open(f"/portal/apps/{app.app_id}/settings")
    await zeno.submit(f"/portal/apps/{app.app_id}/settings", fields)
    assert zeno.notice == "Saved."
    [[scopes]] = await db.fetch("SELECT scopes FROM installations WHERE app_id = $1", app.app_id)
    assert scopes == ["products:read"]


async def test_registration_is_recorded_in_the_audit_log(maria: User, db: Database) -> None:
    app_id, _, secret = await register(maria)
    entries = [each for each in await audit.newest(db, audit.SERVICE, 50) if each.subject == f"app:{app_id}"]
    assert [entry.action for entry in entries] == ["app.created"]
    assert entries[0].actor == f"account:{maria.account.id}"
    assert secret not in entries[0].detail


async def test_a_name_is_escaped(maria: User) -> None:
    name = '<script>alert("x")</script>'
    await register(maria, name=name)
    await maria.open("/portal/apps")
    assert "<script>alert" not in maria.response.text
    assert name in maria.text
