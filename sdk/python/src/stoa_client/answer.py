"""The response in which something came, without its content."""

from typing import Any

import httpx
import msgspec


class Answer(msgspec.Struct, frozen=True):
    """The response in which a resource, a page or a batch came: its status, headers, `meta` and raw body."""

    status: int
    headers: httpx.Headers
    meta: dict[str, Any]
    content: bytes = b""

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id")

    @property
    def replayed(self) -> bool:
        """Whether this is the stored response to an earlier request with the same idempotency key."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def requests_left(self) -> int | None:
        """How many more requests the rate limit allows now."""
        left = self.headers.get("x-ratelimit-remaining", "")
        return int(left) if left.isdecimal() else None
