"""Fixtures for portal tests: an operator, a guest, two users, and a store that one of them owns."""

import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.mail_service import mailbox, service
from tests.support.people import User, as_operator, maria, operator, visitor, without_accounts, zeno
from tests.support.shops import Shop

__all__ = ["mailbox", "maria", "operator", "service", "visitor", "without_accounts", "zeno"]


@pytest.fixture
async def store_url(shop: Shop, maria: User, db: Database, settings: Settings) -> str:
    """The portal URL of a store that Maria owns and that an app can write to."""
    await give(as_operator(db, settings), maria.email, store=shop.store.handle)
    return f"/portal/stores/{shop.store.handle}"


@pytest.fixture
async def app(maria: User, db: Database) -> InstalledApp:
    """An app of Maria on a store of hers."""
    return await install_app(maria, db)
