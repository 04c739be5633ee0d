"""Links for set-up, invitations and password resets."""

import asyncio

import pytest

from stoa.access.operator import Operator
from stoa.accounts.refusals import EmailTaken, LinkExpired
from stoa.accounts.registration import accept_link, create_account, create_setup_link, find_link, invite
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.people import PASSWORD, as_operator, new_email


async def test_a_second_invitation_replaces_the_first(operator: Operator) -> None:
    email = new_email()
    first, second = await invite(operator, email), await invite(operator, email)
    old, new = first.address.rpartition("/")[2], second.address.rpartition("/")[2]
    with pytest.raises(LinkExpired):
        await accept_link(operator, "invitation", old, email="", name="X", password=PASSWORD)
    await accept_link(operator, "invitation", new, email="", name="X", password=PASSWORD)
    with pytest.raises(EmailTaken):
        await invite(operator, email)


async def test_a_link_that_is_used_concurrently_works_once(operator: Operator) -> None:
    token = (await invite(operator, new_email())).address.rpartition("/")[2]
    attempts = [accept_link(operator, "invitation", token, email="", name="X", password=PASSWORD) for _ in range(6)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(each, LinkExpired | EmailTaken) for each in results) == 5


async def test_a_link_expires_when_it_is_used(operator: Operator) -> None:
    token = (await invite(operator, new_email())).address.rpartition("/")[2]
    await accept_link(operator, "invitation", token, email="", name="X", password=PASSWORD)
    assert await find_link(operator, "invitation", token) is None
    with pytest.raises(LinkExpired):
        await accept_link(operator, "invitation", token, email="", name="X", password=PASSWORD)


async def test_a_setup_link_expires_once_an_account_exists(without_accounts: Settings) -> None:
    database = Database(without_accounts.database_url, size=2)
    by = as_operator(database, without_accounts)
    link = await create_setup_link(by)
    assert link is not None
    await create_account(by, "cli@example.com", "By command", PASSWORD)
    token = link.address.rpartition("/")[2]
    with pytest.raises(LinkExpired):
        await accept_link(by, "set-up", token, email="late@example.com", name="Late", password=PASSWORD)
    await database.close()
