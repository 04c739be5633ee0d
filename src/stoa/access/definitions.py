"""The metadata definitions of a store, read with the store for a writer that admission does not know."""

from typing import TypeVar

import msgspec

from stoa.access.queries import DEFINITIONS
from stoa.db.query import Executor
from stoa.rest.call import Store
from stoa.rest.metadata import definitions_in_force

AnyStore = TypeVar("AnyStore", bound=Store)


async def with_definitions(db: Executor, store: AnyStore, app_id: int | None) -> AnyStore:
    """The store with the definitions that this app must follow, or without an app a person or an operator."""
    stored = await DEFINITIONS.one(db, store.id)
    return msgspec.structs.replace(store, definitions=definitions_in_force(stored, app_id))
