"""What an app changes for all stores at once, on its way to the stores in shards.

The transaction that changes an app acts on the stores of the directory's own database, and sends this to the shards.
"""

import msgspec

from stoa.access.operator import Operator
from stoa.db.query import Executor
from stoa.db.shard_outbox import send_to_shards

APP_CHANGED = "app"  # the kind of a message to a shard, or to a store that has moved


class AppChange(msgspec.Struct):
    """An app whose endpoint, secret, subscriptions or status changed; without an app, whatever changed of any of them.

    `resumed` ends that its endpoint is disabled on a store, and `new_secret` ends the leases of workers that have the old one.
    """

    app_id: int | None = None
    actor: str = "system"
    request_id: str = ""
    resumed: bool = False
    new_secret: bool = False


async def tell_shards(
    by: Operator, db: Executor, app_id: int, *, resumed: bool = False, new_secret: bool = False
) -> None:
    """Let the stores in shards follow a change of an app, in the transaction of the change."""
    change = AppChange(app_id, by.actor, by.request_id, resumed, new_secret)
    await send_to_shards(db, APP_CHANGED, change)
