"""The story of an installation in a real browser: link, sign-in, choice, return, events, list, calls, uninstall, reinstall."""

import asyncio
from urllib.parse import urlencode

import httpx
import pytest

from stoa.access.admission import TTL_S
from stoa.access.grants import install, uninstall
from stoa.accounts.ownership import open_store, register_app
from stoa.webhooks.app_callbacks import set_callbacks
from stoa_client import installations, verify_install
from tests.browser.conftest import NewPage, PortalService
from tests.browser.interaction import Pointer
from tests.support.people import PASSWORD, as_operator
from tests.support.receivers import Receiver
from tests.support.screenshots import screenshot

REASONS = {"products:read": "To show your products elsewhere.", "orders:read": "To count your orders."}
STATE = "a-random-state"


@pytest.mark.timeout(180)
async def test_a_merchant_installs_an_app_by_its_link(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    developer, merchant = await portal.create_account("Ada Porter"), await portal.create_account()
    first, second = [
        await open_store(by, merchant.id, f"{name}-{merchant.id}", name.title(), "EUR") for name in ("agora", "porch")
    ]
    app = await register_app(
        by, developer.id, "Counter", "https://counter.example.com", REASONS, f"{developer.id}:link"
    )
    credentials = (f"{portal.url}/oauth/token", app.client_id, app.client_secret)
    async with Receiver() as endpoint, Receiver(host="localhost") as returned:
        return_to = f"{returned.url}?page=1"
        made = await set_callbacks(by, app.client_id, endpoint_url=endpoint.url, return_urls=[return_to])
        secret = made.signing_secret or ""
        query = urlencode({"scope": " ".join(REASONS), "return_to": return_to, "state": STATE})
        link = f"{portal.url}/portal/install/{app.client_id}?{query}"

        user = Pointer(await new_page())
        await sign_in_at(user, link, merchant.email)
        await user.expect_visible(user.heading("Install Counter"))
        await user.expect_visible(user.text("Ada Porter"))
        await user.select(user.field("Store"), "Porch")
        await user.page.get_by_role("checkbox", name="See orders").uncheck()
        await screenshot(user.page, "install-link")
        await decide(user, "Approve", returned)

        done = verify_install(user.page.url, app.client_id, secret, state=STATE)
        assert done.store == second.handle
        event = (await endpoint.until(1))[0].verify(secret)
        assert (event["type"], event["data"]["scopes"]) == ("app.installed", ["products:read"])
        [listed] = list(installations(*credentials))
        base_url = listed.store.base_url
        assert base_url == event["store"]["base_url"] == f"{portal.url}/stores/{second.handle}"
        assert (listed.status, listed.scopes) == ("installed", ["products:read"])

        token = get_token(credentials)
        assert call(base_url, token, "products") == 200
        assert call(base_url, token, "orders") == 403

        await uninstall(by, app.client_id, second.handle)
        gone = (await endpoint.until(2))[1].verify(secret)
        assert (gone["type"], gone["store"]) == ("app.uninstalled", event["store"])
        assert [each.status for each in installations(*credentials, updated_since=listed.updated_at)] == ["uninstalled"]

        await user.page.goto(link)
        await user.select(user.field("Store"), "Porch")
        await decide(user, "Approve", returned)
        assert (await endpoint.until(3))[2].verify(secret)["data"]["scopes"] == list(REASONS)
        await asyncio.sleep(TTL_S)  # a process may have cached the installation before for this long
        assert call(base_url, token, "products") == 401
        assert call(base_url, get_token(credentials), "orders") == 200

        await user.page.goto(link)
        await decide(user, "Refuse", returned)
        assert f"state={STATE}&error=access_denied" in user.page.url
        await user.page.goto(link.replace("page%3D1", "page%3D2"))
        await user.expect_visible(user.heading("Invalid install link"))
        assert {each.store.id for each in installations(*credentials)} == {second.id}
        await install(by, app.client_id, first.handle)
        assert [each.store.id for each in installations(*credentials)] == [first.id, second.id]


async def sign_in_at(user: Pointer, link: str, email: str) -> None:
    """Open the link as a visitor; the sign-in leads back to it."""
    await user.page.goto(link)
    await user.fill(user.field("Email"), email)
    await user.fill(user.field("Password"), PASSWORD)
    await user.click(user.button("Sign in"))


async def decide(user: Pointer, button: str, returned: Receiver) -> None:
    await user.click(user.button(button))
    await user.page.wait_for_url(f"{returned.url}**")


def get_token(credentials: tuple[str, str, str]) -> str:
    url, *client = credentials
    answer = httpx.post(url, data={"grant_type": "client_credentials"}, auth=(client[0], client[1]))
    return answer.json()["access_token"]


def call(base_url: str, token: str, path: str) -> int:
    return httpx.get(f"{base_url}/api/v3/app/{path}", headers={"authorization": f"Bearer {token}"}).status_code
