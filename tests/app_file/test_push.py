"""A push changes an app to what its file says: completely, once, and only after the confirmation that it needs."""

import asyncio
import re
from typing import Any

import pytest

from stoa.access import audit
from stoa.access.app_keys import list_keys
from stoa.access.apps import delete_app, suspend_app
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.grants import install, list_installations
from stoa.access.stores import create_store
from stoa.accounts.ownership import listing_of, open_development_store, open_store, register_app
from stoa.app_file.endpoint import PATH
from stoa.db.pool import Database
from stoa.webhooks.app_callbacks import callbacks_of
from stoa.webhooks.app_subscriptions import declared_by
from tests.access.tenants import new_handle
from tests.app_file.conftest import Pushing
from tests.support.people import User, maria

__all__ = ["maria"]
FILE = """\
name = "Stock sync"
homepage = "https://stock.example.com"
endpoint = "http://127.0.0.1:9/stoa"
return_urls = ["https://stock.example.com/installed"]

[scopes]
"products:read" = "To show your products."
"orders:read" = "To count what you sell."

[[subscriptions]]
name = "prices"
events = ["product.*"]
url = "http://127.0.0.1:9/hooks"
changed = ["price"]
[subscriptions.filter]
status = "active"

[[keys]]
kty = "OKP"
crv = "Ed25519"
x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
kid = "key-1"
"""


def keys(pushed: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["action"], change["key"]) for change in pushed["changes"]]


async def audited(ci: Pushing) -> list[tuple[str, str]]:
    entries = await audit.newest(ci.by.db, None, 20)
    subject = f"app:{(await ci.app()).id}"
    return [(each.action, each.actor) for each in entries if each.subject == subject]


async def test_a_file_whose_parsing_would_take_seconds_is_refused(ci: Pushing) -> None:
    refused = await ci.put(FILE + "[a" + ".a" * 15_000 + "]\n")
    assert refused.status_code == 422, refused.text
    [fault] = refused.json()["errors"]
    assert (fault["code"], fault["meta"]["line"]) == ("too_long", FILE.count("\n") + 1), fault


async def test_a_push_applies_the_whole_file_once(ci: Pushing, db: Database) -> None:
    compared = await ci.pushed(FILE, dry_run="true")
    assert not compared["applied"]
    assert keys(compared) == [
        ("change", "name"),
        ("add", "homepage"),
        ("add", "endpoint"),
        ("add", "return_urls"),
        ("change", 'scopes."products:read"'),
        ("add", 'scopes."orders:read"'),
        ("add", "subscriptions.prices"),
        ("add", "keys.key-1"),
    ]
    assert (await ci.app()).name == "An app"
    pushed = await ci.pushed(FILE)
    assert pushed["applied"]
    assert pushed["changes"] == compared["changes"]
    assert re.fullmatch(r"whsec_\w{44}", pushed["signing_secret"])
    app = await ci.app()
    assert (app.name, app.scopes) == ("Stock sync", ["products:read", "orders:read"])
    assert (await listing_of(db, app.id)).reasons["orders:read"] == "To count what you sell."
    callbacks = await callbacks_of(db, app.id)
    assert (callbacks.endpoint_url, callbacks.return_urls) == (
        "http://127.0.0.1:9/stoa",
        ["https://stock.example.com/installed"],
    )
    [declared] = await declared_by(db, app.id)
    assert (declared.name, declared.changed, declared.filter) == ("prices", ["price"], '{"status":"active"}')
    assert [key.kid for key in await list_keys(ci.by, app)] == ["key-1"]
    before = await audited(ci)
    actor = before[0][1]
    assert actor.startswith("deploy-token:")
    assert [("app.file_pushed", actor), ("app.key_added", actor)] == before[:2]
    again = await ci.pushed(FILE)
    assert again == {"client_id": ci.client_id, "applied": False, "changes": [], "signing_secret": None}
    assert await audited(ci) == before


async def test_a_pulled_file_is_the_app_and_changes_nothing(ci: Pushing) -> None:
    await ci.pushed(FILE)
    pulled = await ci.get()
    assert f'client_id = "{ci.client_id}"' in pulled
    assert keys(await ci.pushed(pulled)) == []
    changed = await ci.pushed(pulled.replace('changed = ["price"]', 'changed = ["name"]'))
    assert changed["changes"] == [
        {"key": "subscriptions.prices.changed", "action": "change", "before": ["price"], "after": ["name"]}
    ]


async def test_new_scopes_of_an_installed_app_need_a_confirmation(ci: Pushing) -> None:
    store = await create_store(ci.by, new_handle(), "A store", "EUR")
    await install(ci.by, ci.client_id, store.handle)
    refused = await ci.put(FILE)
    assert (refused.status_code, refused.json()["code"]) == (409, "confirmation_required")
    [asking] = [each for each in refused.json()["changes"] if each.get("consent")]
    assert (asking["key"], asking["consent"]) == (
        'scopes."orders:read"',
        "1 store must approve it before the app can use it there",
    )
    assert (await ci.app()).name == "An app"
    assert (await ci.pushed(FILE, confirm="true"))["applied"]
    [granted] = await list_installations(ci.by, store.handle)
    assert granted.scopes == ["products:read"]  # until the merchant approves
    # A scope that a write includes asks nobody.
    written = FILE.replace('"orders:read" = "To', '"orders:write" = "To')
    assert (await ci.put(written)).status_code == 409
    await ci.pushed(written, confirm="true")
    assert (await ci.pushed(FILE + ""))["applied"]


async def test_removals_need_a_confirmation_where_they_lose_deliveries(ci: Pushing) -> None:
    await ci.pushed(FILE)
    bare = FILE.partition("[[subscriptions]]")[0].replace('endpoint = "http://127.0.0.1:9/stoa"\n', "")
    store = await create_store(ci.by, new_handle(), "A store", "EUR")
    await install(ci.by, ci.client_id, store.handle)
    refused = await ci.put(bare)
    assert refused.status_code == 409
    assert {each["key"]: each["consent"] for each in refused.json()["changes"]} == {
        "endpoint": "1 store loses its events, with the deliveries that wait",
        "subscriptions.prices": "1 store loses the subscription, with the deliveries that wait",
        "keys.key-1": "token requests that this key signs are refused from now on",
    }
    assert (await ci.pushed(bare, confirm="true"))["applied"]
    app = await ci.app()
    assert (await callbacks_of(ci.by.db, app.id)).endpoint_url is None
    assert all(each.removing for each in await declared_by(ci.by.db, app.id))
    assert await list_keys(ci.by, app) == []
    assert keys(await ci.pushed(FILE)) == [
        ("add", "endpoint"),
        ("add", "subscriptions.prices"),
        ("add", "keys.key-1"),
    ]


async def test_a_development_store_of_the_developer_grants_new_scopes_at_once(
    ci: Pushing, maria: User, db: Database
) -> None:
    me = maria.account.id
    made = await register_app(ci.by, me, "Walker", "", {"products:read": "To list them."}, f"{me}:file")
    store = await open_development_store(ci.by, me, "Development", "EUR")
    live = await open_store(ci.by, me, new_handle(), "Live", "EUR")
    for each in (store, live):
        await install(ci.by, made.client_id, each.handle)
    token = await create_deploy_token(ci.by, made.client_id, "CI", days=None, account_id=me)
    hers = Pushing(ci.by, ci.client, made.client_id, token.deploy_token)
    refused = await hers.put(FILE)
    assert "1 store must approve" in refused.json()["detail"]
    await hers.pushed(FILE, confirm="true")
    [granted] = await list_installations(ci.by, store.handle)
    assert granted.scopes == ["products:read", "orders:read"]
    [unchanged] = await list_installations(ci.by, live.handle)
    assert unchanged.scopes == ["products:read"]


async def test_a_refused_file_changes_nothing_and_names_its_lines(ci: Pushing) -> None:
    for old, new, line, pointer in (
        ("product.*", "prodct.*", 12, "/subscriptions/0/events/0"),
        ("http://127.0.0.1:9/hooks", "http://10.0.0.1/hooks", 13, "/subscriptions/0/url"),
        ("http://127.0.0.1:9/stoa", "https://10.0.0.1/stoa", 3, "/endpoint"),
        ('name = "Stock sync"', 'name = "Stock sync"\nclient_id = "stoa_ci_other"', 2, "/client_id"),
    ):
        refused = await ci.put(FILE.replace(old, new))
        assert refused.status_code == 422, new
        [fault] = refused.json()["errors"]
        assert (fault["pointer"], fault["meta"]["line"]) == (pointer, line)
    assert (await ci.app()).name == "An app"


async def test_a_push_is_for_the_app_that_was_compared(ci: Pushing) -> None:
    tag = (await ci.client.get(PATH, headers=ci.headers)).headers["etag"]
    assert (await ci.put(FILE, {"if-match": tag})).status_code == 200
    late = await ci.put(FILE.replace("Stock", "Stocks"), {"if-match": tag})
    assert (late.status_code, late.json()["code"]) == (412, "app_file_changed")


async def test_concurrent_pushes_follow_each_other(ci: Pushing) -> None:
    names = [f"App {n}" for n in range(5)]

    async def push(name: str) -> str | None:
        while (
            answer := await ci.put(FILE.replace("Stock sync", name))
        ).status_code == 503:  # the lock is held too long
            pass
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["signing_secret"]

    secrets = await asyncio.gather(*map(push, names))
    assert len([each for each in secrets if each]) == 1  # one push created it
    assert (await ci.app()).name in names
    assert len(await declared_by(ci.by.db, (await ci.app()).id)) == 1


@pytest.mark.parametrize("token", ["", "Basic eDp5", "Bearer x", "Bearer stoa_dt_" + "0" * 49, "Bearer ü"])
async def test_other_credentials_are_refused(ci: Pushing, token: str) -> None:
    headers = [(b"authorization", token.encode("latin-1"))] if token else []
    for method in ("GET", "PUT"):
        refused = await ci.client.request(method, PATH, headers=headers, content=b"")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_the_request_must_be_well_formed(ci: Pushing) -> None:
    for answer, status in (
        (await ci.put(FILE, {"content-type": "application/json"}), 415),
        (await ci.put(FILE, dry_run="yes"), 400),
        (await ci.put(FILE, force="true"), 400),
        (await ci.put("x" * 40_000), 413),
        (await ci.client.get(PATH, params={"confirm": "true"}, headers=ci.headers), 400),
        (await ci.client.post(PATH, headers=ci.headers), 405),
    ):
        assert answer.status_code == status, answer.text
    raw = await ci.client.put(PATH, content=b"\xff", headers={**ci.headers, "content-type": "application/toml"})
    assert raw.status_code == 400


async def test_a_suspended_or_deleted_app_is_not_changed(ci: Pushing) -> None:
    await suspend_app(ci.by, ci.client_id)
    assert (await ci.put(FILE)).status_code == 403
    await delete_app(ci.by, ci.client_id)
    assert (await ci.put(FILE)).status_code == 401
