"""Refusals: each a class with its status, code and title, answered as problem+json (RFC 9457)."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec


class Fault(msgspec.Struct, omit_defaults=True):
    """One thing that is wrong, where it is wrong, and what would be right."""

    pointer: str
    code: str
    detail: str
    meta: dict[str, Any] | None = None


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every answer that is not a success."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    retryable: bool = msgspec.field(default=False)
    errors: list[Fault] = []


class Refusal(Exception):
    """A request that is not carried out, and why."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = ""
    title: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    advice: ClassVar[str] = ""  # the detail, where whoever refuses knows no more
    known: ClassVar[dict[str, type["Refusal"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.code:
            Refusal.known[cls.code] = cls

    def __init__(
        self,
        detail: str = "",
        *,
        faults: Sequence[Fault] = (),
        headers: Sequence[tuple[bytes, bytes]] = (),
        **members: Any,
    ) -> None:
        self.detail = detail or self.advice or self.title
        super().__init__(self.detail)
        self.faults = list(faults)
        self.headers = list(headers)
        self.members = members

    def body(self, *, origin: str, instance: str, request_id: str) -> bytes:
        problem: dict[str, Any] = {
            "type": f"{origin}/problems/{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "request_id": request_id,
            "retryable": self.retryable,
            **self.members,
        }
        if self.faults:
            problem["errors"] = self.faults
        return msgspec.json.encode(problem)


def shown(value: Any, most: int = 80) -> str:
    """Somebody's input, shortened and made printable, fit to stand in an error."""
    text = value if isinstance(value, str) else str(value)[: most + 1]
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return safe + "…" if len(text) > most else safe


def did_you_mean(name: str, known: Iterable[str]) -> dict[str, Any] | None:
    """What a fault tells of a name that nobody knows: the known one that is most like it, if any is."""
    close = difflib.get_close_matches(name[:64], list(known), n=1)
    return {"did_you_mean": close[0]} if close else None


def counted(number: int, noun: str) -> str:
    """So many of a thing: "1 fault", "2 faults"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class MalformedJson(Refusal):
    """The body is not JSON, or is JSON that different readers would understand differently."""

    status, code, title = 400, "malformed_json", "The body is not well-formed JSON"


class UnknownParameter(Refusal):
    """A query parameter that this endpoint does not have; none is ever silently ignored. `available` lists those it has."""

    status, code, title = 400, "unknown_parameter", "Unknown query parameter"


class InvalidParameter(Refusal):
    """A query parameter whose value cannot be understood."""

    status, code, title = 400, "invalid_parameter", "Invalid query parameter"


class CursorMismatch(Refusal):
    """The cursor was made for other filters or another order; start again without it."""

    status, code, title = 400, "cursor_mismatch", "The cursor belongs to another query"


class PageTooDeep(Refusal):
    """Numbered pages reach 10,000 rows; follow `next_cursor` to go further."""

    status, code, title = 400, "page_too_deep", "This page lies beyond the reach of numbered pages"


class InvalidIdempotencyKey(Refusal):
    """An Idempotency-Key is 1 to 255 visible ASCII characters."""

    status, code, title = 400, "invalid_idempotency_key", "Invalid Idempotency-Key"


class MissingToken(Refusal):
    """The request carries no bearer token."""

    status, code, title = 401, "missing_token", "A bearer token is needed"


class InvalidToken(Refusal):
    """The token is unknown, mistyped, revoked, or made for another store."""

    status, code, title = 401, "invalid_token", "The token is not valid"
    advice = "Get a new token at the token endpoint, POST /oauth/token, and send it whole, as it came."


class ExpiredToken(Refusal):
    """The token's hour is over; ask for a new one."""

    status, code, title = 401, "expired_token", "The token has expired"
    advice = "A token lives one hour. Get a new one at the token endpoint, POST /oauth/token, and repeat the request."


class InsufficientScope(Refusal):
    """The store has not granted this app the scope named in `required_scope`."""

    status, code, title = 403, "insufficient_scope", "The granted scopes do not cover this"


class AppNotInstalled(Refusal):
    """The app is not installed on this store."""

    status, code, title = 403, "app_not_installed", "The app is not installed on this store"


class AppSuspended(Refusal):
    """The operator has suspended this app."""

    status, code, title = 403, "app_suspended", "The app is suspended"


class StoreSuspended(Refusal):
    """The operator has suspended this store."""

    status, code, title = 403, "store_suspended", "The store is suspended"


class NotFound(Refusal):
    """There is no such thing here: no such address, no such store, or no such id in this store."""

    status, code, title = 404, "not_found", "Not found"


class MethodNotAllowed(Refusal):
    """The address exists but does not take this method; `Allow` lists those it takes."""

    status, code, title = 405, "method_not_allowed", "Method not allowed"


class NotAcceptable(Refusal):
    """The `Accept` header rules out every form this endpoint can answer in."""

    status, code, title = 406, "not_acceptable", "No acceptable representation"


class RequestTimeout(Refusal):
    """The body did not arrive within 30 seconds."""

    status, code, title, retryable = 408, "request_timeout", "The body took too long to arrive", True


class IdempotencyInProgress(Refusal):
    """A request with this Idempotency-Key is being carried out right now."""

    status, code, title, retryable = (
        409,
        "idempotency_in_progress",
        "A request with this key is in progress",
        True,
    )


class ExternalIdTaken(Refusal):
    """Another resource of the store has this external id. `existing_id` names that resource."""

    status, code, title = 409, "external_id_taken", "The external id is taken"


class VersionConflict(Refusal):
    """`If-Match` names a version that is not the current one."""

    status, code, title = 412, "version_conflict", "The resource has changed"


class PayloadTooLarge(Refusal):
    """The body is larger than this endpoint takes, packed or unpacked."""

    status, code, title = 413, "payload_too_large", "The body is too large"


class UnsupportedMediaType(Refusal):
    """The body's media type or encoding is not one this endpoint takes."""

    status, code, title = 415, "unsupported_media_type", "Unsupported media type"


class ValidationFailed(Refusal):
    """The body was understood but is not right; `errors` names every fault at once."""

    status, code, title = 422, "validation_failed", "The body has faults"


class IdempotencyKeyReused(Refusal):
    """This Idempotency-Key was used before for a different request."""

    status, code, title = 422, "idempotency_key_reused", "The key was used for another request"


class RateLimited(Refusal):
    """The app has used up its requests to this store for now; `Retry-After` says when to go on."""

    status, code, title, retryable = 429, "rate_limited", "Too many requests", True


class HeadersTooLarge(Refusal):
    """A request may carry 100 header fields and 16 KiB of them."""

    status, code, title = 431, "headers_too_large", "The header fields are too large"


class InternalError(Refusal):
    """Something went wrong on our side; the request id finds it in our log."""

    status, code, title, retryable = 500, "internal_error", "Internal error", True


class ServiceUnavailable(Refusal):
    """The service cannot answer just now; `Retry-After` says when to try again."""

    status, code, title, retryable = 503, "unavailable", "Temporarily unavailable", True
