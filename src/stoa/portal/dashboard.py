"""The dashboard: setup steps, pending install requests, and the account's apps and stores."""

import msgspec

from stoa.accounts.install_requests import pending_requests
from stoa.accounts.ownership import owned_apps, owned_stores
from stoa.db.query import Query
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit

pages = Pages()
HAS_SUBSCRIPTION = Query(
    bool,
    """SELECT EXISTS (SELECT FROM account_apps o JOIN installations i ON i.app_id = o.app_id
                        JOIN webhooks w ON w.store_id = i.store_id AND w.app_id = i.app_id AND NOT w.of_app
                             AND w.ended_at IS NULL
                       WHERE o.account_id = $1)""",
    unbound="it finds the subscriptions of an account's apps, by the account",
)


class Step(msgspec.Struct, frozen=True):
    """A setup step, and the page on which it is done."""

    title: str
    description: str
    page: str
    done: bool


@pages.page("")
async def dashboard(visit: Visit) -> View:
    account_id = visit.me.account_id
    apps, stores = await owned_apps(visit.by, account_id), await owned_stores(visit.by, account_id)
    requests = await pending_requests(visit.by, account_id)
    app_id = next((app.id for app in apps if app.role == "owner"), None)
    steps = [
        Step("Register an app", "Get a client ID and a client secret.", "new_app", bool(apps)),
        Step(
            "Try it on a development store",
            "Create one with sample data and your app installed, in one click.",
            "app_stores" if app_id else "list_stores",
            any(store.development for store in stores),
        ),
        Step(
            "Subscribe to events",
            "A webhook notifies your app of each new order.",
            "app_webhooks" if app_id else "new_app",
            await HAS_SUBSCRIPTION.one(visit.db, account_id),
        ),
        Step(
            "Turn on two-factor authentication",
            "Protect your account with a code from your phone.",
            "two_factor_set_up",
            visit.me.two_factor,
        ),
    ]
    context = {"apps": apps, "stores": stores, "requests": requests, "steps": steps, "app_id": app_id}
    return View("dashboard.html", context)
