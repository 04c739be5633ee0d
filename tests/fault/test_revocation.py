"""What an operator takes away by a command is gone on every worker within a second."""

import asyncio

from stoa.access.admission import FRESH_S
from tests.support.service import Account, Service

COMMANDS = {
    "token revoke {token}": 401,
    "token revoke --app {app}": 401,
    "app uninstall {app} {store}": 403,
    "app install {app} {store} --scope orders:read": 403,
    "app suspend {app}": 403,
    "store suspend {store}": 403,
}


async def keep_asking(account: Account) -> None:
    """Use it all the time, so that every worker has only just seen that it is allowed."""
    while True:
        await account.statuses(1)
        await asyncio.sleep(0.05)


async def test_what_is_taken_away_ends_on_every_worker_within_a_second(service: Service) -> None:
    accounts: dict[str, Account] = {}
    for number, command in enumerate(COMMANDS):
        accounts[command] = await service.account(f"taken-{number}")
        assert await accounts[command].statuses() == {200}

    async def take(command: str, account: Account) -> set[int]:
        words = command.format(token=account.token, app=account.client_id, store=account.handle).split()
        using = asyncio.create_task(keep_asking(account))
        ended = await asyncio.to_thread(service.run, *words)
        assert ended.returncode == 0, ended.stderr
        # Nothing older than this is believed, however slow the machine; so no clock is needed to see it hold.
        assert FRESH_S < 1
        await asyncio.sleep(1)
        found = await account.statuses()
        using.cancel()
        await asyncio.wait([using])
        return found

    found = await asyncio.gather(*(take(*each) for each in accounts.items()))
    assert dict(zip(accounts, found, strict=True)) == {command: {status} for command, status in COMMANDS.items()}
