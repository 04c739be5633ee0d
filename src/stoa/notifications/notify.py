"""Writes notifications, and the emails that go with them, in the transaction of their cause."""

from collections.abc import Sequence

import msgspec

from stoa.db.directory_outbox import send
from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.notifications.contract import KINDS, News
from stoa.notifications.queries import ADD, WANTED

NEWS = "news"  # the kind of a message to the directory
_PREFERENCES = "To choose your notifications, open your account in the portal."


class Letter(msgspec.Struct):
    """News for some accounts, on its way from a shard to the directory."""

    people: list[int]
    news: News


async def notify(db: Executor, people: Sequence[int], news: News) -> None:
    """Notify each of these accounts as it prefers, unless it got the same notification a short time ago."""
    if not people or await send(db, NEWS, Letter(list(people), news)):
        return
    default = KINDS[news.kind].email
    wanted = await WANTED.all(db, list(people), news.kind, default, news.subject, news.quiet_s)
    if not wanted:
        return
    accounts, shown = [each.account_id for each in wanted], [each.portal for each in wanted]
    await ADD.run(db, accounts, shown, news.kind, news.subject, news.title, news.body, news.path, news.action)
    body = f"{news.body}\n\n{_PREFERENCES}"
    content = Content(news.kind, news.title, body, news.path, news.action)
    await post(db, content, [Recipient(each.account_id, each.email) for each in wanted if each.by_email])


async def receive_news(db: Executor, content: bytes) -> None:
    """Notify people of what happened in a shard."""
    letter = msgspec.json.decode(content, type=Letter)
    await notify(db, letter.people, letter.news)
