"""The replication of global tables to a shard is cut off while apps, tokens and installations change: revocations take effect anyway."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click
import httpx
import msgspec

from stoa.access.apps import create_app, resume_app, suspend_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.shards.global_tables import PUBLICATION
from tests.figures.shard_faults import PATIENCE_S, SHARD, Served, killing_workers, refusals, serving, trading
from tests.support.fleet import FENCING
from tests.support.shops import operator_of, token_for

SCOPES = ["products:read"]
WITHIN_S = 1.0
_WATCH_S = 1.6  # longer than a change may take
_TRIES_S = 0.04


class Changes(msgspec.Struct):
    """What was changed, and for how many seconds each kind of change was not in force."""

    tokens: int = 0
    new_refused: int = 0
    revoked: list[float] = []
    suspended: list[float] = []
    uninstalled: list[float] = []

    @property
    def in_time(self) -> bool:
        return not self.new_refused and all(
            each and max(each) <= WITHIN_S for each in (self.revoked, self.suspended, self.uninstalled)
        )

    def __str__(self) -> str:
        lasted = ", ".join(
            f"{name} {len(each)} times, accepted for {max(each, default=0):.2f} s at most"
            for name, each in (
                ("revoked", self.revoked),
                ("suspended", self.suspended),
                ("uninstalled", self.uninstalled),
            )
        )
        return f"{self.tokens} new tokens, {self.new_refused} of them refused; {lasted}"


async def cut_off_copies(folder: Path, seconds: float) -> bool:
    """Cut the shard off for a while, and change what its copies then lack; afterwards they catch up."""
    async with serving(folder) as served:
        near, far = await served.open("near"), await served.open("far", SHARD)
        changes = Changes()
        async with _operators(served) as (directory, shard), trading([near, far]):
            app = await create_app(directory, "Changing app", SCOPES)
            await served.differing_copies()
            await install(shard, app.client_id, "far", rate_burst=100_000, rate_refill=10_000)
            await _set_replication(served, "DISABLE")
            began, refused = time.monotonic(), refusals(far) + refusals(near)
            async with killing_workers(served.service, [near, far]) as killed:
                while time.monotonic() - began < seconds:
                    await _change(served, directory, shard, app, changes)
            refused = refusals(far) + refusals(near) - refused
            await _set_replication(served, "ENABLE")
            enabled_at = time.monotonic()
            different = await served.differing_copies()
            caught_up_s = time.monotonic() - enabled_at
        click.echo(
            f"shards: global tables cut off for {seconds:.0f} s: {changes}; {refused} requests of other apps refused; {killed['workers']} workers killed;"
            f" the copies were equal {caught_up_s:.1f} s after the end"
        )
        intact = await served.check({"": [near], SHARD: [far]})
    return intact and changes.in_time and not refused and not different


@asynccontextmanager
async def _operators(served: Served) -> AsyncGenerator[tuple[Operator, Operator]]:
    """Operators of the directory, and of what belongs to stores in the shard."""
    pools = [Database(served.fleet.shards[name].url, size=2, name=FENCING) for name in ("", SHARD)]
    try:
        directory, shard = (operator_of(pool, served.fleet.settings) for pool in pools)
        yield directory, shard
    finally:
        for pool in pools:
            await pool.close()


async def _set_replication(served: Served, what: str) -> None:
    async with served.fleet.connection(SHARD) as db:
        await db.execute(f"ALTER SUBSCRIPTION {PUBLICATION} {what}")


async def _change(served: Served, directory: Operator, shard: Operator, app: NewSecret, changes: Changes) -> None:
    """Issue tokens and take each back in another way; a new one must be accepted at once."""
    token = await _issue(served, app, changes)
    async with served.service.client() as client:
        form, secret = {"token": token}, httpx.BasicAuth(app.client_id, app.client_secret)
        await _until_answered(client, "/oauth/revoke", form, secret)
    changes.revoked.append(await _accepted_for(served, token))
    token = await _issue(served, app, changes)
    await suspend_app(directory, app.client_id)
    changes.suspended.append(await _accepted_for(served, token))
    await resume_app(directory, app.client_id)
    token = await _issue(served, app, changes)
    await uninstall(shard, app.client_id, "far")
    changes.uninstalled.append(await _accepted_for(served, token))
    await install(shard, app.client_id, "far", rate_burst=100_000, rate_refill=10_000)
    new = await create_app(directory, "Another app", SCOPES)
    await install(directory, new.client_id, "near")


async def _until_answered(client: httpx.AsyncClient, path: str, form: dict[str, str], secret: httpx.BasicAuth) -> None:
    """Repeat a request while the worker that gets it is killed."""
    while True:
        with suppress(httpx.TransportError):
            answer = await client.post(path, data=form, auth=secret)
            assert answer.status_code == 200, answer.text
            return


async def _issue(served: Served, app: NewSecret, changes: Changes) -> str:
    """A new token, which every worker must accept, although the shard does not know it."""
    token = ""
    while not token:
        with suppress(httpx.TransportError):
            async with served.service.client() as client:
                token = await token_for(client, app.client_id, app.client_secret)
    changes.tokens += 1
    statuses = [status for _ in range(8) if (status := await _status(served, token))]
    changes.new_refused += any(status != 200 for status in statuses)
    return token


async def _accepted_for(served: Served, token: str) -> float:
    """How long after this moment a request was still accepted. Each has a connection of its own, so it can reach any worker."""
    began, last, refused = time.monotonic(), 0.0, False
    while time.monotonic() - began < (_WATCH_S if refused else PATIENCE_S):
        sent = time.monotonic() - began
        status = await _status(served, token)
        refused = refused or status in (401, 403)
        last = sent if status == 200 else last
        await asyncio.sleep(_TRIES_S)
    return last if refused else math.inf


async def _status(served: Served, token: str) -> int:
    """The status of a request to the store in the shard; 0 if its worker was killed."""
    headers = {"authorization": f"Bearer {token}"}
    with suppress(httpx.TransportError):
        async with served.service.client(headers=headers) as client:
            return (await client.get("/stores/far/api/v3/app/products?limit=1")).status_code
    return 0
