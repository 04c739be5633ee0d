"""Limits on what an account can own."""

import pytest

from stoa.access.operator import Operator
from stoa.accounts import ownership
from stoa.accounts.refusals import TooManyStores
from stoa.db.pool import Database
from tests.support.people import User


async def test_the_number_of_stores_is_limited(maria: User, operator: Operator, db: Database) -> None:
    await db.execute(
        """WITH created AS (INSERT INTO stores (handle, name, currency)
                         SELECT 'many-' || $1::bigint || '-' || n, 'Many', 'EUR' FROM generate_series(1, 100) n
                         RETURNING id)
           INSERT INTO account_stores (account_id, store_id, role) SELECT $1, id, 'owner' FROM created""",
        maria.account.id,
    )
    with pytest.raises(TooManyStores):
        await ownership.open_store(operator, maria.account.id, f"one-more-{maria.account.id}", "X", "EUR")
