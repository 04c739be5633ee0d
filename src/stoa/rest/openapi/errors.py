"""The errors that an endpoint can respond with: those that follow from its kind, and those that it declares."""

from stoa.rest import problems
from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import Refusal
from stoa.rest.stream_leases import ExportInProgress

_EVERYWHERE: tuple[type[Refusal], ...] = (
    problems.MissingToken,
    problems.InvalidToken,
    problems.ExpiredToken,
    problems.InsufficientScope,
    problems.AppNotInstalled,
    problems.AppSuspended,
    problems.StoreSuspended,
    problems.NotFound,
    problems.MethodNotAllowed,
    problems.NotAcceptable,
    problems.MalformedRequest,
    problems.UnknownParameter,
    problems.InvalidParameter,
    problems.RateLimited,
    problems.TooManyInFlight,
    problems.UrlTooLong,
    problems.HeadersTooLarge,
    problems.InternalError,
    problems.Overloaded,
    problems.ServiceUnavailable,
)
_LISTS = (problems.CursorMismatch, problems.PageTooDeep, ExportInProgress)
_WRITES = (
    problems.InvalidIdempotencyKey,
    problems.IdempotencyInProgress,
    problems.IdempotencyKeyReused,
    problems.RequestTimeout,
    problems.PayloadTooLarge,
    problems.UnsupportedMediaType,
)
_BODIES = (problems.MalformedJson, problems.ValidationFailed)
_VERSIONED = (problems.VersionConflict,)


def errors_of(endpoint: Endpoint) -> list[type[Refusal]]:
    """Every error of an endpoint: those that follow from its kind, then those that it declares."""
    errors = list(_EVERYWHERE)
    if endpoint.lists is not None:
        errors += _LISTS
    if endpoint.method != "GET":
        errors += _WRITES
    if endpoint.body is not None:
        errors += _BODIES
    if endpoint.method in ("PATCH", "PUT", "DELETE"):
        errors += _VERSIONED
    return [*errors, *endpoint.errors]
