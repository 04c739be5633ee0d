"""The errors that an endpoint can respond with: those that follow from its kind, and those that it declares."""

from stoa.rest import problems
from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import Refusal

_ALWAYS: tuple[type[Refusal], ...] = (
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
    problems.UnknownParameter,
    problems.InvalidParameter,
    problems.RateLimited,
    problems.HeadersTooLarge,
    problems.InternalError,
    problems.ServiceUnavailable,
)
_LISTS = (problems.CursorMismatch, problems.PageTooDeep)
_WRITES = (
    problems.InvalidIdempotencyKey,
    problems.IdempotencyInProgress,
    problems.IdempotencyKeyReused,
    problems.RequestTimeout,
    problems.PayloadTooLarge,
    problems.UnsupportedMediaType,
)
_BODIES = (problems.MalformedJson, problems.ValidationFailed)
_ONES = (problems.VersionConflict,)


def errors_of(endpoint: Endpoint) -> list[type[Refusal]]:
    """Every refusal that an endpoint can answer with: those of its nature, then its own."""
    found = list(_ALWAYS)
    if endpoint.lists is not None:
        found += _LISTS
    if endpoint.method != "GET":
        found += _WRITES
    if endpoint.body is not None:
        found += _BODIES
    if endpoint.method in ("PATCH", "PUT", "DELETE"):
        found += _ONES
    return [*found, *endpoint.errors]
