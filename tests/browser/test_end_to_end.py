"""End-to-end test from the first start to a revoked token: with a pointer, with the keyboard, and on a phone."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Locator, expect

from tests.browser.conftest import NewPage, PortalService
from tests.browser.interaction import Keyboard, Pointer
from tests.browser.receiver_process import running_receiver
from tests.support.people import PASSWORD
from tests.support.screenshots import screenshot
from tests.support.service import free_port, until

APP, STORE = "Stock sync", "Agora"
SCOPES = {
    "See products and their variants.": "To show your products elsewhere.",
    "Create and change orders, set their status and comment on them.": "To create orders.",
    "Create, change, test and delete this app's webhooks.": "To subscribe to orders.",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "phone"),
    [
        # The other stories use a pointer on a wide screen.
        pytest.param(Keyboard, False, id="keyboard"),
        pytest.param(Pointer, True, id="phone"),
    ],
)
@pytest.mark.long
async def test_from_the_first_start_to_a_revoked_token(
    fresh_portal: PortalService, new_page: NewPage, tmp_path: Path, kind: type[Pointer], phone: bool
) -> None:
    await set_up(kind(await new_page(phone=phone)), fresh_portal)
    user = kind(await new_page(phone=phone))
    await sign_up(user, fresh_portal)
    secret = await register(user)
    command = await user.copy("Command")
    assert len(json.loads(run(command, tmp_path))["data"]) == 2
    handle = await user.page.locator("#base-url").inner_text()
    await user.click(user.link("I have saved the secret"))
    await user.expect_visible(user.heading(APP))
    client_id = await user.page.locator("#client-id").inner_text()
    app = Caller(fresh_portal, client_id, secret, handle.rpartition("/")[2])
    await install_on_store(user, fresh_portal, app)

    port = free_port()
    code, start = await subscribe(user, fresh_portal, f"http://localhost:{port}/")
    with running_receiver(code, start, tmp_path, port) as log:
        await user.click(user.button("Send test"))
        await user.expect_visible(user.heading("Test succeeded"))
        order = await app.place_order()
        until(lambda: "order.created" in log.read_text(), "the event arrives")
        await open_delivery(user, f"order #{order}")
        before = log.read_text().count("order.created")  # delivery is at-least-once
        await user.click(user.button("Redeliver"))
        await user.expect_visible(user.text("Redelivering the event"))
        until(lambda: log.read_text().count("order.created") > before, "the redelivery arrives")
        await succeeded(user, f"order #{order}, redelivery")
        assert "REFUSED" not in log.read_text()

    await see_request(user, "POST /orders", "201")
    await rotate(user, app)
    await uninstall(user, fresh_portal, app)


async def set_up(user: Pointer, portal: PortalService) -> None:
    """Create the first account with the setup link."""
    await user.page.goto(await portal.setup_url())
    await user.expect_visible(user.heading("Set up this service"))
    await user.fill(user.field("Name"), "First Person")
    await user.fill(user.field("Email"), "first@example.com")
    await user.fill(user.field("Password"), PASSWORD)
    await user.click(user.button("Create account"))
    await user.expect_visible(user.heading("Welcome, First"))


async def sign_up(user: Pointer, portal: PortalService) -> None:
    await user.page.goto(f"{portal.url}/portal")
    await user.click(user.link("Create an account"))
    await user.expect_visible(user.heading("Create an account"))
    await user.fill(user.field("Name"), "Maria Stone")
    await user.fill(user.field("Email"), "maria@example.com")
    await user.fill(user.field("Password"), PASSWORD)
    await user.click(user.button("Create account"))
    await user.expect_visible(user.heading("Welcome, Maria"))


async def register(user: Pointer) -> str:
    """Register an app with a development store; return its secret."""
    await user.click(user.link("Start: Register an app"))
    await user.expect_visible(user.heading("Register an app"))
    await user.fill(user.field("Name"), APP)
    for scope, reason in SCOPES.items():
        await user.check(user.page.get_by_role("checkbox", name=re.compile(f"^{re.escape(scope)}")))
        await user.fill(user.field("Reason"), reason)
    await user.click(user.button("Register app"))
    await user.expect_visible(user.heading(f"{APP} is registered"))
    secret = await user.copy("client secret")
    assert re.fullmatch(r"stoa_cs_\w+", secret)
    return secret


def run(command: str, folder: Path) -> str:
    """Run a shell command and return its output."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Caller:
    """Calls the API as the app, on its development store by default."""

    def __init__(self, portal: PortalService, client_id: str, secret: str, handle: str) -> None:
        self.portal = portal
        self.client_id = client_id
        self.secret = secret
        self.handle = handle
        self.token = ""

    async def token_status(self, secret: str = "") -> int:
        """Exchange a secret for a token, and use that from now on."""
        async with httpx.AsyncClient(base_url=self.portal.url) as client:
            credentials = (self.client_id, secret or self.secret)
            response = await client.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=credentials)
        if response.status_code == 200:
            self.token = response.json()["access_token"]
        return response.status_code

    async def request(self, method: str, path: str, handle: str = "", **more: Any) -> httpx.Response:
        base = f"{self.portal.url}/stores/{handle or self.handle}/api/v3/app"
        async with httpx.AsyncClient() as client:
            return await client.request(method, base + path, headers={"authorization": f"Bearer {self.token}"}, **more)

    async def place_order(self) -> int:
        assert await self.token_status() == 200
        product = (await self.request("GET", "/products?in_stock=true&limit=1&include=variants")).json()["data"][0]
        line = {"variant_id": product["variants"][0]["id"], "quantity": 1}
        placed = await self.request(
            "POST", "/orders", json={"line_items": [line], "customer": {"email": "ada@example.com"}}
        )
        assert placed.status_code == 201, placed.text
        return placed.json()["data"]["number"]


async def install_on_store(user: Pointer, portal: PortalService, app: Caller) -> None:
    """Create a store, send it an install request, and approve the request."""
    app_url = user.page.url
    await user.page.goto(f"{portal.url}/portal/stores")
    await user.click(user.link("Create store"))
    await user.expect_visible(user.heading("Create store"))
    await user.fill(user.field("Name"), STORE)
    await user.fill(user.field("Handle"), "agora")
    await user.click(user.button("Create store"))
    await user.expect_visible(user.text("Agora was created."))
    assert await app.token_status() == 200
    assert (await app.request("GET", "/products", "agora")).json()["code"] == "app_not_installed"

    await user.page.goto(f"{app_url}/stores")
    await user.fill(user.field("Store handle or URL"), "agora")
    await user.click(user.button("Send request"))
    await user.expect_visible(user.text("Request sent to the owner of agora."))
    await user.page.goto(f"{portal.url}/portal")
    await user.click(user.link(f"Review {APP}"))
    await user.expect_visible(user.heading(f"{APP} asks to be installed"))
    await user.expect_visible(user.text("“To create orders.”"))
    await user.click(user.button("Approve"))
    await user.expect_visible(user.text(f"{APP} is installed."))
    await wait_for_status(app, "agora", 200)
    await user.page.goto(app_url)


async def wait_for_status(app: Caller, handle: str, status: int) -> httpx.Response:
    """Wait until the store answers with this status; changes of access take effect within a second."""
    response = await app.request("GET", "/products", handle)
    for _ in range(500):
        if response.status_code == status:
            break
        response = await app.request("GET", "/products", handle)
    assert response.status_code == status, response.text
    return response


async def subscribe(user: Pointer, portal: PortalService, url: str) -> tuple[str, str]:
    """Subscribe to orders of the development store; return the example receiver and its command."""
    await user.click(user.link("Webhooks"))
    await user.click(user.link("Subscribe to events"))
    await user.expect_visible(user.heading("Subscribe to events"))
    await user.select(user.field("Store"), "Development store")
    await user.fill(user.field("Receiver URL"), url)
    await user.check(user.page.get_by_role("checkbox", name=re.compile("^An order was created")))
    await user.click(user.button("Subscribe"))
    await user.expect_visible(user.heading("Subscription created"))
    return await user.copy("receiver.py"), await user.copy("Command")


async def open_delivery(user: Pointer, text: str) -> None:
    """Find the delivery in the log and open it."""
    await user.click(user.link("Delivery log"))
    await user.expect_visible(user.heading("Delivery log"))
    await user.click((await succeeded(user, text)).get_by_role("link"))
    await user.expect_visible(user.heading("order.created"))
    await expect(user.page.get_by_text('"type": "order.created"')).to_be_visible()


async def succeeded(user: Pointer, text: str) -> Locator:
    """Return the row of a successful delivery; the log is updated a moment after the delivery."""
    row = user.page.get_by_role("row").filter(has_text=text).filter(has_text="Succeeded")
    for _ in range(100):
        if await row.count():
            break
        await user.page.reload()
    await user.expect_visible(row.first)
    return row.first


async def see_request(user: Pointer, request: str, status: str) -> None:
    """Find a request of the app in its log, which is written every few seconds."""
    await user.click(user.link("Requests"))
    await user.expect_visible(user.heading("Requests"))  # a reload before the page has loaded would fail
    row = user.page.get_by_role("row").filter(has_text=request).filter(has_text=status)
    for _ in range(100):
        if await row.count():
            break
        await user.page.reload()
    await user.expect_visible(row.first)


async def rotate(user: Pointer, app: Caller) -> None:
    """Rotate the secret; the old one is valid until it is revoked."""
    await user.click(user.link("Credentials"))
    await user.expect_visible(user.heading("Rotate secret"))
    await user.select(user.field("Keep the old secret valid for"), "24 hours")
    await user.click(user.button("Create new secret"))
    await user.expect_visible(user.heading(f"{APP} has a new secret"))
    new_secret = await user.copy("client secret")
    assert new_secret != app.secret
    assert await app.token_status() == 200
    assert await app.token_status(new_secret) == 200
    await user.click(user.link("I have saved the secret"))
    await user.click(user.link("Credentials"))
    await user.click(user.button("Revoke now"))
    await user.expect_visible(user.text("The old secret was revoked."))
    assert await app.token_status() == 401
    assert await app.token_status(new_secret) == 200
    await screenshot(user.page, "old-secret-revoked")


async def uninstall(user: Pointer, portal: PortalService, app: Caller) -> None:
    """Uninstall the app from the development store; its token still works on the other store."""
    assert (await app.request("GET", "/products")).status_code == 200
    await user.page.goto(f"{portal.url}/portal/stores/{app.handle}")
    await user.click(user.link(APP))
    await user.expect_visible(user.heading("Scopes"))
    await user.check(user.page.get_by_label(f"End the access of {APP}"))
    await user.click(user.button(f"Uninstall {APP}"))
    await user.expect_visible(user.text(f"{APP} was uninstalled. Its tokens no longer work here."))
    assert (await wait_for_status(app, app.handle, 403)).json()["code"] == "app_not_installed"
    assert (await app.request("GET", "/products", "agora")).status_code == 200
