"""The front page: what to do next, and what waits for a decision."""

import msgspec

from stoa.accounts.asking import requests_to
from stoa.accounts.ownership import owned_apps, owned_stores
from stoa.db.query import Query
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit

pages = Pages()
LISTENS = Query(
    bool,
    """SELECT EXISTS (SELECT FROM account_apps o JOIN installations i ON i.app_id = o.app_id
                        JOIN webhooks w ON w.store_id = i.store_id AND w.app_id = i.app_id AND w.ended_at IS NULL
                       WHERE o.account_id = $1)""",
    unbound="it finds what an account's apps listen to, by the account",
)


class Step(msgspec.Struct, frozen=True):
    """One thing to do on the way in: what it says, the page it is done at, and whether it is."""

    title: str
    words: str
    page: str
    done: bool


@pages.page("")
async def dashboard(visit: Visit) -> View:
    account_id = visit.me.account_id
    apps, stores = await owned_apps(visit.by, account_id), await owned_stores(visit.by, account_id)
    waiting = await requests_to(visit.by, account_id)
    mine = next((app.id for app in apps if app.role == "owner"), None)
    steps = [
        Step("Register an app", "It gets a client id and a client secret.", "new_app", bool(apps)),
        Step(
            "Try it on a development store",
            "Sample data, and your app installed, in one click.",
            "app_stores" if mine else "list_stores",
            any(store.development for store in stores),
        ),
        Step(
            "Hear of changes",
            "A webhook tells your app of each order as it comes.",
            "app_webhooks" if mine else "new_app",
            await LISTENS.one(visit.db, account_id),
        ),
        Step(
            "Turn on a second factor",
            "A code from your phone keeps your account yours.",
            "second_factor_set_up",
            visit.me.second_factor,
        ),
    ]
    context = {"apps": apps, "stores": stores, "waiting": waiting, "steps": steps, "mine": mine}
    return View("dashboard.html", context)
