"""Pages without an address of their own, which answer a form: secrets, links, results, previews, and forms with faults."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyotp
from playwright.sync_api import Page

from tools.pictures.demo import SHOWN
from tools.pictures.samples import DEVELOPER, MERCHANT, NEWCOMER, OPERATOR, PASSWORD

Params = Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """Who fills in which form."""

    email: str
    work: Callable[[Page, Params], None]
    fresh: bool = False  # in a new browser, signed out


def _press(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("button", name=name, exact=True).last.click()
    page.wait_for_load_state()


def _pressing(path: str, button: str, **fields: str) -> Callable[[Page, Params], None]:
    """Open a page, fill in fields by their labels, and press a button."""

    def work(page: Page, params: Params) -> None:
        page.goto(SHOWN + path.format(**params))
        for label, value in fields.items():
            page.get_by_role("main").get_by_label(re.compile(f"^{label.replace('_', ' ')}\\b")).last.fill(value)
        _press(page, button)

    return work


def _register(page: Page, _: Params) -> None:
    page.goto(f"{SHOWN}/portal/register-app")
    page.get_by_label("Name", exact=True).fill("Label printer")
    page.locator("input[name=scopes][value='orders:read']").check()
    page.locator("input[name='reasons[orders:read]']").fill("To print a label for each order.")
    _press(page, "Register app")


def _subscribe(page: Page, params: Params) -> None:
    page.goto(f"{SHOWN}/portal/apps/{params['app_id']}/new-webhook")
    page.get_by_label("A product was created").check()
    _press(page, "Subscribe")


def _test(page: Page, params: Params) -> None:
    page.goto(f"{SHOWN}/portal/apps/{params['app_id']}/webhooks/demo/{params['webhook_id']}")
    _press(page, "Send test")


def _check_file(page: Page, _: Params) -> None:
    rows = "sku,name,price\nPL-STN-RND,Stone plate,28.00\nMG-CAF-MOS,Café Mug,15.50\nBW-OAK-LRG,Oak bowl,forty\n"
    page.goto(f"{SHOWN}/portal/stores/demo/import")
    page.locator("input[type=file]").set_input_files(
        {"name": "plates.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    )
    _press(page, "Check the file")
    page.get_by_role("heading", name="Start the import").wait_for()


def _turn_on(page: Page, _: Params) -> None:
    page.goto(f"{SHOWN}/portal/account/two-factor")
    key = page.locator("#totp-key").inner_text().replace(" ", "")
    page.get_by_label("6-digit code").fill(pyotp.TOTP(key).now())
    page.get_by_label("Password").fill(PASSWORD)
    _press(page, "Turn on")


def _menu(page: Page, _: Params) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{SHOWN}/portal")
    page.locator(".bar summary").click()


_APP, _DEMO = "/portal/apps/{app_id}", "/portal/stores/demo"
ANSWERS: Mapping[str, Answer] = {
    "sign_in_page-refused": Answer(
        "",
        _pressing("/portal/sign-in", "Sign in", Email="mira@example.com", Password="wrong"),  # noqa: S106
        fresh=True,
    ),
    "sign_up_page-faults": Answer("", _pressing("/portal/sign-up", "Create account"), fresh=True),
    "two_factor-recovery-codes": Answer(NEWCOMER, _turn_on),
    "new_app-faults": Answer(DEVELOPER, _pressing("/portal/register-app", "Register app")),
    "new_app-secret": Answer(DEVELOPER, _register),
    "app_credentials-secret": Answer(DEVELOPER, _pressing(f"{_APP}/credentials", "Create new secret")),
    "app_endpoint-secret": Answer(DEVELOPER, _pressing(f"{_APP}/endpoint", "Create new secret")),
    "app_team-invited": Answer(DEVELOPER, _pressing(f"{_APP}/team", "Send invitation", Email="max@example.com")),
    "access_tokens-token": Answer(DEVELOPER, _pressing("/portal/access-token", "Get a token")),
    "new_webhook-secret": Answer(DEVELOPER, _subscribe),
    "app_webhook-test": Answer(DEVELOPER, _test),
    "order_action-refund-faults": Answer(
        MERCHANT, _pressing(f"{_DEMO}/orders/{{order_id}}/refund", "Show the amount", For_shipping="x")
    ),
    "new_import-preview": Answer(MERCHANT, _check_file),
    "new_store-faults": Answer(MERCHANT, _pressing("/portal/open-store", "Create store", Handle="Not a handle")),
    "store_customer-forget": Answer(MERCHANT, _pressing(f"{_DEMO}/customers/{{customer_id}}", "Forget this customer")),
    "invite_page-invited": Answer(
        OPERATOR, _pressing("/portal/operators/invite", "Send invitation", Email="ivo@example.com")
    ),
    "operator_announcements-faults": Answer(OPERATOR, _pressing("/portal/operators/announcements", "Announce")),
    "dashboard-menu": Answer(OPERATOR, _menu),
}
