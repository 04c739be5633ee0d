"""Names of people, apps and stores in the portal and on the command line: none passes for another name."""

import pytest

from stoa.access.apps import change_app, create_app
from stoa.access.contract import MisleadingName
from stoa.access.stores import create_store
from stoa.accounts.registration import create_account
from stoa.app import Application
from stoa.db.pool import Database
from tests.support.people import PASSWORD, as_operator, create_user, new_email

MIXED = "Stock \u0405ync"  # the S is Cyrillic
FAULT = 'The name mixes Cyrillic and Latin letters in "\u0405ync"; write each word in one alphabet.'


async def test_names_in_the_portal_do_not_mix_scripts(application: Application, db: Database) -> None:
    user = await create_user(application, db)
    await user.open("/portal/account")
    await user.submit("/portal/account/name", name=MIXED)
    assert user.faults == {"name": FAULT}
    await user.open("/portal/register-app")
    await user.submit("/portal/register-app", name=MIXED, scopes="products:read")
    assert user.faults["name"] == FAULT
    await user.client.aclose()


async def test_names_by_command_do_not_mix_scripts(application: Application, db: Database) -> None:
    by = as_operator(db, application.settings)
    with pytest.raises(MisleadingName):
        await create_app(by, MIXED, ["products:read"])
    with pytest.raises(MisleadingName):
        await create_store(by, "mixed-letters", MIXED, "USD")
    with pytest.raises(MisleadingName):
        await create_account(by, new_email(), MIXED, PASSWORD)
    app = await create_app(by, "\u0421\u043a\u043b\u0430\u0434 Sync", ["products:read"])  # one script in each word
    with pytest.raises(MisleadingName):
        await change_app(by, app.client_id, MIXED, ["products:read"])
