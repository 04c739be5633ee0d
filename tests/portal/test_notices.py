"""Notices: tone, signature, and the session that they are bound to."""

import re

from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store
from stoa.app import Application
from stoa.portal.kit.notices import Notice, pack_notice
from stoa.settings import Settings, secret_key
from tests.support.people import SAME_ORIGIN, User, browser


async def test_a_success_has_the_good_tone(maria: User) -> None:
    await maria.open("/portal/account")
    await maria.submit("/portal/account/name", name="Maria")
    assert (maria.notice, maria.tone) == ("Name saved.", "good")


async def test_a_refusal_has_the_warn_tone(operator: Operator, maria: User) -> None:
    store = await open_store(operator, maria.account.id, f"tone-{maria.account.id}", "Agora", "EUR")
    await maria.open(f"/portal/stores/{store.handle}/products")
    await maria.submit(f"/portal/stores/{store.handle}/requests/999999/refuse")
    assert maria.notice
    assert maria.tone == "warn"


async def test_an_ended_session_has_the_warn_tone(maria: User) -> None:
    await maria.open("/portal/account")
    token = maria.token
    await maria.submit("/portal/sign-out")
    maria.client.cookies.delete("stoa_notice")
    response = await maria.client.post(
        "/portal/account/name", data={"_token": token, "name": "Late"}, follow_redirects=True
    )
    maria.response = response
    assert (maria.notice[:22], maria.tone) == ("Your session has ended", "warn")


async def test_a_notice_is_bound_to_its_session(maria: User, zeno: User, settings: Settings) -> None:
    await zeno.open("/portal/account")
    data = {"_token": zeno.token, "name": "Zeno"}
    response = await zeno.client.post("/portal/account/name", data=data, headers=SAME_ORIGIN)
    cookie = re.search(r"stoa_notice=([^;]+)", response.headers["set-cookie"])
    assert cookie
    cookies = {"cookie": f"stoa_session={maria.client.cookies['stoa_session']}; stoa_notice={cookie[1]}"}
    assert "Name saved" not in (await maria.client.get("/portal/account", headers=cookies)).text
    packed = pack_notice(secret_key(settings), maria.client.cookies["stoa_session"], Notice("For me."))
    cookies = {"cookie": f"stoa_session={maria.client.cookies['stoa_session']}; stoa_notice={packed}"}
    assert "For me." in (await maria.client.get("/portal/account", headers=cookies)).text


async def test_a_forged_notice_is_not_shown(application: Application) -> None:
    async with browser(application) as client:
        forged = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAU2VuZCB1cyB5b3VyIHBhc3N3b3Jk"
        response = await client.get("/portal/sign-in", headers={"cookie": f"stoa_notice={forged}"})
        assert "Send us" not in response.text
