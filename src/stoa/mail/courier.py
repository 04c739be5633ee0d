"""The courier: leases mails that are due, sends them, and settles each one.

A mail is settled after the server has accepted it. A process that dies in between leaves the mail leased: it is sent once more
when the lease ends, under the same Message-ID. So a mail can be repeated, but none is lost.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from stoa.db.errors import PostgresError, Unavailable, cause
from stoa.db.pool import Database
from stoa.mail import queries
from stoa.mail.contract import LeasedMail
from stoa.mail.message import compose
from stoa.mail.smtp import Connection, Refusal, refusal_of
from stoa.mail_settings import read_mail_server, read_sender
from stoa.settings import Settings, secret_key, service_url

_LATE = "It was not sent within three days."


class CourierConfig(msgspec.Struct, frozen=True):
    """The intervals and limits of sending; times are in seconds. Tests use shorter ones."""

    # The delay after attempt 1, 2, ...: about 41 hours in total.
    retries: tuple[float, ...] = (60, 300, 900, 3600, 14_400, 43_200, 86_400)
    lease: float = 300  # longer than one mail may take
    poll: float = 2
    batch: int = 20
    timeout: float = 15  # of each step of the protocol
    expire_after: float = 3 * 86_400
    stop_after: float = 5  # how long the mail in progress may take when the process stops


class Courier:
    """Sends the mails of the outbox; any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, config: CourierConfig | None = None) -> None:
        self._database = database
        self._settings = settings
        self._config = config or CourierConfig()
        self._owner = secrets.token_hex(8)
        self._stop = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set, and then finish the mail in progress."""
        self._stop = stop
        while not stop.is_set():
            try:
                busy = await self._send_batch()
            except (PostgresError, Unavailable, OSError) as error:
                structlog.get_logger().warning("sending email failed", **cause(error))
                busy = False
            if not busy:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._config.poll)

    async def _send_batch(self) -> bool:
        """Send the mails that are due, at most one batch; returns whether there may be more."""
        config = self._config
        await queries.EXPIRE.run(self._database, config.expire_after, _LATE)
        mails = await queries.LEASE.all(self._database, self._owner, config.lease, config.batch)
        if not mails:
            return False
        sender = read_sender(self._settings.mail_from)
        connection = Connection(read_mail_server(self._settings.smtp_url), sender.domain, config.timeout)
        left = sorted(mails, key=lambda mail: mail.id)
        try:
            failed = await self._attempt(connection.open, connection)
            if failed is not None:
                # Each mail counts the attempt: a server that is down for days does not keep them for ever.
                for mail in mails:
                    await self._settle(mail, msgspec.structs.replace(failed, permanent=False))
                left = []
                return False
            while left and not self._stop.is_set():
                mail = left.pop(0)
                if not await queries.RENEW.run(self._database, mail.id, self._owner, config.lease):
                    continue  # another courier has it
                failed = await self._send(connection, mail)
                await self._settle(mail, failed)
                if failed is not None and failed.lost:
                    return False
            return len(mails) == config.batch
        finally:
            await asyncio.to_thread(connection.close)
            if left:
                await queries.RELEASE.run(self._database, [mail.id for mail in left], self._owner)

    async def _send(self, connection: Connection, mail: LeasedMail) -> Refusal | None:
        settings = self._settings
        sender = read_sender(settings.mail_from)
        try:
            message = compose(mail, sender, service_url(settings), secret_key(settings))
        except Exception as error:  # noqa: BLE001 - one bad address must not stop the others
            return refusal_of(error)
        return await self._attempt(lambda: connection.send(message, sender.address, mail.recipient), connection)

    async def _attempt(self, call: Callable[[], Any], connection: Connection) -> Refusal | None:
        """Run a blocking call in a thread; returns why it failed. At a stop it may finish, but not for long."""
        running = asyncio.ensure_future(asyncio.to_thread(call))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait({running}, timeout=self._config.stop_after)
            if not running.done():
                connection.abort()
            await running
        except Exception as error:  # noqa: BLE001 - each failure is classified
            structlog.get_logger().warning("an email was not sent", error=type(error).__name__)
            return refusal_of(error)
        finally:
            stopped.cancel()
        return None

    async def _settle(self, mail: LeasedMail, refusal: Refusal | None) -> None:
        retries = self._config.retries
        if refusal is None:
            await queries.SENT.run(self._database, mail.id)
        elif refusal.permanent or mail.attempts > len(retries):
            await queries.FAIL.run(self._database, mail.id, self._owner, refusal.message)
        else:
            delay = retries[mail.attempts - 1]
            await queries.RETRY.run(self._database, mail.id, self._owner, refusal.message, delay)
