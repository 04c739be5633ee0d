"""Every page and form of the portal in order, and the navigation that leads to them."""

from collections.abc import Callable, Sequence

import msgspec
from starlette.routing import Route

from stoa.db.pool import Database
from stoa.portal import (
    apps,
    audit,
    customers,
    dashboard,
    deliveries,
    entry,
    health,
    imports,
    operators,
    orders,
    products,
    profile,
    stores,
    subscription,
    subscriptions,
    tail,
    usage,
)
from stoa.portal.answering import Portal
from stoa.portal.pages import Form, Page, Pages
from stoa.portal.visit import Visit
from stoa.settings import Settings

PARTS: Sequence[Pages] = (
    entry.pages,
    dashboard.pages,
    apps.pages,
    usage.pages,
    subscriptions.pages,
    subscription.pages,
    deliveries.pages,
    tail.pages,
    stores.pages,
    products.pages,
    orders.pages,
    customers.pages,
    imports.pages,
    audit.pages,
    profile.pages,
    operators.pages,
    health.pages,
)
PAGES: list[Page] = [page for part in PARTS for page in part.pages]
FORMS: list[Form] = [form for part in PARTS for form in part.forms]


class Item(msgspec.Struct, frozen=True):
    """A link of the navigation: what it says, its drawing, and the page or address that it leads to."""

    words: str
    icon: str
    page: str = ""
    address: str = ""


class Section(msgspec.Struct, frozen=True):
    title: str
    items: tuple[Item, ...]
    operators: bool = False


NAVIGATION = (
    Section("", (Item("Overview", "home", "dashboard"),)),
    Section("Build", (Item("Apps", "app", "list_apps"),)),
    Section("Sell", (Item("Stores", "store", "list_stores"),)),
    Section(
        "Run",
        (
            Item("All stores", "store", "operator_stores"),
            Item("All apps", "app", "operator_apps"),
            Item("Accounts", "people", "operator_accounts"),
            Item("Audit log", "log", "operator_audit"),
            Item("Health", "chart", "operator_health"),
        ),
        operators=True,
    ),
    Section("Learn", (Item("API reference", "book", address="/docs"),)),
)
# The pages beside each other at one app, and at one store.
APP_TABS = (
    ("Overview", "app_page"),
    ("Usage", "app_usage"),
    ("Webhooks", "app_webhooks"),
    ("Credentials", "app_credentials"),
    ("Stores", "app_stores"),
    ("Settings", "app_settings"),
)
STORE_TABS = (
    ("Apps", "store_page"),
    ("Products", "store_products"),
    ("Orders", "store_orders"),
    ("Customers", "store_customers"),
    ("Imports", "store_imports"),
    ("Audit log", "store_audit"),
)


class Navigation(msgspec.Struct):
    sections: list[Section]
    app_tabs: tuple[tuple[str, str], ...] = APP_TABS
    store_tabs: tuple[tuple[str, str], ...] = STORE_TABS


def navigation(visit: Visit) -> Navigation:
    operator = visit.person is not None and visit.person.operator
    return Navigation([section for section in NAVIGATION if operator or not section.operators])


def routes(database: Database, settings: Settings, committed: Callable[[int], None] = lambda _: None) -> list[Route]:
    return Portal(database, settings, PAGES, FORMS, navigation, committed).routes()
