"""The outbox for operators: every email of the last 30 days, what became of it, and a way to send it again."""

from typing import Annotated

import msgspec

from stoa.access.audit import SERVICE
from stoa.ids import new_id
from stoa.mail import queries
from stoa.mail.contract import STATUSES, Content, Mail, Recipient
from stoa.mail.outbox import post
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import text
from stoa.portal.kit.list_view import PAGE_SIZE, before
from stoa.portal.kit.pages import ROOT, Audience, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()
OUTBOX = f"{ROOT}/operators/outbox"
_TEST = Content(
    "test", "Test of your email settings", "Stoa can send email.", "/portal/operators/outbox", "Open the outbox"
)


class ResendForm(msgspec.Struct):
    """The message id says which attempt is repeated, so that a double click repeats it once."""

    message_id: Annotated[str, text("Reload the page.", min_length=1, max_length=40)]


@pages.page("/operators/outbox", audience=Audience.OPERATOR)
async def operator_outbox(visit: Visit) -> View:
    term, status = visit.query("q").strip(), visit.query("status")
    status = status if status in STATUSES else ""
    rows = await queries.PAGE.all(visit.db, before(visit), term.lower(), status, PAGE_SIZE + 1)
    context = {
        "rows": rows[:PAGE_SIZE],
        "next": rows[PAGE_SIZE - 1].id if rows[PAGE_SIZE:] else 0,
        "q": term,
        "status": status,
        "statuses": STATUSES,
        "counts": await queries.COUNTS.one(visit.db),
        "sends": bool(visit.settings.smtp_url),
        "days": queries.RETENTION_DAYS,
    }
    return View("operators/outbox.html", context)


@pages.form("/operators/outbox/test", on=operator_outbox)
async def send_test_mail(visit: Visit) -> Redirect:
    async with visit.db.transaction() as db:
        await post(db, _TEST, [Recipient(visit.me.account_id, visit.me.email)])
        await visit.by.record(db, SERVICE, "mail.tested", f"account:{visit.me.account_id}")
    return Redirect(OUTBOX, "The test email is in the outbox. Reload the page to see whether it was sent.")


@pages.form("/operators/outbox/resend", on=operator_outbox)
async def resend_failed_mails(visit: Visit) -> Redirect:
    async with visit.db.transaction() as db:
        failed = await queries.FAILED.all(db)
        count = await queries.RESEND.run(db, failed, [new_id("mail") for _ in failed])
        if count:
            await visit.by.record(db, SERVICE, "mail.resent", "mail:failed", count=count)
    return Redirect(OUTBOX, f"{count} failed emails wait to be sent again." if count else "No email has failed.", "")


@pages.page("/operators/outbox/{mail:int}", audience=Audience.OPERATOR, nav="operator_outbox")
async def operator_mail(visit: Visit) -> View:
    return View("operators/mail.html", {"mail": await _mail(visit), "sends": bool(visit.settings.smtp_url)})


@pages.form("/operators/outbox/{mail:int}/resend", on=operator_mail)
async def resend_mail(visit: Visit, form: ResendForm) -> Redirect:
    mail = await _mail(visit)
    url = f"{OUTBOX}/{mail.id}"
    async with visit.db.transaction() as db:
        if mail.message_id != form.message_id or not await queries.RESEND.run(db, [mail.id], [new_id("mail")]):
            return Redirect(url, "This email already waits to be sent.", "warn")
        await visit.by.record(db, SERVICE, "mail.resent", f"mail:{mail.id}")
    return Redirect(url, "The email waits to be sent again.")


async def _mail(visit: Visit) -> Mail:
    found = await queries.GET.maybe(visit.db, visit.path_param("mail"))
    if found is None:
        raise not_found()
    return found
