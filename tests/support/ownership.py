"""Stores and apps that belong to a user, for tests of the portal and of accounts."""

from stoa.access.contract import NewSecret
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from tests.support.people import User, new_email

REASONS = {"products:read": "To list them.", "orders:write": "To place them."}


async def create_store(operator: Operator, user: User) -> str:
    """Create a store and return its handle."""
    return (await open_store(operator, user.account.id, f"agora-{user.account.id}", "Agora", "EUR")).handle


async def create_app(operator: Operator, user: User, reasons: dict[str, str] = REASONS) -> NewSecret:
    return await register_app(operator, user.account.id, "Walker", "https://example.com", reasons, new_email())
