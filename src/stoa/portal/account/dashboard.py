"""The overview: a merchant's decisions and stores, a developer's apps with their health, and the first steps."""

import msgspec

from stoa.accounts.contract import RIGHTS, OwnedApp, OwnedStore, Right
from stoa.accounts.install_requests import pending_requests
from stoa.accounts.ownership import owned_apps, owned_stores
from stoa.accounts.queries import CHECKLIST_DISMISSED, DISMISS_CHECKLIST
from stoa.accounts.teams import offers_to
from stoa.db.fan_out import FanOut, added, whether
from stoa.db.query import Query
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.webhooks.delivery.failing_receivers import FAILING_OF_APPS

pages = Pages()
_SHOWN = 6  # stores and apps; the others are on pages of their own
_MAX_SEARCHED = 100  # stores in which something may wait
HAS_SUBSCRIPTION = FanOut(
    bool,
    # With a column, because Citus cannot collect rows without one from several nodes.
    """SELECT EXISTS (SELECT w.id FROM account_apps o JOIN installations i ON i.app_id = o.app_id
                        JOIN webhooks w ON w.store_id = i.store_id AND w.app_id = i.app_id AND NOT w.of_app
                             AND w.ended_at IS NULL
                       WHERE o.account_id = $1 AND w.store_id <> ALL ($2::bigint[]))""",
    whether,
    unbound="it finds the subscriptions of an account's apps, by the account",
)


class Waiting(msgspec.Struct):
    """What waits for a decision in a store; each number stops at 100."""

    duplicates: int
    unshipped: int
    failed_imports: int
    low_stock: list[int]  # products

    @property
    def anything(self) -> bool:
        return bool(self.duplicates or self.unshipped or self.failed_imports or self.low_stock)


WAITING = Query(
    Waiting,
    """SELECT (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND (suspected_duplicates > 0) = true
                                      LIMIT 100) d) AS duplicates,
              (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND status IN ('pending', 'processing')
                                      LIMIT 100) u) AS unshipped,
              (SELECT count(*) FROM (SELECT 1 FROM imports
                                      WHERE store_id = $1 AND status IN ('failed', 'partially_succeeded')
                                            AND options::json ->> 'dry_run' <> 'true'
                                            AND finished_at > now() - interval '3 days' LIMIT 100) i) AS failed_imports,
              ARRAY(SELECT DISTINCT v.product_id FROM variants v
                      JOIN products p ON p.store_id = $1 AND p.id = v.product_id AND p.status = 'active'
                     WHERE v.store_id = $1 AND v.deleted_at IS NULL AND v.track_inventory
                           AND v.low_stock_threshold IS NOT NULL AND v.on_hand - v.reserved <= v.low_stock_threshold
                     LIMIT 50) AS low_stock""",
)


class AppHealth(msgspec.Struct):
    """An app's last seven days: requests, those that failed, and subscriptions that do not deliver."""

    app_id: int
    requests: int
    errors: int
    failing: int

    @property
    def error_rate(self) -> float:
        return 100 * self.errors / self.requests if self.requests else 0.0


APP_HEALTH = FanOut(
    AppHealth,
    """WITH used AS MATERIALIZED (
            SELECT u.app_id, sum(u.requests)::bigint AS requests, sum(u.client_errors + u.server_errors)::bigint AS errors
              FROM usage_days u WHERE u.app_id = ANY ($1::bigint[]) AND u.day > current_date - 7
                   AND u.store_id <> ALL ($2::bigint[]) GROUP BY u.app_id),
        stuck AS MATERIALIZED (
            SELECT w.app_id, count(*) AS failing
              FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
             WHERE w.app_id = ANY ($1::bigint[]) AND w.ended_at IS NULL AND w.store_id <> ALL ($2::bigint[])
                   AND (w.status = 'disabled' OR l.breaker = 'open') GROUP BY w.app_id)
       SELECT a.id AS app_id, coalesce(u.requests, 0) AS requests, coalesce(u.errors, 0) AS errors,
              coalesce(s.failing, 0) AS failing
         FROM unnest($1::bigint[]) AS a (id) LEFT JOIN used u ON u.app_id = a.id LEFT JOIN stuck s ON s.app_id = a.id""",
    added("requests", "errors", "failing", by=["app_id"], order=[]),
    unbound="it sums up the usage of an account's apps, by the apps",
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
    health = {each.app_id: each for each in await APP_HEALTH.all(visit.everywhere, [app.id for app in apps])}
    failing = [app.id for app in apps if health[app.id].failing]
    apps.sort(key=lambda app: app.id not in failing)  # those that need attention are not among the hidden ones
    waiting = [(store, await _waiting(visit, store)) for store in _selling(stores)]
    merchant = not apps and any(not store.development for store in stores)
    dismissed = merchant or await CHECKLIST_DISMISSED.one(visit.db, account_id)
    context = {
        "apps": apps[:_SHOWN],
        "stores": stores[:_SHOWN],
        "merchant": merchant,
        "developer": bool(apps),
        "offers": await offers_to(visit.db, account_id),
        "requests": await pending_requests(visit.by, account_id),
        "waiting": [each for each in waiting if each[1] is not None and each[1].anything][:_SHOWN],
        "health": health,
        "failing": await FAILING_OF_APPS.all(visit.everywhere, failing) if failing else [],
        "steps": [] if dismissed else await _steps(visit, apps, stores),
        "app_id": _first_changeable(apps),
        "tailed": next((app for app in apps if app.installations and app.status == "active"), None),
        "sampled": _sampled(visit, stores),
    }
    return View("dashboard.html", context)


@pages.form("/checklist/dismiss", on=dashboard)
async def dismiss_checklist(visit: Visit) -> Redirect:
    await DISMISS_CHECKLIST.run(visit.db, visit.me.account_id)
    return Redirect(ROOT, "The checklist is dismissed.")


async def _waiting(visit: Visit, store: OwnedStore) -> Waiting | None:
    """What waits in a store; None if its shard does not answer."""
    return await visit.everywhere.ask(store.shard, lambda db: WAITING.one(db, store.id))


def _selling(stores: list[OwnedStore]) -> list[OwnedStore]:
    """The stores in which the person decides; development stores contain samples."""
    return [store for store in stores if store.role != "viewer" and not store.development][:_MAX_SEARCHED]


def _sampled(visit: Visit, stores: list[OwnedStore]) -> OwnedStore | None:
    """The first store in which the person may place sample orders; apps are installed on it."""
    found = [
        store
        for store in stores
        if visit.has_samples(store)
        and store.installations
        and store.status == "active"
        and RIGHTS[store.role] >= Right.CHANGE
    ]
    return min(found, key=lambda store: store.created_at, default=None)


def _first_changeable(apps: list[OwnedApp]) -> int | None:
    return next((app.id for app in apps if RIGHTS[app.role] >= Right.CHANGE), None)


async def _steps(visit: Visit, apps: list[OwnedApp], stores: list[OwnedStore]) -> list[Step]:
    app_id = _first_changeable(apps)
    return [
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
            await HAS_SUBSCRIPTION.one(visit.everywhere, visit.me.account_id),
        ),
        Step(
            "Turn on two-factor authentication",
            "Protect your account with a code from your phone.",
            "two_factor_set_up",
            visit.me.two_factor,
        ),
    ]
