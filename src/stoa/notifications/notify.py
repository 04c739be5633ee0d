"""Writes notifications, and the emails that go with them, in the transaction of their cause."""

from collections.abc import Sequence

from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.notifications.contract import KINDS, News
from stoa.notifications.queries import ADD, WANTED

_PREFERENCES = "To choose your notifications, open your account in the portal."


async def notify(db: Executor, people: Sequence[int], news: News) -> None:
    """Notify each of these accounts as it prefers, unless it got the same notification a short time ago."""
    default = KINDS[news.kind].email
    wanted = await WANTED.all(db, list(people), news.kind, default, news.subject, news.quiet_s) if people else []
    if not wanted:
        return
    accounts, shown = [each.account_id for each in wanted], [each.portal for each in wanted]
    await ADD.run(db, accounts, shown, news.kind, news.subject, news.title, news.body, news.path, news.action)
    body = f"{news.body}\n\n{_PREFERENCES}"
    content = Content(news.kind, news.title, body, news.path, news.action)
    await post(db, content, [Recipient(each.account_id, each.email) for each in wanted if each.by_email])
