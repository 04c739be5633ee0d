"""The exceptions of the SDK; each error code of the service has its own class."""

from typing import Any, ClassVar, cast

import msgspec

from stoa_client.answer import Answer
from stoa_client.decoding import convert, decode

_SHOWN = 200  # the longest part of an unexpected body that an error shows


class StoaError(Exception):
    """The base class of all exceptions of this client."""

    idempotency_key: str | None = None
    """The key of the write that failed, given or generated; None for a read. The same call with this key is safe to repeat."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By its attributes, because its class takes other arguments than its message: pools of processes pickle errors.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[StoaError], args: tuple[Any, ...]) -> StoaError:
    return kind.__new__(kind, *args)


class ConnectionFailed(StoaError):
    """No complete response came, even after retries; the cause is the last error. A write may have taken effect."""


class DeadlineExceeded(StoaError):
    """The call was not sent: it would have had to wait longer than its deadline; `retry_after_s` says how long, if known."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TokenRefused(StoaError):
    """The token endpoint refused the credentials or the requested scopes (RFC 6749)."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.status = status
        self.error = error
        self.description = description


class NotModified(StoaError):
    """The resource still matches `if_none_match`; `answer` is the response that says so."""

    def __init__(self, answer: "Answer") -> None:
        super().__init__("the resource has not changed")
        self.answer = answer


class UnexpectedAnswer(StoaError):
    """The response does not come from the service, but perhaps from a proxy; `body` is the start of what it sent."""

    def __init__(self, message: str, status: int, body: bytes = b"") -> None:
        self.status = status
        self.body = excerpt(body)
        super().__init__(f"{message}: {self.body}" if self.body else message)


class WaitedTooLong(StoaError):
    """The job did not end within the given time; it continues on the service."""


class Fault(msgspec.Struct):
    """One error in a request: its location, and what would be valid."""

    pointer: str
    code: str
    detail: str
    meta: dict[str, Any] | None = None

    def __str__(self) -> str:
        similar = (self.meta or {}).get("did_you_mean")
        hint = f" (did you mean {similar}?)" if similar else ""
        return f"{self.pointer}: {self.detail}{hint}" if self.pointer else f"{self.detail}{hint}"


class ApiError(StoaError):
    """The service refused a request; programs decide by `code`, and each code has its own class."""

    code: str = ""
    by_code: ClassVar[dict[str, type["ApiError"]]] = {}
    by_status: ClassVar[dict[int, type["ApiError"]]] = {}

    def __init_subclass__(cls, *, status: int = 0, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if status:
            ApiError.by_status[status] = cls
        if cls.__dict__.get("code"):
            ApiError.by_code[cls.code] = cls

    def __init__(self, status: int, problem: dict[str, Any], retry_after_s: float | None = None) -> None:
        self.status = status
        self.code = str(problem.get("code") or type(self).code or status)
        self.title = str(problem.get("title") or "")
        self.detail = str(problem.get("detail") or self.title)
        self.type = str(problem.get("type") or "")
        self.request_id = str(problem.get("request_id") or "")
        self.retryable = problem.get("retryable") is True
        self.retry_after_s = retry_after_s
        self.errors = _faults(problem.get("errors"))
        self.more = {name: value for name, value in problem.items() if name not in _MEMBERS}
        """Further members of this code, such as `existing_id` or `current_version`."""
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [f"{self.status} {self.code}: {self.detail}", *map(str, self.errors)]
        return "\n  ".join(lines) + (f" (request {self.request_id})" if self.request_id else "")


_MEMBERS = frozenset("type title status detail instance code request_id retryable errors".split())


def _faults(given: Any) -> list[Fault]:
    try:
        return convert(given or [], list[Fault])
    except msgspec.ValidationError:
        return []


class BadRequest(ApiError, status=400):
    """The request is malformed."""


class Unauthorized(ApiError, status=401):
    """The token was refused, even after it was renewed."""


class Forbidden(ApiError, status=403):
    """The app may not do this on this store."""


class NotFound(ApiError, status=404):
    """The resource, or the store itself, does not exist."""

    code = "not_found"


class Conflict(ApiError, status=409):
    """The request conflicts with the current state."""


class PreconditionFailed(ApiError, status=412):
    """The resource no longer matches `if_match`."""


class TooLarge(ApiError, status=413):
    """The request is larger than the endpoint accepts."""


class Unprocessable(ApiError, status=422):
    """The request is well-formed but invalid; `errors` lists every error."""


class TooManyRequests(ApiError, status=429):
    """The rate limit was exceeded until the deadline."""


class ServiceFailed(ApiError, status=500):
    """The service failed, even after all retries."""


def excerpt(body: bytes) -> str:
    """The start of a body as text."""
    text = body[: 4 * _SHOWN].decode(errors="replace")
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text


def refusal(status: int, body: bytes, retry_after_s: float | None, request_id: str | None = None) -> ApiError:
    """The exception for an error response."""
    try:
        problem: Any = decode(body, Any)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = None
    members = (
        cast("dict[str, Any]", problem)
        if isinstance(problem, dict)
        else {
            "detail": f"the response is not a problem document: {excerpt(body) or 'it is empty'}",
            "request_id": request_id,
        }
    )
    kind = ApiError.by_code.get(str(members.get("code"))) or ApiError.by_status.get(status)
    return (kind or (ServiceFailed if status >= 500 else ApiError))(status, members, retry_after_s)
