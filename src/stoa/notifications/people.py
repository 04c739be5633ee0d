"""The people who look after an app or a store, and are notified of what happens to it."""

from stoa.db.query import Executor
from stoa.notifications.queries import APP_PEOPLE, STORE_PEOPLE


async def people_of(db: Executor, *, app_id: int | None = None, store_id: int | None = None) -> list[int]:
    """The accounts that look after the app and the store: everybody who may change it, so not its viewers."""
    apps = await APP_PEOPLE.all(db, app_id) if app_id is not None else []
    stores = await STORE_PEOPLE.all(db, store_id) if store_id is not None else []
    return sorted({*apps, *stores})
