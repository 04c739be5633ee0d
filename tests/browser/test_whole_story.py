"""The whole story in one piece, from the first start to a token that is refused: pointing, by keyboard, on a phone."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Locator, expect

from tests.browser.conftest import House, NewPage, picture
from tests.browser.hands import Hands, Keyboard
from tests.browser.receiving import running
from tests.portal.people import PASSWORD
from tests.support.service import free_port, until

APP, SHOP = "Stock sync", "Agora"
SCOPES = {
    "See products and their variants.": "To show your goods elsewhere.",
    "Create and change orders, set their status and comment on them.": "To bring orders in.",
    "Create, change, test and delete this app's webhooks.": "To hear of each order.",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "phone"),
    [
        pytest.param(Hands, False, id="pointing"),
        pytest.param(Keyboard, False, id="keyboard"),
        pytest.param(Hands, True, id="phone"),
    ],
)
async def test_from_the_first_start_to_a_token_that_is_refused(
    new_house: House, new_page: NewPage, tmp_path: Path, kind: type[Hands], phone: bool
) -> None:
    await set_up(kind(await new_page(phone=phone)), new_house)
    hands = kind(await new_page(phone=phone))
    await sign_up(hands, new_house)
    secret = await register(hands)
    line = await hands.copied("In a terminal")
    assert len(json.loads(pasted(line, tmp_path))["data"]) == 2
    handle = await hands.page.locator("#base-url").inner_text()
    await hands.press(hands.link("I have kept the secret"))
    await hands.see(hands.heading(APP))
    client_id = await hands.page.locator("#client-id").inner_text()
    app = Caller(new_house, client_id, secret, handle.rpartition("/")[2])
    await install_on_a_shop(hands, new_house, app)

    port = free_port()
    code, start = await subscribe(hands, new_house, f"http://localhost:{port}/")
    with running(code, start, tmp_path, port) as heard:
        await hands.press(hands.button("Send a test"))
        await hands.see(hands.heading("It arrived"))
        order = await app.place_order()
        until(lambda: "order.created" in heard.read_text(), "the order is told of")
        await look_up(hands, f"order {order}")
        before = heard.read_text().count("order.created")  # twice is possible: an answer can get lost
        await hands.press(hands.button("Send again"))
        await hands.see(hands.words("It is being sent again"))
        until(lambda: heard.read_text().count("order.created") > before, "it is told of again")
        await arrived(hands, f"order {order}, sent again")
        assert "REFUSED" not in heard.read_text()

    await rotate(hands, app)
    await uninstall(hands, new_house, app)


async def set_up(hands: Hands, house: House) -> None:
    """The first account, at the address that the service said when it started."""
    await hands.page.goto(house.set_up)
    await hands.see(hands.heading("Set up this service"))
    await hands.write(hands.field("Your name"), "First Person")
    await hands.write(hands.field("E-mail address"), "first@example.com")
    await hands.write(hands.field("Password"), PASSWORD)
    await hands.press(hands.button("Make the first account"))
    await hands.see(hands.heading("Good to see you, First"))


async def sign_up(hands: Hands, house: House) -> None:
    await hands.page.goto(f"{house.url}/portal")
    await hands.press(hands.link("Make an account"))
    await hands.see(hands.heading("Make an account"))
    await hands.write(hands.field("Your name"), "Maria Stone")
    await hands.write(hands.field("E-mail address"), "maria@example.com")
    await hands.write(hands.field("Password"), PASSWORD)
    await hands.press(hands.button("Make the account"))
    await hands.see(hands.heading("Good to see you, Maria"))


async def register(hands: Hands) -> str:
    """Register an app with a development store; answers the secret, which is shown this once."""
    await hands.press(hands.link("Begin: Register an app"))
    await hands.see(hands.heading("Register an app"))
    await hands.write(hands.field("Name"), APP)
    for scope, reason in SCOPES.items():
        await hands.tick(hands.page.get_by_role("checkbox", name=re.compile(f"^{re.escape(scope)}")))
        await hands.write(hands.field("Why it needs this"), reason)
    await hands.press(hands.button("Register the app"))
    await hands.see(hands.heading(f"{APP} is registered"))
    secret = await hands.copied("the client secret")
    assert re.fullmatch(r"stoa_cs_\w+", secret)
    return secret


def pasted(line: str, folder: Path) -> str:
    """What a terminal says to a line."""
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Caller:
    """The app itself: what it gets with its credentials, at its development store unless another is named."""

    def __init__(self, house: House, client_id: str, secret: str, handle: str) -> None:
        self.house = house
        self.client_id = client_id
        self.secret = secret
        self.handle = handle
        self.token = ""

    async def token_status(self, secret: str = "") -> int:
        """Exchange a secret for a token, and go on with that."""
        async with httpx.AsyncClient(base_url=self.house.url) as client:
            credentials = (self.client_id, secret or self.secret)
            answer = await client.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=credentials)
        if answer.status_code == 200:
            self.token = answer.json()["access_token"]
        return answer.status_code

    async def ask(self, method: str, path: str, handle: str = "", **more: Any) -> httpx.Response:
        base = f"{self.house.url}/stores/{handle or self.handle}/api/v3/app"
        async with httpx.AsyncClient() as client:
            return await client.request(method, base + path, headers={"authorization": f"Bearer {self.token}"}, **more)

    async def place_order(self) -> int:
        assert await self.token_status() == 200
        product = (await self.ask("GET", "/products?in_stock=true&limit=1&include=variants")).json()["data"][0]
        line = {"variant_id": product["variants"][0]["id"], "quantity": 1}
        placed = await self.ask(
            "POST", "/orders", json={"line_items": [line], "customer": {"email": "ada@example.com"}}
        )
        assert placed.status_code == 201, placed.text
        return placed.json()["data"]["id"]


async def install_on_a_shop(hands: Hands, house: House, app: Caller) -> None:
    """Open a shop, ask it to install the app, read what it wants and let it in."""
    at_app = hands.page.url
    await hands.page.goto(f"{house.url}/portal/stores")
    await hands.press(hands.link("Open a store"))
    await hands.see(hands.heading("Open a store"))
    await hands.write(hands.field("Name"), SHOP)
    await hands.write(hands.field("Handle"), "agora")
    await hands.press(hands.button("Open the store"))
    await hands.see(hands.words("Agora is open."))
    assert await app.token_status() == 200
    assert (await app.ask("GET", "/products", "agora")).json()["code"] == "app_not_installed"

    await hands.page.goto(f"{at_app}/stores")
    await hands.write(hands.field("The store's handle or address"), "agora")
    await hands.press(hands.button("Ask to be installed"))
    await hands.see(hands.words("The owner of agora now sees your request."))
    await hands.page.goto(f"{house.url}/portal")
    await hands.press(hands.link(f"Decide on {APP}"))
    await hands.see(hands.heading(f"{APP} would like to be let in"))
    await hands.see(hands.words("“To bring orders in.”"))
    await hands.press(hands.button("Let it in"))
    await hands.see(hands.words(f"{APP} is installed."))
    await granted(app, "agora", 200)
    await hands.page.goto(at_app)


async def granted(app: Caller, handle: str, status: int) -> httpx.Response:
    """What the shop answers, once what was decided a moment ago is in force: that takes less than a second."""
    answer = await app.ask("GET", "/products", handle)
    for _ in range(500):
        if answer.status_code == status:
            break
        answer = await app.ask("GET", "/products", handle)
    assert answer.status_code == status, answer.text
    return answer


async def subscribe(hands: Hands, house: House, url: str) -> tuple[str, str]:
    """Hear of orders in the development store; answers the receiver that the page shows, and how to start it."""
    await hands.press(hands.link("Webhooks"))
    await hands.press(hands.link("Subscribe to events"))
    await hands.see(hands.heading("Subscribe to events"))
    await hands.choose(hands.field("Store"), "Development store")
    await hands.write(hands.field("Where to send them"), url)
    await hands.tick(hands.page.get_by_role("checkbox", name=re.compile("^An order was placed")))
    await hands.press(hands.button("Subscribe"))
    await hands.see(hands.heading("Subscribed"))
    return await hands.copied("receiver.py"), await hands.copied("In a terminal")


async def look_up(hands: Hands, told: str) -> None:
    """Find the delivery in the log, and open it."""
    await hands.press(hands.link("Delivery log"))
    await hands.see(hands.heading("Delivery log"))
    await hands.press((await arrived(hands, told)).get_by_role("link"))
    await hands.see(hands.heading("order.created"))
    await expect(hands.page.get_by_text('"type": "order.created"')).to_be_visible()


async def arrived(hands: Hands, told: str) -> Locator:
    """The row of the log that says so; what arrived is written down a moment later."""
    row = hands.page.get_by_role("row").filter(has_text=told).filter(has_text="Succeeded")
    for _ in range(100):
        if await row.count():
            break
        await hands.page.reload()
    await hands.see(row.first)
    return row.first


async def rotate(hands: Hands, app: Caller) -> None:
    """A new secret; the old one works beside it, until it is ended."""
    await hands.press(hands.link("Credentials"))
    await hands.see(hands.heading("New secret"))
    await hands.choose(hands.field("The old secret goes on working for"), "24 hours")
    await hands.press(hands.button("Make a new secret"))
    await hands.see(hands.heading(f"{APP} has a new secret"))
    fresh = await hands.copied("the client secret")
    assert fresh != app.secret
    assert await app.token_status() == 200
    assert await app.token_status(fresh) == 200
    await hands.press(hands.link("I have kept the secret"))
    await hands.press(hands.link("Credentials"))
    await hands.press(hands.button("End it now"))
    await hands.see(hands.words("The old secret no longer works."))
    assert await app.token_status() == 401
    assert await app.token_status(fresh) == 200
    await picture(hands.page, "old-secret-ended")


async def uninstall(hands: Hands, house: House, app: Caller) -> None:
    """Put the app off the development store: its token is refused there, and nowhere else."""
    assert (await app.ask("GET", "/products")).status_code == 200
    await hands.page.goto(f"{house.url}/portal/stores/{app.handle}")
    await hands.press(hands.link(APP))
    await hands.see(hands.heading("What it may do here"))
    await hands.press(hands.button(f"Uninstall {APP}"))
    await hands.see(hands.words(f"{APP} is off this store. Its tokens are refused."))
    assert (await granted(app, app.handle, 403)).json()["code"] == "app_not_installed"
    assert (await app.ask("GET", "/products", "agora")).status_code == 200
