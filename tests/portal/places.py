"""What a declared path needs: one of everything that it may name, owned by one person."""

from typing import Any

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.asking import ask
from stoa.accounts.ownership import open_store, owned_app, register_app
from stoa.accounts.registration import invite
from stoa.db.pool import Database
from stoa.portal.pages import Form, Page
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


def owned(target: Page | Form) -> bool:
    """Whether the path names something that belongs to somebody."""
    return "{app_id" in target.path or "{handle" in target.path
