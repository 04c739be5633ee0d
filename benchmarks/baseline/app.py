"""The baseline service: routes and queries in the ways that the libraries' own documentation shows."""

import base64
import hmac
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import selectinload

from benchmarks.baseline import answers
from benchmarks.baseline.models import App, Installation, Product, Store, Token
from stoa.access.credentials import keyed_hash, new_access_token

_KEY = bytes.fromhex(os.environ["STOA_SECRET_KEY"])
_TOKEN_SECONDS = 3600
_engine = create_async_engine(
    os.environ["BASELINE_DATABASE_URL"], pool_size=10, max_overflow=0, connect_args={"server_settings": {"jit": "off"}}
)
_sessions = async_sessionmaker(_engine, expire_on_commit=False)
app = FastAPI(openapi_url=None)


async def session() -> AsyncIterator[AsyncSession]:
    async with _sessions() as opened:
        yield opened


Db = Annotated[AsyncSession, Depends(session)]


async def admitted_store(db: Db, handle: str, authorization: Annotated[str, Header()] = "") -> int:
    """The store's id, when the token may read its products."""
    token = authorization.removeprefix("Bearer ")
    found = (
        await db.execute(
            select(Token, Store, Installation)
            .select_from(Token)
            .join(Store, Store.handle == handle)
            .join(Installation, (Installation.store_id == Store.id) & (Installation.app_id == Token.app_id))
            .where(Token.token_hash == keyed_hash(_KEY, token))
        )
    ).one_or_none()
    if found is None:
        raise HTTPException(401)
    granted, store, installation = found
    if granted.revoked_at is not None or granted.expires_at < datetime.now(UTC):
        raise HTTPException(401)
    if granted.store_id not in (None, store.id) or store.status != "active":
        raise HTTPException(401)
    if "products:read" not in installation.scopes:
        raise HTTPException(403)
    return store.id


StoreId = Annotated[int, Depends(admitted_store)]


@app.get("/stores/{handle}/api/v3/app/products")  # noqa: FAST003 - the dependency reads the handle
async def list_products(
    db: Db,
    store_id: StoreId,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    cursor: str | None = None,
) -> answers.ProductPage:
    living: tuple[ColumnElement[bool], ...] = (Product.store_id == store_id, Product.deleted_at.is_(None))
    total = await db.scalar(select(func.count()).select_from(Product).where(*living))
    page = select(Product).options(selectinload(Product.images)).where(*living).order_by(Product.id).limit(limit + 1)
    if cursor is not None:
        page = page.where(Product.id > int(base64.urlsafe_b64decode(cursor)))
    rows = list(await db.scalars(page))
    more = len(rows) > limit
    meta: dict[str, Any] = {
        "total": total,
        "limit": limit,
        "page": 1 if cursor is None else None,
        "next_cursor": _cursor(rows[limit - 1].id) if more else None,
        "prev_cursor": _cursor(rows[0].id) if cursor is not None else None,
    }
    return answers.ProductPage.model_validate({"data": rows[:limit], "meta": meta})


def _cursor(product_id: int) -> str:
    return base64.urlsafe_b64encode(str(product_id).encode()).decode()


@app.get("/stores/{handle}/api/v3/app/products/{product_id}")  # noqa: FAST003
async def get_product(db: Db, store_id: StoreId, product_id: int) -> answers.OneProduct:
    found = await db.scalar(
        select(Product)
        .options(selectinload(Product.images), selectinload(Product.variants))
        .where(Product.store_id == store_id, Product.id == product_id, Product.deleted_at.is_(None))
    )
    if found is None:
        raise HTTPException(404)
    return answers.OneProduct.model_validate({"data": found, "meta": {}})


@app.post("/oauth/token")
async def issue_token(db: Db, request: Request) -> answers.NewToken:
    form = dict(parse_qsl((await request.body()).decode()))  # quicker than FastAPI's own form parameters
    if form.get("grant_type") != "client_credentials":
        raise HTTPException(400)
    found = await db.scalar(
        select(App).options(selectinload(App.secrets)).where(App.client_id == form.get("client_id"))
    )
    digest = keyed_hash(_KEY, form.get("client_secret", ""))
    now = datetime.now(UTC)
    live = [s for s in found.secrets if s.expires_at is None or s.expires_at > now] if found else []
    if found is None or not any(hmac.compare_digest(secret.secret_hash, digest) for secret in live):
        raise HTTPException(401)
    if found.status != "active":
        raise HTTPException(400)
    token = new_access_token()
    expires = now + timedelta(seconds=_TOKEN_SECONDS)
    db.add(Token(token_hash=keyed_hash(_KEY, token), app_id=found.id, expires_at=expires))
    await db.commit()
    scope = " ".join(found.scopes)
    return answers.NewToken(access_token=token, token_type="Bearer", expires_in=_TOKEN_SECONDS, scope=scope)  # noqa: S106
