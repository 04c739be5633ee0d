"""Idempotency keys in the baseline: one row, written in the same transaction as the work."""

import hashlib
from typing import Annotated, Any

from fastapi import Depends, Header, HTTPException, Request

from benchmarks.baseline.access import Caller, Db
from benchmarks.baseline.models import IdempotencyKey


class Claim:
    """The idempotency key of a request; without one, every request is new."""

    def __init__(self, key: str | None, fingerprint: str) -> None:
        self._key = key
        self._fingerprint = fingerprint
        self._row: IdempotencyKey | None = None

    async def claim(self, db: Db, caller: Caller) -> dict[str, Any] | None:
        """The stored response for this key, or None."""
        if self._key is None:
            return None
        before = await db.get(IdempotencyKey, (caller.store_id, caller.app_id, self._key))
        if before is None:
            self._row = IdempotencyKey(
                store_id=caller.store_id, app_id=caller.app_id, key=self._key, fingerprint=self._fingerprint
            )
            db.add(self._row)
            return None
        if before.fingerprint != self._fingerprint:
            raise HTTPException(422)
        return before.answer

    def remember(self, answer: dict[str, Any]) -> None:
        if self._row is not None:
            self._row.answer = answer


async def once(request: Request, idempotency_key: Annotated[str | None, Header()] = None) -> Claim:
    digest = hashlib.sha256(f"{request.method} {request.url.path} ".encode() + await request.body())
    return Claim(idempotency_key, digest.hexdigest())


Once = Annotated[Claim, Depends(once)]
