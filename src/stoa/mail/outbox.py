"""The outbox: mails are written in the transaction of their cause, and sent by the courier."""

from collections.abc import Sequence

from stoa.db.query import Executor
from stoa.ids import new_id
from stoa.mail import queries
from stoa.mail.contract import Content, Recipient

_MAX_SUBJECT, _MAX_BODY = 200, 10_000


async def post(db: Executor, content: Content, recipients: Sequence[Recipient]) -> list[int]:
    """Write one mail for each recipient, in the caller's transaction; returns their numbers."""
    if not recipients:
        return []
    return await queries.ADD.all(
        db,
        [new_id("mail") for _ in recipients],
        [each.account_id for each in recipients],
        [each.email for each in recipients],
        content.kind,
        one_line(content.subject)[:_MAX_SUBJECT],
        printable(content.body)[:_MAX_BODY],
        content.path,
        content.action,
        content.nonce,
    )


async def discard(db: Executor, mail_ids: Sequence[int]) -> None:
    """Delete those of the mails that were not sent, because what they say is no longer true; 0 is no mail."""
    if given := [each for each in mail_ids if each]:
        await queries.DISCARD.run(db, given)


def one_line(text: str) -> str:
    """The text in one line without control characters, as a header needs it."""
    return " ".join(printable(text).split())


def printable(text: str) -> str:
    """The text without control characters, surrogates and direction marks; line breaks stay."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)
