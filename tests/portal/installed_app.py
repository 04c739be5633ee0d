"""An app of a user and a store that has it installed, for webhook tests."""

import itertools
from dataclasses import dataclass

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from stoa.db.pool import Database
from tests.portal.webhook_data import add_subscription, emit_products
from tests.support.people import User, as_operator

REASONS = {"products:read": "To list them.", "webhooks:write": "To subscribe to changes."}
_numbers = itertools.count(1)


@dataclass
class InstalledApp:
    """An app and a store of the same user; the store has the app installed."""

    user: User
    db: Database
    app_id: int
    client_id: str
    handle: str
    store_id: int

    @property
    def path(self) -> str:
        return f"/portal/apps/{self.app_id}"

    @property
    def by(self) -> Operator:
        return as_operator(self.db, self.user.application.settings)

    async def at_store(self) -> Operator:
        """The operator in the database of the store."""
        return await self.by.at_store(self.handle)

    def hook(self, webhook_id: int, rest: str = "") -> str:
        return f"{self.path}/webhooks/{self.handle}/{webhook_id}{rest}"

    async def add_deliveries(self, *names: str) -> int:
        """Create a subscription with a delivery for each product; return its ID."""
        there = await self.at_store()
        webhook_id = await add_subscription(there, self.store_id, self.app_id)
        await emit_products(there, self.store_id, *names)
        return webhook_id

    async def grant(self, *scopes: str) -> None:
        await install(self.by, self.client_id, self.handle, list(scopes))


async def install_app(user: User, db: Database, reasons: dict[str, str] = REASONS) -> InstalledApp:
    by = as_operator(db, user.application.settings)
    number, me = next(_numbers), user.account.id
    store = await open_store(by, me, f"hooks-{me}-{number}", f"Hooks {number}", "EUR")
    registered = await register_app(by, me, "Walker", "", reasons, f"{me}:{number}")
    await install(by, registered.client_id, store.handle)
    return InstalledApp(user, db, registered.app_id, registered.client_id, store.handle, store.id)
