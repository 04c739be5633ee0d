"""A service that sends email over real SMTP to a mailbox on loopback, and a run of its courier."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.mail.courier import Courier, CourierConfig
from stoa.settings import Settings
from tests.support.smtp import MailboxServer
from tests.webhooks.workers import until


@pytest.fixture
async def mailbox() -> AsyncIterator[MailboxServer]:
    async with MailboxServer().running() as server:
        yield server


@pytest.fixture
async def service(settings: Settings, mailbox: MailboxServer, db: Database) -> AsyncIterator[Application]:
    """The application of a service that sends email; its outbox is empty."""
    await db.execute("DELETE FROM mails")
    sends = msgspec.structs.replace(
        settings, smtp_url=mailbox.url(), mail_from="noreply@stoa.example", public_url="http://testserver"
    )
    application = Application(sends)
    yield application
    await application.close()


async def run_courier(db: Database, settings: Settings, done: Callable[[], Awaitable[bool]], what: str) -> None:
    """Send mails as the delivery process does, until the condition holds."""
    stop = asyncio.Event()
    courier = asyncio.create_task(Courier(db, settings, CourierConfig(poll=0.02)).run(stop))
    try:
        await until(done, what)
    finally:
        stop.set()
        await courier
