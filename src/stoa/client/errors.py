"""What can go wrong: each refusal of the service is an exception of its own, by its code."""

from typing import Any, ClassVar, cast

import msgspec


class StoaError(Exception):
    """Whatever this client raises."""


class ConnectionFailed(StoaError):
    """No answer came, however often it was tried; its cause is the last try's fault."""


class TokenRefused(StoaError):
    """The credentials, or what they ask for, were refused by the token endpoint (RFC 6749)."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.status = status
        self.error = error
        self.description = description


class NotModified(StoaError):
    """What was read is still as `if_none_match` says."""


class UnexpectedAnswer(StoaError):
    """An answer that is none of the service's, perhaps of a proxy on the way."""


class WaitedTooLong(StoaError):
    """The work goes on, but the time that was given for it is over."""


class Fault(msgspec.Struct):
    """One thing that is wrong, where it is wrong, and what would be right."""

    pointer: str
    code: str
    detail: str
    meta: dict[str, Any] | None = None

    def __str__(self) -> str:
        meant = (self.meta or {}).get("did_you_mean")
        hint = f" (did you mean {meant}?)" if meant else ""
        return f"{self.pointer}: {self.detail}{hint}" if self.pointer else f"{self.detail}{hint}"


class ApiError(StoaError):
    """The service refused a request; `code` is what programs decide by, and each code has a class of its own."""

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
        """What this code carries besides, such as `existing_id` or `current_version`."""
        super().__init__(self._words())

    def _words(self) -> str:
        lines = [f"{self.status} {self.code}: {self.detail}", *map(str, self.errors)]
        return "\n  ".join(lines) + (f" (request {self.request_id})" if self.request_id else "")


_MEMBERS = frozenset("type title status detail instance code request_id retryable errors".split())


def _faults(given: Any) -> list[Fault]:
    try:
        return msgspec.convert(given or [], list[Fault])
    except msgspec.ValidationError:
        return []


class BadRequest(ApiError, status=400):
    """The request cannot be understood."""


class Unauthorized(ApiError, status=401):
    """The token was refused, also after it was renewed."""


class Forbidden(ApiError, status=403):
    """The app may not do this on this store."""


class NotFound(ApiError, status=404):
    """There is no such thing in this store."""

    code = "not_found"


class Conflict(ApiError, status=409):
    """The request does not go together with how things stand."""


class PreconditionFailed(ApiError, status=412):
    """The resource is no longer as `if_match` says."""


class TooLarge(ApiError, status=413):
    """The request holds more than the endpoint takes."""


class Unprocessable(ApiError, status=422):
    """The request was understood but is not right; `errors` names every fault."""


class TooManyRequests(ApiError, status=429):
    """Too much at once; it was tried again as often as was allowed."""


class ServiceFailed(ApiError, status=500):
    """The service could not answer; it was tried again as often as was allowed."""


def refusal(status: int, body: bytes, retry_after_s: float | None) -> ApiError:
    """The exception for an answer that is no success."""
    try:
        problem: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = None
    members = cast("dict[str, Any]", problem) if isinstance(problem, dict) else {"detail": "no problem document"}
    kind = ApiError.by_code.get(str(members.get("code"))) or ApiError.by_status.get(status)
    return (kind or (ServiceFailed if status >= 500 else ApiError))(status, members, retry_after_s)
