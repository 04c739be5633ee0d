"""The dependencies of every route of the baseline: app, store and database session."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, HTTPException
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from benchmarks.baseline.models import Installation, Store, Token
from stoa.access.credentials import keyed_hash
from stoa.secret_keys import read_keys

KEY = read_keys(os.environ["STOA_SECRET_KEY"])
_engine = create_async_engine(
    os.environ["BASELINE_DATABASE_URL"], pool_size=10, max_overflow=0, connect_args={"server_settings": {"jit": "off"}}
)
_sessions = async_sessionmaker(_engine, expire_on_commit=False)


async def session() -> AsyncIterator[AsyncSession]:
    async with _sessions() as opened:
        yield opened


Db = Annotated[AsyncSession, Depends(session)]


class Caller(NamedTuple):
    """The store of the URL, and the app of the token."""

    store_id: int
    app_id: int


def admitted(scope: str) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency that requires a token with the scope on this store."""

    async def admit(db: Db, handle: str, authorization: Annotated[str, Header()] = "") -> Caller:
        token = authorization.removeprefix("Bearer ")
        found = (
            await db.execute(
                select(Token, Store, Installation)
                .select_from(Token)
                .join(Store, Store.handle == handle)
                .join(Installation, (Installation.store_id == Store.id) & (Installation.app_id == Token.app_id))
                .where(Token.token_hash == keyed_hash(KEY, token))
            )
        ).one_or_none()
        if found is None:
            raise HTTPException(401)
        granted, store, installation = found
        if granted.revoked_at is not None or granted.expires_at < datetime.now(UTC):
            raise HTTPException(401)
        if granted.store_id not in (None, store.id) or store.status != "active":
            raise HTTPException(401)
        if not {scope, scope.replace(":read", ":write")} & set(installation.scopes):
            raise HTTPException(403)
        return Caller(store.id, installation.app_id)

    return admit
