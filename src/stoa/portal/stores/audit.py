"""The audit log of a store."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stoa.access import audit
from stoa.portal.kit.audit_log import APP, action_title, actor_title, chain_page, conditions, given_filters, names_of
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.queries import APP_NAMES

pages = Pages()


@pages.page("/stores/{handle}/audit", nav="list_stores")
async def store_audit(visit: Visit) -> View:
    store_id = visit.store.id
    filters = given_filters(visit, "actor", "action", "app")
    subjects = [
        *await audit.SUBJECTS.all(visit.db, store_id, "app:%"),
        *await audit.ACTORS.all(visit.db, store_id, "app:%"),
    ]
    apps = sorted({each for each in subjects if each.removeprefix(APP).isdigit()})
    titles = {
        f"{APP}{each.id}": each.name for each in await APP_NAMES.all(visit.db, [each[len(APP) :] for each in apps])
    }
    actors = await audit.ACTORS.all(visit.db, store_id, "%")
    names = await names_of(visit, actors)
    context = {
        "actions": [(each, action_title(each)) for each in await audit.ACTIONS.all(visit.db, store_id, "%")],
        "actors": [(each, titles.get(each) or actor_title(visit, each, names)) for each in actors],
        "apps": [(each, titles.get(each, each)) for each in apps],
    }
    where = conditions(filters, filters.get("actor", ""), filters.get("app", ""), _zone(visit.store.timezone))
    return View("stores/audit.html", {**context, **await chain_page(visit, store_id, where, filters)})


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):  # the machine lacks the zone
        return UTC
