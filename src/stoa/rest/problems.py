"""Refusals: one class per error code, sent as problem documents (RFC 9457)."""

import difflib
from collections.abc import Iterable, Sequence, Sized
from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta

MOST_SUGGESTED = 20  # of the faults of a document
_LONGEST_COMPARED = 64


class Fault(msgspec.Struct, omit_defaults=True):
    """One fault of a request: where it is, what is wrong and what would be valid."""

    pointer: Annotated[
        str,
        Meta(description="Where the fault is: a JSON Pointer into the body that was sent, or the name of a parameter."),
    ]
    code: Annotated[str, Meta(description="The kind of fault, with a page at `/problems/{code}`.")]
    detail: Annotated[str, Meta(description="What is wrong and what would be valid. For people; programs use `code`.")]
    meta: Annotated[
        dict[str, Any] | None,
        Meta(description="Further facts, such as a bound or a suggestion; omitted if there are none."),
    ] = None


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every error response."""

    type: Annotated[str, Meta(description="The address of the page about this error code.")]
    title: Annotated[str, Meta(description="The error in a few words, the same for every error with this code.")]
    status: Annotated[int, Meta(description="The HTTP status, as in the response.")]
    detail: Annotated[str, Meta(description="What is wrong with this request. For people; programs use `code`.")]
    instance: Annotated[str, Meta(description="The path of the request.")]
    code: Annotated[str, Meta(description="The error code. It never changes its meaning.")]
    request_id: Annotated[
        str, Meta(description="The id of the request, also in `X-Request-Id`. Quote it when you ask for help.")
    ]
    retryable: Annotated[bool, Meta(description="Whether the same request can succeed later.")] = msgspec.field(
        default=False
    )
    errors: Annotated[
        list[Fault],
        Meta(description="All faults of the request at once; omitted if the error is not about single fields."),
    ] = []


class Refusal(Exception):
    """The reason why a request is not carried out."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = ""
    title: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    reserved: ClassVar[bool] = False  # documented, so that apps can handle it, but not sent yet
    advice: ClassVar[str] = ""  # the default detail
    known: ClassVar[dict[str, type["Refusal"]]] = {}
    shed: str = ""  # why a request is shed, for logs and metrics
    app_id: int | None = None  # the app whose token is refused: for its request log, never for the response

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


def printable(value: Any, most: int = 80) -> str:
    """A caller's input, shortened and without control characters, for use in an error message."""
    text = value if isinstance(value, str) else str(value)[: most + 1]
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return safe + "…" if len(text) > most else safe


def did_you_mean(name: str, known: Iterable[str], before: Sized = ()) -> dict[str, Any] | None:
    """The `meta` of a fault about an unknown name: the most similar known name, if there is one.

    The search compares the name with each known one. `before` are the faults of the document that were found before: only
    the first ones get a suggestion, so that a request with many unknown names cannot keep a worker busy.
    """
    if len(before) >= MOST_SUGGESTED:
        return None
    close = difflib.get_close_matches(name[:_LONGEST_COMPARED], list(known), n=1)
    return {"did_you_mean": close[0]} if close else None


def first_sent(sent: Any, *pointers: str) -> str:
    """The first of these JSON pointers that names a value of the body; the whole body if it contains none of them."""
    return next((pointer for pointer in pointers if _contains(sent, pointer.split("/")[1:])), "")


def _contains(value: Any, names: Sequence[str]) -> bool:
    for name in names:
        if isinstance(value, dict) and name in value:
            value = cast("dict[str, Any]", value)[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            return False
    return True


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 fault", "2 faults"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class MalformedRequest(Refusal):
    """The request is not valid HTTP: its body is incomplete or its chunks are malformed, or it does not have exactly one
    `Host` header, or has two `Authorization`, `Idempotency-Key`, `Content-Type` or `Content-Encoding` headers."""

    status, code, title = 400, "malformed_request", "The request is not valid HTTP"


class MalformedJson(Refusal):
    """The body is not valid JSON, or it is ambiguous, for example because a key occurs twice."""

    status, code, title = 400, "malformed_json", "The body is not valid JSON"


class UnknownParameter(Refusal):
    """The endpoint has no such query parameter. Unknown parameters are never ignored; `available` lists the known ones."""

    status, code, title = 400, "unknown_parameter", "Unknown query parameter"


class InvalidParameter(Refusal):
    """The value of a query parameter is invalid."""

    status, code, title = 400, "invalid_parameter", "Invalid query parameter"


class CursorMismatch(Refusal):
    """The cursor belongs to another list, other filters or another sort order. Start again without `cursor`."""

    status, code, title = 400, "cursor_mismatch", "The cursor belongs to another query"


class PageTooDeep(Refusal):
    """Page numbers cover the first 10,000 rows. To read further, follow `next_cursor`."""

    status, code, title = 400, "page_too_deep", "The page number is too large"


class InvalidIdempotencyKey(Refusal):
    """An `Idempotency-Key` must have 1 to 255 visible ASCII characters."""

    status, code, title = 400, "invalid_idempotency_key", "Invalid Idempotency-Key"


class MissingToken(Refusal):
    """The request has no bearer token in its `Authorization` header."""

    status, code, title = 401, "missing_token", "A bearer token is required"


class InvalidToken(Refusal):
    """The token is unknown, incomplete, revoked, or issued for another store."""

    status, code, title = 401, "invalid_token", "The token is invalid"
    advice = "Get a new token from POST /oauth/token, and send it complete and unchanged."


class ExpiredToken(Refusal):
    """The token is older than one hour. Get a new one."""

    status, code, title = 401, "expired_token", "The token has expired"
    advice = "A token is valid for one hour. Get a new one from POST /oauth/token, and repeat the request."


class InsufficientScope(Refusal):
    """The store has not granted this app the scope named in `required_scope`, or the token was requested without it."""

    status, code, title = 403, "insufficient_scope", "The app lacks the required scope"


class AppNotInstalled(Refusal):
    """The app is not installed on this store."""

    status, code, title = 403, "app_not_installed", "The app is not installed on this store"


class AppSuspended(Refusal):
    """The operator has suspended this app."""

    status, code, title = 403, "app_suspended", "The app is suspended"


class StoreSuspended(Refusal):
    """An operator has suspended this store, or its owner has closed it."""

    status, code, title = 403, "store_suspended", "The store is suspended"


class NotFound(Refusal):
    """The path or the store does not exist, or the store has no resource with this id."""

    status, code, title = 404, "not_found", "Not found"


class MethodNotAllowed(Refusal):
    """The path does not support this method; `Allow` lists the methods that it supports."""

    status, code, title = 405, "method_not_allowed", "Method not allowed"


class NotAcceptable(Refusal):
    """The `Accept` header excludes every media type that this endpoint can send."""

    status, code, title = 406, "not_acceptable", "No acceptable representation"


class RequestTimeout(Refusal):
    """The body did not arrive within 30 seconds."""

    status, code, title, retryable = 408, "request_timeout", "The body took too long to arrive", True


class IdempotencyInProgress(Refusal):
    """Another request with this `Idempotency-Key` is still in progress."""

    status, code, title, retryable = (
        409,
        "idempotency_in_progress",
        "A request with this idempotency key is in progress",
        True,
    )


class ExternalIdTaken(Refusal):
    """Another resource of the store has this external id. `existing_id` names that resource."""

    status, code, title = 409, "external_id_taken", "The external id is taken"


class VersionConflict(Refusal):
    """The resource has another version than `If-Match`, `if_version` or the `version` in the body. Read it again, then retry.

    `current_version` is its version now.
    """

    status, code, title = 412, "version_conflict", "The resource has changed"


class PreconditionRequired(Refusal):
    """The change requires `If-Match` with the `ETag` or the version that you read.

    The code is reserved: no operation requires `If-Match` today. Read the resource, then send the request again with
    `If-Match`.
    """

    status, code, title, reserved = 428, "precondition_required", "If-Match is required", True


class PayloadTooLarge(Refusal):
    """The body is larger than this endpoint accepts, before or after decompression."""

    status, code, title = 413, "payload_too_large", "The body is too large"


class UnsupportedMediaType(Refusal):
    """The endpoint does not accept the media type or the encoding of the body."""

    status, code, title = 415, "unsupported_media_type", "Unsupported media type"


class ValidationFailed(Refusal):
    """The body is valid JSON but its values are invalid; `errors` names every fault."""

    status, code, title = 422, "validation_failed", "The body is invalid"


class IdempotencyKeyReused(Refusal):
    """This `Idempotency-Key` was used for a different request."""

    status, code, title = 422, "idempotency_key_reused", "The idempotency key was used for another request"


class RateLimited(Refusal):
    """The app has reached its rate limit for this store. Retry after the number of seconds in `Retry-After`."""

    status, code, title, retryable = 429, "rate_limited", "Too many requests", True


class TooManyInFlight(Refusal):
    """Too many requests of the app are in flight at the same time: sent, but not answered yet. The rate limit is another one.
    Wait for a response, or for the number of seconds in `Retry-After`, before you send the next request."""

    status, code, title, retryable = 429, "too_many_in_flight", "Too many requests in flight", True


class UrlTooLong(Refusal):
    """The path and the query of a URL may have at most 32 KiB. Send long sets of values in several requests."""

    status, code, title = 414, "url_too_long", "The URL is too long"


class HeadersTooLarge(Refusal):
    """A request may have at most 100 header fields, of 16 KiB in total."""

    status, code, title = 431, "headers_too_large", "The header fields are too large"


class InternalError(Refusal):
    """The service failed unexpectedly. Its log contains the details under the request id."""

    status, code, title, retryable = 500, "internal_error", "Internal error", True


class Overloaded(Refusal):
    """The service has more work than it can do in time, and did not begin with this request. Retry after the number of
    seconds in `Retry-After`."""

    status, code, title, retryable = 503, "overloaded", "The service is overloaded", True
    advice = "The service is overloaded. Retry after the number of seconds in Retry-After."


class ServiceUnavailable(Refusal):
    """The service is temporarily unavailable. Retry after the number of seconds in `Retry-After`."""

    status, code, title, retryable = 503, "unavailable", "Temporarily unavailable", True
