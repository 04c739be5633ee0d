"""The baseline service: its routes and its token endpoint."""

import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request
from sqlalchemy import select
from sqlalchemy.orm import selectinload

from benchmarks.baseline import answers, customers, inventory, orders, products
from benchmarks.baseline.access import KEY, Db
from benchmarks.baseline.models import App, Token
from stoa.access.credentials import keyed_hash, new_access_token

_TOKEN_SECONDS = 3600
app = FastAPI(openapi_url=None)
for router in (products.router, inventory.router, orders.router, customers.router):
    app.include_router(router)


@app.post("/oauth/token")
async def issue_token(db: Db, request: Request) -> answers.NewToken:
    form = dict(parse_qsl((await request.body()).decode()))  # faster than FastAPI's form parameters
    if form.get("grant_type") != "client_credentials":
        raise HTTPException(400)
    found = await db.scalar(
        select(App).options(selectinload(App.secrets)).where(App.client_id == form.get("client_id"))
    )
    digest = keyed_hash(KEY, form.get("client_secret", ""))
    now = datetime.now(UTC)
    live = [s for s in found.secrets if s.expires_at is None or s.expires_at > now] if found else []
    if found is None or not any(hmac.compare_digest(secret.secret_hash, digest) for secret in live):
        raise HTTPException(401)
    if found.status != "active":
        raise HTTPException(400)
    token = new_access_token()
    expires = now + timedelta(seconds=_TOKEN_SECONDS)
    db.add(Token(token_hash=keyed_hash(KEY, token), app_id=found.id, expires_at=expires))
    await db.commit()
    scope = " ".join(found.scopes)
    return answers.NewToken(access_token=token, token_type="Bearer", expires_in=_TOKEN_SECONDS, scope=scope)  # noqa: S106
