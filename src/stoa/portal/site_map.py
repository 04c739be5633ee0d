"""All pages and forms of the portal, and the navigation."""

from collections.abc import Callable, Sequence

import msgspec
from starlette.routing import Route

from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.portal import account, apps, operators, stores
from stoa.portal.kit.dispatch import PageHandler
from stoa.portal.kit.pages import Form, Page, Pages
from stoa.portal.kit.visit import Visit
from stoa.rest.uploads import UploadSpace
from stoa.settings import Settings

MODULES: Sequence[Pages] = (*account.PAGES, *apps.PAGES, *stores.PAGES, *operators.PAGES)
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
    Section("", (Item("Overview", "home", "dashboard"),)),
    Section("Developers", (Item("Apps", "app", "list_apps"),)),
    Section("Merchants", (Item("Stores", "store", "list_stores"),)),
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
        ),
        operators=True,
    ),
    Section("Documentation", (Item("API reference", "book", url="/docs"),)),
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


class Navigation(msgspec.Struct):
    sections: list[Section]
    app_tabs: tuple[tuple[str, str], ...] = APP_TABS
    store_tabs: tuple[tuple[str, str], ...] = STORE_TABS


def navigation(visit: Visit) -> Navigation:
    operator = visit.account is not None and visit.account.operator
    return Navigation([section for section in NAVIGATION if operator or not section.operators])


def routes(
    database: Database,
    settings: Settings,
    uploads: UploadSpace,
    committed: Callable[[Database], Callable[[int], None]] = lambda _: lambda _: None,
    shards: Shards | None = None,
) -> list[Route]:
    return PageHandler(database, settings, PAGES, FORMS, navigation, uploads, committed, shards).routes()
