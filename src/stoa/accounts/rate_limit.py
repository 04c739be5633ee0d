"""A rate limit for actions of an account that other accounts notice."""

from stoa.access.authentication import Attempt, count_failure, refuse_guessing
from stoa.access.operator import Operator
from stoa.access.queries import FAILED_ATTEMPTS
from stoa.db.pool import Database


async def limit_rate(by: Operator, db: Database, account_id: int, action: str) -> None:
    """Limit how often an account does this in a minute, because each time adds an entry to another store's audit log."""
    attempt = Attempt(f"{action}/{account_id}", f"account:{account_id}", "account")  # each account has its own counter
    refuse_guessing(await FAILED_ATTEMPTS.one(db, attempt.subjects))
    await count_failure(db, attempt, by.request_id)
