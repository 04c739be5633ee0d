"""Photographs every page at three widths, light and dark, from a temporary demo: `make screenshots`.

The shots are in `artefacts/screenshots`, with one sheet for each page that shows all six. The command fails if it did not
reach a page of the site map, if a page is wider than the screen or too heavy, or, with `--axe`, if axe finds a violation.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import click
import msgspec
from playwright.sync_api import Browser, Error, Page, Request
from tests.support.axe import AXE, CONTRAST, ON_A_PHONE, RUN, TOO_WIDE

from stoa.portal.kit import pages as portal
from stoa.portal.kit.pages import Audience
from stoa.portal.site_map import PAGES
from stoa.portal.stores.order_forms import ACTIONS
from stoa.reference.page import addresses
from tools.pictures.answers import ANSWERS, Answer
from tools.pictures.demo import SHOWN, Demo, open_browser, running_demo, sign_in
from tools.pictures.samples import (
    CAREFUL,
    COLLEAGUE,
    DEVELOPER,
    MERCHANT,
    NEWCOMER,
    OPERATOR,
    PASSWORD,
    create_samples,
)

FOLDER = Path(__file__).parents[2] / "artefacts" / "screenshots"
WIDTHS = (1440, 1180, 390)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MAX_WEIGHT = 40_000  # bytes as transferred, without images: the page, its style sheets and its scripts
# What axe checks: contrast depends on the theme, and the other rules on the width.
CHECKS: Mapping[tuple[int, str], dict[str, Any]] = {
    (1440, "light"): {},
    (1440, "dark"): CONTRAST,
    (390, "light"): ON_A_PHONE,
}
GUEST = ""
REDIRECTS = {
    "theme_page": "it only leads from an old address to the overview",
    "verify_page": "it only confirms the link of an email",
}
# A query that fills a page, and the parameter that differs from the one that most pages mean.
QUERIES = {"store_search": "?q=linen", "app_usage": "?days=30"}
TOKENS = {"set_up_page": "set_up", "invitation_page": "invited", "new_password_page": "reset"}
# The order whose state allows an action; the others are possible after it was shipped.
ORDERS = {
    **dict.fromkeys(("pay", "hold"), "pending_order_id"),
    **dict.fromkeys(("ship", "status", "cancel", "edit", "move"), "processing_order_id"),
}
# Further states of pages: who looks, and at what.
STATES: Mapping[str, tuple[str, str]] = {
    "dashboard-first-visit": (NEWCOMER, "/portal"),
    "dashboard-merchant": (MERCHANT, "/portal"),
    "dashboard-operator": (OPERATOR, "/portal"),
    "list_apps-empty": (NEWCOMER, "/portal/apps"),
    "list_stores-empty": (NEWCOMER, "/portal/stores"),
    "list_stores-operator": (OPERATOR, "/portal/stores"),
    "notifications_page-empty": (NEWCOMER, "/portal/notifications"),
    "access_tokens-empty": (NEWCOMER, "/portal/access-token"),
    "error-not-found": (DEVELOPER, "/portal/nothing/here"),
    "error-not-found-guest": (GUEST, "/portal/nothing/here"),
    "error-not-allowed": (COLLEAGUE, "/portal/stores/demo/import"),
    "error-install-link": (MERCHANT, "/portal/install/nobody"),
    "store_customers-viewer": (COLLEAGUE, "/portal/stores/demo/customers"),
    "store_order-viewer": (COLLEAGUE, "/portal/stores/demo/orders/{order_id}"),
    "store_settings-viewer": (COLLEAGUE, "/portal/stores/demo/settings"),
    "store_team-viewer": (COLLEAGUE, "/portal/stores/demo/team"),
    "store_order-pending": (MERCHANT, "/portal/stores/demo/orders/{pending_order_id}"),
    "store_order-duplicate": (MERCHANT, "/portal/stores/demo/orders/{duplicate_order_id}"),
    "store_orders-no-match": (MERCHANT, "/portal/stores/demo/orders?q=nothing"),
    "store_home-by-week": (MERCHANT, "/portal/stores/demo/home?by=week"),
    "store_home-empty": (MERCHANT, "/portal/stores/corner/home"),
    "store_home-yen": (MERCHANT, "/portal/stores/atelier/home"),
    "ship_page-selected": (MERCHANT, "/portal/stores/demo/orders/ship?ids={pending_order_id},{order_id}"),
    "packing_slips-selected": (MERCHANT, "/portal/stores/demo/orders/packing-slips?ids={pending_order_id},{order_id}"),
    "pick_list-selected": (
        MERCHANT,
        "/portal/stores/demo/orders/pick-list?ids={pending_order_id},{duplicate_order_id}",
    ),
    "store_page-empty": (MERCHANT, "/portal/stores/corner"),
    "store_products-empty": (MERCHANT, "/portal/stores/corner/products"),
    "store_orders-empty": (MERCHANT, "/portal/stores/corner/orders"),
    "store_customers-empty": (MERCHANT, "/portal/stores/corner/customers"),
    "store_imports-empty": (MERCHANT, "/portal/stores/corner/imports"),
    "store_search-no-match": (MERCHANT, "/portal/stores/demo/search?q=nothing"),
    "store_page-yen": (MERCHANT, "/portal/stores/atelier"),
    "transfer_page-yen": (MERCHANT, "/portal/stores/atelier/transfer"),
    "store_orders-yen": (MERCHANT, "/portal/stores/atelier/orders"),
    "app_page-not-installed": (DEVELOPER, "/portal/apps/{asking_id}"),
    "app_usage-empty": (DEVELOPER, "/portal/apps/{asking_id}/usage"),
    "app_usage-24h": (DEVELOPER, "/portal/apps/{app_id}/usage?range=24h"),
    "app_requests-empty": (DEVELOPER, "/portal/apps/{asking_id}/requests"),
    "app_webhooks-empty": (DEVELOPER, "/portal/apps/{asking_id}/webhooks"),
    "app_stores-waiting": (DEVELOPER, "/portal/apps/{asking_id}/stores"),
    "operator_load-month": (OPERATOR, "/portal/operators/load?range=30d"),
    "operator_app-suspended": (OPERATOR, "/portal/operators/apps/{suspended_id}"),
    "app_page-suspended": (DEVELOPER, "/portal/apps/{suspended_id}"),
    "docs-search": (GUEST, "/docs/search?q=refund"),
    "docs-search-no-match": (GUEST, "/docs/search?q=xyzzy"),
    "docs-problem": (GUEST, "/problems/insufficient_stock"),
    "docs-fault": (GUEST, "/problems/out_of_range"),
    "docs-not-found": (GUEST, "/docs/nothing/here"),
}


class Visit(msgspec.Struct, frozen=True):
    """A page to photograph: its name, who looks at it, and its address."""

    name: str
    email: str
    address: str
    declared: str = ""  # the name in the site map


@click.command()
@click.option("--only", default="", help="Only pages whose names match this regular expression.")
@click.option("--axe", is_flag=True, help="Also check each page with axe, which takes three times as long.")
def main(*, only: str, axe: bool) -> None:
    (FOLDER / "shots").mkdir(parents=True, exist_ok=True)
    with running_demo() as demo:
        params = create_samples(demo)
        with open_browser(demo) as browser:
            album = Album(browser, demo, axe=axe)
            for visit in _visits(params):
                if re.search(only, visit.name):
                    album.take(visit)
            for name, answer in ANSWERS.items():
                if re.search(only, name):
                    album.follow(name, answer, params)
    click.echo(f"{len(album.names)} pages, {len(WIDTHS) * len(THEMES)} shots of each: {FOLDER}")
    for name, why in REDIRECTS.items():
        click.echo(f"left out: {name}, because {why}")
    for name in sorted(album.weights, key=lambda name: album.weights[name])[-3:]:
        click.echo(f"heaviest: {name} with {album.weights[name]:,} bytes")
    if album.faults:
        sys.exit(f"{len(album.faults)} faults, printed above")


def _visits(params: dict[str, Any]) -> Iterator[Visit]:
    for page in PAGES:
        if page.name not in REDIRECTS:
            chosen = params | {"token": params[TOKENS.get(page.name, "reset")]}
            yield Visit(page.name, _reader(page), page.url(chosen) + QUERIES.get(page.name, ""), page.name)
    for action in ACTIONS:
        order = params[ORDERS.get(action, "order_id")]
        yield Visit(f"order_action-{action}", MERCHANT, f"/portal/stores/demo/orders/{order}/{action}", "order_action")
    for name, (email, address) in STATES.items():
        yield Visit(name, email, address.format(**params))
    for address in _documents():
        yield Visit(address.strip("/").replace("/", "-"), GUEST, address, "documentation")


def _documents() -> Iterator[str]:
    """The pages of the documentation: of the operations and events of a group, the first, because they share a template."""
    seen: set[str] = set()
    for address in addresses():
        group, _, name = address.removeprefix("/docs/").partition("/")
        if group == "guides" or not name or group not in seen:
            yield address
        if name:
            seen.add(group)


def _reader(page: portal.Page) -> str:
    """Who looks at a page: the person for whom it was made."""
    if page.audience is Audience.OPERATOR:
        return OPERATOR
    if page.audience is Audience.TWO_FACTOR_PENDING:
        return CAREFUL
    if page.audience is not Audience.SIGNED_IN:
        return GUEST
    return MERCHANT if page.nav == "list_stores" else DEVELOPER


class Album:
    """Takes the shots, each person in a browser context of their own, and lays them out on sheets."""

    def __init__(self, browser: Browser, demo: Demo, *, axe: bool) -> None:
        self._browser, self._demo, self._axe = browser, demo, axe
        self._table = browser.new_page()
        self._pages: dict[str, Page] = {}
        self._requests: list[Request] = []
        self.names: list[str] = []
        self.faults: list[str] = []
        self.weights: dict[str, int] = {}

    def take(self, visit: Visit) -> None:
        page = self.page_of(visit.email)
        self._requests.clear()
        response = page.goto(SHOWN + visit.address)
        page.wait_for_load_state()
        weight = sum(each.sizes()["responseBodySize"] for each in self._requests if each.resource_type != "image")
        self.weights[visit.name] = weight
        if weight > MAX_WEIGHT:
            self._report(f"{visit.name} weighs {weight:,} bytes")
        path, status = urlsplit(page.url).path, response.status if response else 0
        if visit.declared and (path != urlsplit(visit.address).path or status != 200):
            self._report(f"{visit.name} was not reached: {status} {path}")
        self.shoot(page, visit.name)

    def follow(self, name: str, answer: Answer, params: dict[str, Any]) -> None:
        """Photograph the page that answers a form."""
        page = self._browser.new_page() if answer.fresh else self.page_of(answer.email)
        try:
            answer.work(page, params)
        except Error as error:
            self._report(f"{name} was not reached: {error.message}")
        self.shoot(page, name)
        if answer.fresh:
            page.context.close()

    def page_of(self, email: str) -> Page:
        if email not in self._pages:
            page = self._pages[email] = self._browser.new_page()
            devtools: Any = page.context.new_cdp_session(page)
            devtools.send("Network.enable")  # without it, the cache stays on, and pages weigh too little
            devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
            page.on("requestfinished", lambda request: self._requests.append(request))  # noqa: PLW0108 - a bound method fails
            if email:
                sign_in(page, email, self._demo.password if email == OPERATOR else PASSWORD)
        return self._pages[email]

    def shoot(self, page: Page, name: str) -> None:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for theme in THEMES:
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # no transition between themes
                page.screenshot(path=_file(name, width, theme), full_page=True)
                self._check(page, f"{name}, {width}, {theme}", CHECKS.get((width, theme)))
        self._make_sheet(name)
        self.names.append(name)

    def _check(self, page: Page, name: str, options: dict[str, Any] | None) -> None:
        too_wide: int = page.evaluate(TOO_WIDE)
        if too_wide > 0:
            self._report(f"{name} is {too_wide} pixels too wide")
        if self._axe and options is not None:
            if page.evaluate("typeof axe") == "undefined":
                page.evaluate(AXE)
            violations, _ = page.evaluate(RUN, [options, ""])
            for violation in violations:
                self._report(f"{name}: {violation}")

    def _report(self, fault: str) -> None:
        """Print a fault as soon as it is found: all pages take half an hour."""
        click.echo(fault, err=True)
        self.faults.append(fault)

    def _make_sheet(self, name: str) -> None:
        """Lay out the shots of a page at half their size: light above dark."""
        source = FOLDER / "sheet.html"
        rows = (f"<div>{''.join(_image(name, width, theme) for width in WIDTHS)}</div>" for theme in THEMES)
        source.write_text(f"<style>{_STYLE}</style>{''.join(rows)}")
        self._table.set_viewport_size({"width": sum(WIDTHS) // 2 + 16 * (len(WIDTHS) + 1), "height": 400})
        self._table.goto(source.as_uri())
        self._table.screenshot(path=FOLDER / f"{name}.png", full_page=True)
        source.unlink()


_STYLE = """body { margin: 16px; background: #888; } div { display: flex; gap: 16px; align-items: flex-start; margin-bottom: 16px; }
img { max-height: 1000px; object-fit: cover; object-position: top; }"""


def _file(name: str, width: int, theme: str) -> Path:
    return FOLDER / "shots" / f"{name}-{width}-{theme}.png"


def _image(name: str, width: int, theme: str) -> str:
    return f'<img width="{width // 2}" src="{_file(name, width, theme).as_uri()}">'


if __name__ == "__main__":
    main()
