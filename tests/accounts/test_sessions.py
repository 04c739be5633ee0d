"""Sign-ins that race with a password change."""

import asyncio
import itertools

from stoa.access.operator import Operator
from stoa.accounts.refusals import WrongCredentials
from stoa.accounts.registration import change_password
from stoa.accounts.sessions import sign_in
from stoa.db.pool import Database
from tests.support.people import PASSWORD, User, new_peer


async def count_sessions(db: Database, user: User) -> int:
    [[count]] = await db.fetch("SELECT count(*) FROM account_sessions WHERE account_id = $1", user.account.id)
    return count


async def test_a_password_change_defeats_a_concurrent_sign_in_with_the_old_password(
    maria: User, db: Database, operator: Operator
) -> None:
    passwords = [PASSWORD, *(f"walk number {number} in the porch" for number in range(6))]
    for old, new in itertools.pairwise(passwords):
        sign_ins = [sign_in(operator, db, maria.email, old, peer=new_peer(), agent="") for _ in range(3)]
        change = change_password(operator, maria.account, new)
        outcomes = await asyncio.gather(*sign_ins, change, return_exceptions=True)
        assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {WrongCredentials}
        assert await count_sessions(db, maria) == 0, "the old password opened a session"
