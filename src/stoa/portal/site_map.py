"""All pages and forms of the portal, and the navigation."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import msgspec
from starlette.routing import Route

from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.portal import account, apps, operators, stores
from stoa.portal.kit.dispatch import PageHandler
from stoa.portal.kit.pages import Form, Page, Pages
from stoa.portal.kit.visit import Visit
from stoa.portal.search import Destination, Destinations, search_pages
from stoa.rest.uploads import UploadSpace
from stoa.settings import Settings


@cache
def destinations() -> Destinations:
    """The pages of the navigation, the tabs and the actions, as the search finds them."""
    by_name = {page.name: page for page in PAGES}

    def tabs(named: Sequence[tuple[str, str]]) -> list[Destination]:
        return [Destination(title, by_name[page]) for title, page in named]

    def actions(named: Sequence[tuple[str, str, str]]) -> list[Destination]:
        return [Destination(title, by_name[page], words, "Action") for title, page, words in named]

    items = [(item.label, item.page) for section in NAVIGATION for item in section.items if item.page]
    return Destinations(
        [*tabs(items), *actions(ACTIONS)],
        [*tabs(APP_TABS), *actions(APP_ACTIONS)],
        [*tabs(STORE_TABS), *actions(STORE_ACTIONS)],
    )


MODULES: Sequence[Pages] = (
    *account.PAGES,
    *apps.PAGES,
    *stores.PAGES,
    *operators.PAGES,
    search_pages(destinations),
)
PAGES: list[Page] = [page for module in MODULES for page in module.pages]
FORMS: list[Form] = [form for module in MODULES for form in module.forms]


class Item(msgspec.Struct, frozen=True):
    """A navigation link to a page, or to a URL outside the portal."""

    label: str
    icon: str
    page: str = ""
    url: str = ""


class Section(msgspec.Struct, frozen=True):
    title: str
    items: tuple[Item, ...]
    operators: bool = False


NAVIGATION = (
    Section(
        "",
        (
            Item("Overview", "home", "dashboard"),
            Item("Apps", "app", "list_apps"),
            Item("Stores", "store", "list_stores"),
        ),
    ),
    Section(
        "Operators",
        (
            Item("All stores", "store", "operator_stores"),
            Item("All apps", "app", "operator_apps"),
            Item("Accounts", "people", "operator_accounts"),
            Item("Audit log", "log", "operator_audit"),
            Item("Announcements", "info", "operator_announcements"),
            Item("Email", "send", "operator_outbox"),
            Item("Health", "pulse", "operator_health"),
            Item("Load", "chart", "operator_load"),
            Item("Shards", "database", "operator_shards"),
        ),
        operators=True,
    ),
    Section("", (Item("API reference", "book", url="/docs"),)),
)
# The tabs of an app, and of a store.
APP_TABS = (
    ("Overview", "app_page"),
    ("Usage", "app_usage"),
    ("Requests", "app_requests"),
    ("Webhooks", "app_webhooks"),
    ("Endpoint", "app_endpoint"),
    ("Metadata", "app_metadata"),
    ("Credentials", "app_credentials"),
    ("Stores", "app_stores"),
    ("Team", "app_team"),
    ("Audit log", "app_audit"),
    ("Settings", "app_settings"),
)
STORE_TABS = (
    ("Home", "store_home"),
    ("Orders", "store_orders"),
    ("Products", "store_products"),
    ("Customers", "store_customers"),
    ("Apps", "store_page"),
    ("Imports", "store_imports"),
    ("Locations", "store_locations"),
    ("Metadata", "store_metadata"),
    ("Team", "store_team"),
    ("Audit log", "store_audit"),
    ("Settings", "store_settings"),
)


# What the palette offers besides: an action, its page, and other words for it.
ACTIONS = (
    ("Register an app", "new_app", "create new client"),
    ("Create a store", "new_store", "open new shop"),
    ("Change your password", "account_page", "profile name sessions devices security"),
    ("Turn on two-factor authentication", "two_factor_set_up", "2fa totp security recovery codes"),
    ("Notifications", "notifications_page", "email preferences unread"),
    ("Announcements", "announcements_page", "news maintenance"),
    ("Invite a person", "invite_page", "new account operator"),
)
APP_ACTIONS = (
    ("Create a webhook", "new_webhook", "new subscription receiver event"),
    ("Download a receiver", "app_receivers", "webhook python typescript example verify signature"),
    ("Live tail", "app_tail", "deliveries stream watch"),
    ("App file", "app_file", "toml push deploy"),
)
STORE_ACTIONS = (("Import a file", "new_import", "csv upload spreadsheet"),)


class Navigation(msgspec.Struct):
    sections: list[Section]
    app_tabs: tuple[tuple[str, str], ...] = APP_TABS
    store_tabs: tuple[tuple[str, str], ...] = STORE_TABS

    def label(self, tab: str) -> str:
        """What the tab with this page is called; empty if there is none."""
        return next((label for label, page in (*self.store_tabs, *self.app_tabs) if page == tab), "")


def navigation(visit: Visit) -> Navigation:
    operator = visit.account is not None and visit.account.operator
    return Navigation([section for section in NAVIGATION if operator or not section.operators])


def routes(
    database: Database,
    settings: Settings,
    uploads: UploadSpace,
    committed: Callable[[Database], Callable[[int], None]] = lambda _: lambda _: None,
    shards: Shards | None = None,
    collect: Callable[[Database], Awaitable[object]] | None = None,
) -> list[Route]:
    return PageHandler(database, settings, PAGES, FORMS, navigation, uploads, committed, shards, collect).routes()
