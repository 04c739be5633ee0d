"""Email is sent over real SMTP: once if all goes well, again after a failure or a kill, and never in a request."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from stoa.background import duties_of
from stoa.db.pool import Database
from stoa.mail import queries
from stoa.mail.contract import Content, Recipient
from stoa.mail.courier import Courier, CourierConfig
from stoa.mail.message import one_time_token
from stoa.mail.outbox import post
from stoa.operations.doctor import examine
from stoa.operations.maintenance import maintain
from stoa.settings import Settings, secret_key
from tests.support.databases import PATIENCE_S
from tests.support.people import new_email
from tests.support.smtp import MailboxServer, create_certificate
from tests.webhooks.workers import until

QUICK = CourierConfig(retries=(0.05, 0.1), lease=120, poll=0.05, timeout=30, stop_after=0.3)
HOSTILE = "Agora\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script> \x00\u202e🏛"


@pytest.fixture(autouse=True)
async def empty_outbox(db: Database) -> None:
    """Mails that other tests left are none of ours."""
    await db.execute("DELETE FROM mails")


@pytest.fixture
async def mailbox() -> AsyncIterator[MailboxServer]:
    async with MailboxServer().running() as server:
        yield server


def with_mail(settings: Settings, server: MailboxServer) -> Settings:
    sender = "Stoa <noreply@stoa.example>"
    url = "https://stoa.example"
    return msgspec.structs.replace(settings, smtp_url=server.url(), mail_from=sender, public_url=url)


async def write(db: Database, content: Content | None = None) -> str:
    email = new_email()
    await post(db, content or Content("test", "Hello", "First.\n\nSecond."), [Recipient(None, email)])
    return email


async def row(db: Database, email: str) -> tuple[str, int, str]:
    [found] = await db.fetch("SELECT status, attempts, error FROM mails WHERE recipient = $1", email)
    return found[0], found[1], found[2]


async def send_until(db: Database, settings: Settings, email: str, *statuses: str) -> tuple[str, int, str]:
    """Run a courier until the mail has one of the statuses."""
    stop = asyncio.Event()
    running = asyncio.create_task(Courier(db, settings, QUICK).run(stop))

    async def settled() -> bool:
        return (await row(db, email))[0] in statuses

    try:
        await until(settled, f"{statuses}")
    finally:
        stop.set()
        await running
    return await row(db, email)


@pytest.mark.parametrize("implicit", [False, True])
async def test_a_mail_is_sent_encrypted_with_both_parts_and_no_injected_header(
    db: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, implicit: bool
) -> None:
    certificate = create_certificate(tmp_path / "server.pem")
    async with MailboxServer(certificate, implicit=implicit).running() as server:
        email = await write(db, Content("test", HOSTILE, f"{HOSTILE}\n\nEnd.", "/portal/apps/3", "Open", ""))
        untrusted = await send_until(db, with_mail(settings, server), email, "failed")
        assert "certificate" in untrusted[2]
        assert server.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        [[number, message_id]] = await db.fetch("SELECT id, message_id FROM mails WHERE recipient = $1", email)
        await queries.RESEND.run(db, [number], [f"{message_id}_2"])
        assert await send_until(db, with_mail(settings, server), email, "sent") == ("sent", 1, "")
        [mail] = server.received
    assert mail.encrypted
    assert (mail.sender, mail.recipient) == ("noreply@stoa.example", email)
    headers = {name.lower(): str(value) for name, value in mail.message.items()}
    assert "bcc" not in headers
    assert headers["from"] == "Stoa <noreply@stoa.example>"
    assert headers["to"] == email
    assert headers["subject"].startswith("Agora Bcc: victim@example.com <script>")
    assert headers["subject"].endswith("🏛")
    assert headers["message-id"] == f"<{message_id}_2@stoa.example>"
    assert headers["auto-submitted"] == "auto-generated"
    assert "Open: https://stoa.example/portal/apps/3" in mail.text
    assert "<script>" in mail.text
    assert "&lt;script&gt;" in mail.html
    assert "<script>" not in mail.html
    assert 'href="https://stoa.example/portal/apps/3"' in mail.html


async def test_a_temporary_refusal_is_retried_and_given_up_in_the_end(
    db: Database, settings: Settings, mailbox: MailboxServer
) -> None:
    email, other = await write(db), await write(db)
    mailbox.answers[email] = "451 come back later\x07"
    assert await send_until(db, with_mail(settings, mailbox), email, "failed") == (
        "failed",
        3,
        "The server refuses the recipient: 451 come back later",
    )
    assert await row(db, other) == ("sent", 1, ""), "one refused recipient does not delay another"
    del mailbox.answers[email]
    await db.execute("UPDATE mails SET status = 'waiting', attempts = 0, due_at = now() WHERE recipient = $1", email)
    assert (await send_until(db, with_mail(settings, mailbox), email, "sent"))[0] == "sent"
    assert len(mailbox.to(email)) == len(mailbox.to(other)) == 1


async def test_a_permanent_refusal_and_an_impossible_address_fail_at_once(
    db: Database, settings: Settings, mailbox: MailboxServer
) -> None:
    email = await write(db)
    mailbox.answers[email] = "550 no such person"
    for address in ("x@y\r\nRCPT TO:<victim@example.com>", "ü@example.com", "a b@example.com", ""):
        await post(db, Content("test", "Hello", "Text"), [Recipient(None, address)])
    later = await write(db)
    assert (await send_until(db, with_mail(settings, mailbox), later, "sent"))[0] == "sent"
    assert (await row(db, email))[:2] == ("failed", 1)
    states = await db.fetch(
        "SELECT status, attempts FROM mails WHERE recipient <> $1 AND recipient <> $2", email, later
    )
    assert [tuple(each) for each in states] == [("failed", 1)] * 4
    assert [each.recipient for each in mailbox.received] == [later]


async def test_without_a_server_mails_wait_and_old_ones_are_not_sent_later(
    db: Database, settings: Settings, mailbox: MailboxServer
) -> None:
    email, old, ancient = await write(db), await write(db), await write(db)
    assert not [duty for duty in duties_of(settings) if duty.sends_mail]
    assert await row(db, email) == ("waiting", 0, "")
    age = "UPDATE mails SET created_at = now() - make_interval(days => $2::integer) WHERE recipient = $1"
    await db.execute(age, old, 4)
    await db.execute(age, ancient, 31)
    await maintain(db)
    assert [tuple(each) for each in await db.fetch("SELECT recipient FROM mails ORDER BY id")] == [(email,), (old,)]
    await send_until(db, with_mail(settings, mailbox), email, "sent")
    assert (await row(db, old))[::2] == ("failed", "It was not sent within three days.")
    assert [each.recipient for each in mailbox.received] == [email]


async def test_a_kill_between_send_and_settle_repeats_the_mail_under_the_same_id(
    db: Database, settings: Settings, mailbox: MailboxServer, tmp_path: Path
) -> None:
    configured = with_mail(settings, mailbox)
    email = await write(db)
    environment = {
        **os.environ,
        "STOA_DATABASE_URL": configured.database_url,
        "STOA_SECRET_KEY": configured.secret_key,
        "STOA_DATA_DIR": str(tmp_path),
        "STOA_SMTP_URL": configured.smtp_url,
        "STOA_MAIL_FROM": configured.mail_from,
        "STOA_LOG_LEVEL": "error",
    }
    process = subprocess.Popen([sys.executable, "-m", "stoa.worker", "--deliveries"], env=environment)
    mailbox.accepted = lambda _: os.kill(process.pid, signal.SIGKILL)

    async def killed() -> bool:
        return process.poll() is not None

    await until(killed, "the worker sent the mail")
    mailbox.accepted = lambda _: None
    assert await row(db, email) == ("waiting", 1, "")
    assert len(mailbox.to(email)) == 1
    await db.execute(
        "UPDATE mails SET due_at = now() WHERE recipient = $1", email
    )  # the lease of the dead process ends
    assert await send_until(db, configured, email, "sent") == ("sent", 2, "")
    first, second = mailbox.to(email)
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert first.message["Date"] == second.message["Date"]


async def test_couriers_share_the_mails(db: Database, settings: Settings, mailbox: MailboxServer) -> None:
    emails = [await write(db) for _ in range(30)]
    configured, stop = with_mail(settings, mailbox), asyncio.Event()
    running = [asyncio.create_task(Courier(db, configured, QUICK).run(stop)) for _ in range(3)]

    async def all_sent() -> bool:
        return [tuple(each) for each in await db.fetch("SELECT DISTINCT status FROM mails")] == [("sent",)]

    await until(all_sent, "all mails are sent")
    stop.set()
    await asyncio.gather(*running)
    assert sorted(each.recipient for each in mailbox.received) == sorted(emails), "each mail is sent once"


@contextmanager
def silent_server(url: str, *, accepts: bool) -> Generator[str]:
    """A mail server that accepts connections and says nothing, or whose machine does not answer them at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=8 if accepts else 0) as listening, ExitStack() as queue:
        port = listening.getsockname()[1]
        for _ in range(0 if accepts else 3):  # the queue is full afterwards, and the kernel drops further connections
            waiting = queue.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(("127.0.0.1", port))
        yield url.format(port=port)


@pytest.mark.parametrize(
    ("url", "accepts"),
    [
        ("smtp://127.0.0.1:{port}", False),
        ("smtp://127.0.0.1:{port}", True),
        ("smtps://127.0.0.1:{port}", True),
    ],
    ids=["no connection", "no greeting", "no handshake"],
)
async def test_a_hanging_server_does_not_delay_the_stop(
    db: Database, settings: Settings, *, url: str, accepts: bool
) -> None:
    hung, stop = await write(db), asyncio.Event()
    patient = msgspec.structs.replace(QUICK, timeout=600)
    with silent_server(url, accepts=accepts) as silent:
        configured = msgspec.structs.replace(settings, smtp_url=silent, mail_from="Stoa <noreply@stoa.example>")
        running = asyncio.create_task(Courier(db, configured, patient).run(stop))

        async def leased() -> bool:
            return (await row(db, hung))[1] == 1

        await until(leased, "the mail is leased")
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await running
    assert (await row(db, hung))[0] == "waiting"


async def test_the_token_of_a_link_is_only_in_the_mail(
    db: Database, settings: Settings, mailbox: MailboxServer
) -> None:
    email = await write(db, Content("test", "Hello", "Text", "/portal/new-password/", "Choose", "one-time"))
    await send_until(db, with_mail(settings, mailbox), email, "sent")
    token = one_time_token(secret_key(settings), "one-time")
    assert len(token) == 43
    assert mailbox.to(email)[0].link == f"https://stoa.example/portal/new-password/{token}"
    assert await db.fetch("SELECT FROM mails m WHERE m::text LIKE '%' || $1 || '%'", token) == []


async def test_the_doctor_signs_in_to_the_mail_server(settings: Settings, mailbox: MailboxServer) -> None:
    configured = with_mail(settings, mailbox)
    found = {each.check: each for each in await examine(configured.database_url, configured)}
    assert found["email"].status == "ok"
    nobody = msgspec.structs.replace(configured, smtp_url="smtp://127.0.0.1:1")
    found = {each.check: each for each in await examine(nobody.database_url, nobody)}
    assert found["email"].status == "problem"
    assert "STOA_SMTP_URL" in found["email"].action
