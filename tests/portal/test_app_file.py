"""The pages of the app file and of deploy tokens: download, difference, application, and tokens that are shown once."""

import re
from html import unescape
from urllib.parse import unquote

import httpx

from stoa.access.operator import find_app
from stoa.app_file.endpoint import PATH
from stoa.db.pool import Database
from stoa.webhooks.app_subscriptions import declared_by
from tests.portal.installed_app import InstalledApp
from tests.support.people import SAME_ORIGIN, User

_SEEN = re.compile(r'name="seen" value="(\w+)"')
_PASTED = re.compile(r'<textarea name="pasted" hidden>\n?(.*?)</textarea>', re.DOTALL)
_DOWNLOAD = re.compile(r'href="data:application/toml;charset=utf-8,([^"]+)" download="stoa.app.toml"')
_TOKEN = re.compile(r'id="deploy-token">(stoa_dt_\w{49})<')
SUBSCRIPTION = '\n[[subscriptions]]\nname = "all"\nevents = ["product.*"]\nurl = "https://app.example.com/hooks"\n'


async def _file(app: InstalledApp, maria: User) -> str:
    await maria.open(f"{app.path}/file")
    found = _DOWNLOAD.search(maria.text)
    assert found
    return unquote(found[1])


async def _compare(app: InstalledApp, maria: User, text: str) -> None:
    """Upload a file as a browser does."""
    url = f"{app.path}/file"
    await maria.open(url)
    token = re.search(rf'action="{url}".*?name="_token" value="([^"]+)"', maria.text, re.DOTALL)
    assert token
    answer = await maria.client.post(
        url, data={"_token": token[1], "pasted": ""}, files={"file": ("stoa.app.toml", text)}, headers=SAME_ORIGIN
    )
    assert answer.status_code in (303, 422), answer.text
    if answer.status_code == 303:
        await maria.open(answer.headers["location"])
    else:
        maria.response = answer


async def _apply(app: InstalledApp, maria: User) -> None:
    seen, pasted = _SEEN.search(maria.text), _PASTED.search(maria.response.text)
    assert seen
    assert pasted
    await maria.submit(f"{app.path}/file/apply", pasted=unescape(pasted[1]), seen=seen[1])


async def test_a_downloaded_file_is_changed_compared_and_applied(app: InstalledApp, maria: User, db: Database) -> None:
    text = await _file(app, maria)
    assert f'client_id = "{app.client_id}"' in text
    await _compare(app, maria, text)
    assert "No changes" in maria.text
    await _compare(app, maria, text.replace('name = "Walker"', 'name = "Runner"') + SUBSCRIPTION)
    assert "What the file changes" in maria.text
    for shown in ("Runner", "subscriptions.all", "Added", "Changed"):
        assert shown in maria.text
    assert (await find_app(db, app.client_id)).name == "Walker"
    await _apply(app, maria)
    assert re.search(r'id="signing-secret">whsec_\w{44}<', maria.text)
    assert (await find_app(db, app.client_id)).name == "Runner"
    assert [each.name for each in await declared_by(db, app.app_id)] == ["all"]
    await _compare(app, maria, await _file(app, maria) + "\n# a comment\n")
    assert "No changes" in maria.text


async def test_the_page_says_what_merchants_must_approve(app: InstalledApp, maria: User) -> None:
    text = await _file(app, maria)
    await _compare(app, maria, text.replace("[scopes]", '[scopes]\n"orders:read" = "To count them."'))
    assert "1 store must approve it before the app can use it there." in maria.text
    await _apply(app, maria)
    assert maria.notice == "1 change applied."


async def test_faults_name_the_lines_of_the_file(app: InstalledApp, maria: User) -> None:
    url = f"{app.path}/file"
    await maria.open(url)
    await maria.submit(url, pasted='name = "A"\n[scopes]\n"products:raed" = "To list."')
    assert maria.faults == {"file": "Line 3: scopes.products:raed is not a scope. Nothing was changed."}
    await maria.submit(url, pasted="name = ")
    assert maria.faults["file"].startswith("Line 1: The file is not valid TOML")
    await maria.submit(url, pasted="")
    assert maria.faults["file"].startswith("Select a file")
    await _compare(app, maria, "x" * 33_000)
    assert "at most 32,768 bytes" in maria.response.text


async def test_a_difference_is_applied_only_to_the_app_that_was_compared(
    app: InstalledApp, maria: User, db: Database
) -> None:
    await _compare(app, maria, (await _file(app, maria)).replace("Walker", "Runner"))
    page = maria.response
    settings = f"{app.path}/settings"
    await maria.open(settings)
    reasons = {"reasons[products:read]": "To list them."}
    await maria.submit(settings, reasons, name="Jogger", scopes=["products:read"], homepage="")
    maria.response = page
    await _apply(app, maria)
    assert "Somebody changed the app meanwhile." in (maria.notice or "")
    assert (await find_app(db, app.client_id)).name == "Jogger"


async def test_a_deploy_token_is_shown_once_works_and_is_revoked(app: InstalledApp, maria: User) -> None:
    url = f"{app.path}/deploy-tokens"
    await maria.open(url)
    assert "No deploy tokens" in maria.text
    await maria.submit(url, name="CI", days="90")
    token = _TOKEN.search(maria.text)
    assert token
    transport = httpx.ASGITransport(maria.application)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        headers = {"authorization": f"Bearer {token[1]}"}
        pulled = await client.get(PATH, headers=headers)
        assert pulled.status_code == 200
        assert f'client_id = "{app.client_id}"' in pulled.text
        await maria.open(url)
        assert token[1] not in maria.text
        assert token[1][-4:] in maria.text
        assert f"By {maria.account.name}" in maria.text
        await maria.submit(url, name="CI", days="0")
        assert "already has a deploy token" in maria.faults["name"]
        await maria.submit(url, name="", days="0")
        assert set(maria.faults) == {"name"}
        [number] = re.findall(rf"{url}/(\d+)/revoke", maria.text)
        await maria.submit(f"{url}/{number}/revoke")
        assert maria.notice == "The deploy token is revoked."
        assert (await client.get(PATH, headers=headers)).status_code == 401
    await maria.submit(f"{url}/{number}/revoke")
    assert "has no deploy token" in (maria.notice or "")
    await maria.open(f"{app.path}/audit")
    assert "App deploy token created" in maria.text
    assert "App deploy token revoked" in maria.text
