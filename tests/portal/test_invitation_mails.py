"""Invitations by email: sent once, over real SMTP, with a link that only the recipient learns, and gone with the invitation."""

import asyncio
import re

import pytest

from stoa.access import audit
from stoa.accounts import registration, teams
from stoa.accounts.contract import Team
from stoa.accounts.invitation_mail import KINDS, MAX_A_DAY
from stoa.accounts.refusals import TooManyInvitations
from stoa.app import Application
from stoa.db.pool import Database
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.operations.measuring import publish, read_queues
from stoa.operations.telemetry import MAILS_GIVEN_UP, MAILS_WAITING, OLDEST_MAIL
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.mail_service import run_courier
from tests.support.people import PASSWORD, SAME_ORIGIN, Visitor, browser, create_user, new_email
from tests.support.smtp import MailboxServer

SENT = "We have sent the invitation to {} by email."
INVITE = "/portal/operators/invite"
_LINK = re.compile(r"/portal/(?:join|invitation)/([\w-]{43})")


def forms(app: InstalledApp) -> dict[str, tuple[str, str, dict[str, str]]]:
    """For each kind of invitation: its page, the address of its form, and the other fields."""
    store = f"/portal/stores/{app.handle}/team"
    return {
        "app": (f"{app.path}/team", f"{app.path}/team/invite", {"role": "developer"}),
        "store": (store, f"{store}/invite", {"role": "manager"}),
        "operator": (INVITE, INVITE, {"operator": "on", "confirmed": "on"}),
    }


async def mails_to(db: Database, email: str) -> list[tuple[str, str]]:
    rows = await db.fetch("SELECT kind, status FROM mails WHERE recipient = $1 ORDER BY id", email)
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("kind", ["app", "store", "operator"])
async def test_an_invitation_is_emailed_once_and_only_its_recipient_sees_the_link(
    service: Application, db: Database, mailbox: MailboxServer, kind: str
) -> None:
    user = await create_user(service, db, operator=True, name="Maria\u202eStone <b>")
    page, form, fields = forms(await install_app(user, db))[kind]
    email = new_email()
    await user.open(page)
    assert "We send them a link by email." in user.text
    data = {"_token": user.token, "email": email.upper(), **fields}
    answers = await asyncio.gather(*(user.client.post(form, data=data, headers=SAME_ORIGIN) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [303] * 3, "three times the same form"
    for _ in "ab":
        await user.open(str(answers[0].headers["location"]))  # a reload
        assert not _LINK.search(user.text)
    await user.submit(form, {"email": email, **fields})
    assert (user.path, user.notice) == (page, SENT.format(email))
    assert "Email waits" in user.text
    assert await mails_to(db, email) == [(f"{'account' if kind == 'operator' else 'team'}_invitation", "waiting")]

    async def settled() -> bool:
        return [status for _, status in await mails_to(db, email)] == ["sent"]

    await run_courier(db, service.settings, settled, "the invitation is sent")
    [mail] = mailbox.to(email)
    assert ("Maria Stone <b>" in mail.text) == (kind != "operator")
    assert "<b>" not in mail.html.replace("&lt;b&gt;", "")
    assert "because somebody at http://testserver entered your address" in " ".join(mail.text.split())
    found = _LINK.search(mail.link)
    assert found
    for table in ("mails", "team_invitations", "account_links", "account_results", "service_audit_entries"):
        assert await db.fetch(f"SELECT FROM {table} t WHERE t::text LIKE '%' || $1 || '%'", found[1]) == [], table
    await user.open(page)
    assert "Email sent" in user.text
    visitor = Visitor(browser(service))
    await visitor.open(found[0])
    await visitor.submit(found[0], name="Ada New", password=PASSWORD)
    await visitor.open("/portal/operators/accounts" if kind == "operator" else page)
    assert visitor.response.status_code == 200, "Ada has joined"
    assert len(mailbox.to(email)) == 1
    await visitor.client.aclose()
    await user.client.aclose()


async def test_an_email_that_was_not_sent_ends_with_its_invitation(service: Application, db: Database) -> None:
    user = await create_user(service, db, operator=True)
    app = await install_app(user, db)
    team = Team("store", app.store_id, "Hooks")
    by = app.by
    email = new_email()

    async def invite(role: str = "viewer") -> None:
        await teams.invite(by, team, email, role, invited_by=user.account.id, by_email=True)

    await invite()
    await invite("manager")
    assert len(await mails_to(db, email)) == 1, "another role replaces the invitation"
    [pending] = await teams.invitations_to(db, team)
    await teams.revoke_invitation(by, team, pending.id)
    assert await mails_to(db, email) == []
    await invite()
    await db.execute("UPDATE mails SET status = 'failed', finished_at = now() WHERE recipient = $1", email)
    await user.open(f"/portal/stores/{app.handle}/team")
    assert "Email failed" in user.text
    await invite()
    assert [status for _, status in await mails_to(db, email)] == ["waiting"], "an email that failed is replaced"
    # Nothing is sent if the transaction fails.
    other = new_email()

    async def fail() -> None:
        async with by.transaction() as joined:
            await teams.invite(joined, team, other, "viewer", by_email=True)
            await registration.invite(joined, other, by_email=True)
            assert len(await joined.db.fetch("SELECT FROM mails WHERE recipient = $1", other)) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await mails_to(db, other) == []
    # An address gets a few invitations a day; after that, another one is refused, and the link is not shown.
    await db.execute(
        "UPDATE mails SET status = 'sent', created_at = now() - interval '1 hour' WHERE recipient = $1", email
    )
    for count in range(2, MAX_A_DAY + 1):
        await invite()
        await db.execute("UPDATE mails SET status = 'sent', created_at = now() - interval '1 hour'")
        assert len(await mails_to(db, email)) == count
    await user.open(f"/portal/stores/{app.handle}/team")
    await user.submit(f"/portal/stores/{app.handle}/team/invite", email=email, role="viewer")
    assert user.response.status_code == 429
    assert user.faults["email"].startswith(
        "This address has received 5 invitations within a day; invite it again after "
    )
    assert not _LINK.search(user.text)
    assert len(await mails_to(db, email)) == MAX_A_DAY
    await user.client.aclose()


async def test_an_operator_does_not_see_the_link_of_one_more_invitation_either(
    service: Application, db: Database
) -> None:
    user = await create_user(service, db, operator=True)
    email = new_email()
    await post(db, Content(KINDS[1], "Invitation", "Text"), [Recipient(None, email)] * MAX_A_DAY)
    await user.open(INVITE)
    await user.submit(INVITE, email=email)
    assert (user.response.status_code, "email" in user.faults, bool(_LINK.search(user.text))) == (429, True, False)
    await user.client.aclose()


async def test_an_operator_sees_and_revokes_pending_invitations(
    application: Application, db: Database, visitor: Visitor
) -> None:
    user = await create_user(application, db, operator=True)
    email, other = new_email(), new_email()
    await user.open(INVITE)
    await user.submit(INVITE, email=other)
    await user.open(INVITE)
    await user.submit(INVITE, email=email, operator="on", confirmed="on")
    link = _LINK.search(user.text)
    assert link, "without a mail server, the page shows the link"
    assert await mails_to(db, email) == []
    await user.open(INVITE)
    row = next(each for each in re.findall(r"<tr><td>.*?</tr>", user.text, re.DOTALL) if email in each)
    assert "Operator" in row
    assert "Passed on" in row
    action = re.search(r'action="(/portal/operators/invitations/\w+/revoke)"', row)
    assert action
    assert link[1] not in user.text
    before = await audit.head(db, audit.SERVICE)
    await user.submit(action[1])
    assert (user.path, user.tone) == (INVITE, "good")
    assert email not in user.text
    assert other in user.text
    await visitor.open(link[0])
    assert visitor.response.status_code == 404
    await user.submit(action[1])
    assert user.tone == "warn", "a stale page"
    entries = await audit.newest(db, audit.SERVICE, 2)
    assert [each.action for each in entries] == ["account.invitation_revoked", "account.invited"]
    assert {each.subject for each in entries} == {f"invitation:{action[1].split('/')[-2]}"}
    assert entries[0].actor == f"account:{user.account.id}"
    assert entries[0].position == before.position + 1, "a stale page writes nothing"
    await user.client.aclose()


async def test_teams_that_invite_an_address_at_once_send_it_no_more_than_a_day_allows(
    service: Application, db: Database
) -> None:
    user, email = await create_user(service, db), new_email()
    apps = [await install_app(user, db) for _ in range(MAX_A_DAY + 1)]
    invitations = (
        teams.invite(app.by, Team("app", app.app_id, "Walker"), email, "viewer", by_email=True) for app in apps
    )
    outcomes = await asyncio.gather(*invitations, return_exceptions=True)
    assert [type(each) for each in outcomes if isinstance(each, Exception)] == [TooManyInvitations]
    assert len(await mails_to(db, email)) == MAX_A_DAY
    await user.client.aclose()


async def test_the_backlog_of_email_is_measured(service: Application, db: Database) -> None:
    def figures() -> list[float]:
        families = [family for gauge in (MAILS_WAITING, OLDEST_MAIL, MAILS_GIVEN_UP) for family in gauge.collect()]
        return [sample.value for family in families for sample in family.samples]

    publish(await read_queues(db), sends=True)
    assert figures() == [0, 0, 0]
    by = (await install_app(user := await create_user(service, db), db)).by
    for status, hours in (("waiting", 3), ("waiting", 1), ("sent", 9), ("failed", 23), ("failed", 25)):
        await registration.invite(by, email := new_email(), by_email=True)
        await db.execute(
            """UPDATE mails SET status = $2, created_at = now() - make_interval(hours => $3),
                      finished_at = now() - make_interval(hours => $3) WHERE recipient = $1""",
            *(email, status, hours),
        )
    publish(await read_queues(db), sends=True)
    waiting, oldest, given_up = figures()
    assert (waiting, round(oldest / 3600), given_up) == (2, 3, 1)
    publish(await read_queues(db), sends=False)
    assert figures() == [2, 0, 1], "without a mail server, mails wait on purpose"
    await user.client.aclose()
