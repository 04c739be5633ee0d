"""A revocation by a command takes effect on every worker within a second."""

import asyncio

import pytest

from stoa.access.admission import TTL_S
from tests.support.service import Account, Service

COMMANDS = {
    "token revoke {token}": 401,
    "token revoke --app {app}": 401,
    "app uninstall {app} {store}": 403,
    "app install {app} {store} --scope orders:read": 403,
    "app suspend {app}": 403,
    "store suspend {store}": 403,
}


async def keep_calling(account: Account) -> None:
    """Send requests continuously, so that the caches of all workers are filled."""
    while True:
        await account.statuses(1)
        await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_revocation_takes_effect_on_every_worker_within_a_second(service: Service) -> None:
    accounts: dict[str, Account] = {}
    for number, command in enumerate(COMMANDS):
        accounts[command] = await service.account(f"taken-{number}")
        assert await accounts[command].statuses() == {200}

    async def revoke(command: str, account: Account) -> set[int]:
        words = command.format(token=account.token, app=account.client_id, store=account.handle).split()
        calls = asyncio.create_task(keep_calling(account))
        ended = await asyncio.to_thread(service.run, *words)
        assert ended.returncode == 0, ended.stderr
        # Cache entries never live longer, however slow the machine is.
        assert TTL_S < 1
        await asyncio.sleep(1)
        found = await account.statuses()
        calls.cancel()
        await asyncio.wait([calls])
        return found

    found = await asyncio.gather(*(revoke(*each) for each in accounts.items()))
    assert dict(zip(accounts, found, strict=True)) == {command: {status} for command, status in COMMANDS.items()}
