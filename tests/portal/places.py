"""What a declared path needs: one of everything that it may name, owned by one person."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.asking import ask
from stoa.accounts.ownership import open_store, owned_app, register_app
from stoa.accounts.registration import invite
from stoa.db.pool import Database
from stoa.portal.pages import Form, Page
from stoa.usage.queries import ADD_DAYS, ADD_FAILURES
from stoa.usage.rules import FIGURES
from tests.portal.goods import stocked
from tests.portal.hooks import heard
from tests.portal.people import Somebody, as_operator, new_email

REASONS = {
    "products:read": "To list them.",
    "orders:write": "To place them.",
    "webhooks:write": "To hear of changes.",
}


async def places_of(person: Somebody, db: Database) -> dict[str, Any]:
    """One of everything, for a person who is signed in."""
    made = await furnish(as_operator(db, person.application.settings), db, person.account.id)
    return {**made, "session_id": person.session_id}


async def furnish(by: Operator, db: Database, me: int) -> dict[str, Any]:
    """A store with goods and an app of this account, the app installed there, and another app that asks to be let in."""
    store = await open_store(by, me, f"porch-{me}", "Painted porch", "EUR")
    made = await register_app(by, me, "Walker", "https://example.com", REASONS, f"{me}:first")
    await install(by, made.client_id, store.handle)
    second = await register_app(by, me, "Talker", "", REASONS, f"{me}:second")
    asking = await owned_app(db, me, second.app_id)
    assert asking is not None
    await ask(by, me, asking, store.handle, "May we?")
    await counted(by, store.id, made.app_id)
    link = await invite(by, new_email())
    return {
        "app_id": made.app_id,
        "handle": store.handle,
        "installed_id": made.app_id,
        "asking_id": second.app_id,
        "asked": store.handle,
        "token": link.address.rpartition("/")[2],
        **await stocked(by, store.handle),
        **await heard(by, store.handle, store.id, made.app_id),
        # What operators' pages name, whoever owns it.
        "store": store.handle,
        "app": made.app_id,
        "account": me,
    }


async def counted(by: Operator, store_id: int, app_id: int) -> None:
    """A fortnight of requests, and one of them refused, as the service counts them."""
    ours: dict[str, Any] = {"store_id": store_id, "app_id": app_id}
    today = datetime.now(UTC)
    days = [
        {**ours, **dict.fromkeys(FIGURES, 0), "day": f"{today - timedelta(days=ago):%Y-%m-%d}"}
        | {"operation": "list_products", "requests": 40 + ago, "ms_10": 38 + ago, "ms_200": 2, "client_errors": ago % 3}
        for ago in range(14)
    ]
    refused = {"request_id": "req_places", "method": "POST", "operation": "create_order", "status": 422}
    told = {"code": "validation_failed", "fault_pointer": "/line_items/0/quantity", "fault_code": "out_of_range"}
    failed = {**ours, **refused, **told, "at": today.isoformat(), "duration_us": 900}
    await ADD_DAYS.run(by.db, msgspec.json.encode(days).decode())
    await ADD_FAILURES.run(by.db, msgspec.json.encode([failed]).decode())


def owned(target: Page | Form) -> bool:
    """Whether the path names something that belongs to somebody."""
    return "{app_id" in target.path or "{handle" in target.path
