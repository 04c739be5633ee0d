"""The outbox: what operators see of email, with and without a mail server, and sending again."""

import msgspec

from stoa.app import Application
from stoa.db.pool import Database
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.settings import Settings
from tests.support.people import create_user, new_email


async def test_an_operator_reads_the_outbox_and_sends_a_mail_again(application: Application, db: Database) -> None:
    user = await create_user(application, db, operator=True)
    email = new_email()
    content = Content("test", "Walker <b>fails", "It\n\nfails.", "/portal/new-password/", "Choose", "secret-nonce")
    await post(db, content, [Recipient(None, email)])
    await user.open(f"/portal/operators/outbox?q={email}&status=waiting")
    assert "Nothing is sent until STOA_SMTP_URL is set" in user.text.replace("<code>", "").replace("</code>", "")
    assert "Walker &lt;b&gt;fails" in user.response.text
    [[number]] = await db.fetch("SELECT id FROM mails WHERE recipient = $1", email)
    url = f"/portal/operators/outbox/{number}"
    await user.open(url)
    assert "It\n\nfails." in user.text
    assert "one-time link" in user.text
    assert "secret-nonce" not in user.text
    assert "Send again" not in user.text
    await db.execute("UPDATE mails SET status = 'failed', attempts = 8, error = 'no' WHERE id = $1", number)
    await user.open(url)
    [[before]] = await db.fetch("SELECT message_id FROM mails WHERE id = $1", number)
    await user.submit(f"{url}/resend", message_id=before)
    assert user.notice == "The email waits to be sent again."
    await user.submit(f"{url}/resend", message_id=before)
    assert user.notice == "This email already waits to be sent."
    [[status, attempts, after]] = await db.fetch("SELECT status, attempts, message_id FROM mails WHERE id = $1", number)
    assert (status, attempts) == ("waiting", 0)
    assert before != after
    await db.execute("UPDATE mails SET status = 'failed' WHERE id = $1", number)
    await user.open("/portal/operators/outbox")
    assert "could not be sent" in user.text
    await user.submit("/portal/operators/outbox/resend")
    assert user.notice.endswith("failed emails wait to be sent again.")
    await user.submit("/portal/operators/outbox/resend")
    assert user.notice == "No email has failed."
    assert await db.fetch("SELECT FROM mails WHERE id = $1 AND status = 'waiting' AND message_id <> $2", number, after)
    await user.submit("/portal/operators/outbox/test")
    assert user.notice.startswith("The test email is in the outbox.")
    assert user.email in user.text
    await user.client.aclose()


async def test_with_a_mail_server_there_is_no_hint(settings: Settings, db: Database) -> None:
    configured = msgspec.structs.replace(settings, smtp_url="smtp://127.0.0.1:1", mail_from="a@example.com")
    application = Application(configured)
    user = await create_user(application, db, operator=True)
    await user.open("/portal/operators/outbox")
    assert "STOA_SMTP_URL" not in user.text
    await post(db, Content("test", "Stuck", "Text"), [Recipient(None, new_email())])
    await db.execute("UPDATE mails SET attempts = 3 WHERE subject = 'Stuck'")
    await user.open("/portal/operators/health")
    assert "Email cannot be sent. The page Email shows why." in user.text
    await db.execute("DELETE FROM mails WHERE subject = 'Stuck'")
    await user.client.aclose()
    await application.close()
