"""Error pages: what a visitor sees of a request that is not carried out."""

import structlog

from stoa.db.errors import RETRYABLE, StoreElsewhere, Unavailable, cause, sqlstate
from stoa.operations.telemetry import fault
from stoa.portal.kit.pages import View
from stoa.portal.kit.visit import Visit
from stoa.rest.headers import method_label
from stoa.rest.uploads import RETRY_S, is_full_disk


class PageError(Exception):
    """A request that ends with an error page, such as 403, 404 or 500."""

    def __init__(self, status: int, title: str, message: str, *, retry_in_s: int = 0) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.message = message
        self.retry_in_s = retry_in_s


def not_found() -> PageError:
    """The same page whether something does not exist or belongs to another account."""
    return PageError(404, "Page not found", "This page does not exist, or you do not have access to it.")


def failure(visit: Visit, error: Exception) -> View:
    """The page for an error; what can be retried says so, and an unexpected error is logged."""
    if isinstance(error, PageError):
        return _view(error)
    if isinstance(error, StoreElsewhere):
        return _busy(
            "This store is in a shard, or is being moved. Nothing was changed. If this page stays, ask an operator."
        )
    if isinstance(error, Unavailable):
        structlog.get_logger().error("the database is unavailable", request_id=visit.request_id, **cause(error))
        return _busy("The service cannot reach its database. Try again in a moment.")
    if is_full_disk(error):
        return _busy("The service has no room for files at the moment. Try again later.", RETRY_S)
    if sqlstate(error) in RETRYABLE:
        return _busy("Somebody else changed the same data at the same time. Go back and try again.")
    structlog.get_logger().error(
        "request",
        request_id=visit.request_id,
        method=method_label(visit.request.method),
        status=500,
        code="internal_error",
        **fault(error),
    )
    return _view(PageError(500, "Something went wrong", "This is an error on our side. It was logged."))


def _busy(message: str, retry_in_s: int = 1) -> View:
    return _view(PageError(503, "Temporarily unavailable", message, retry_in_s=retry_in_s))


def _view(error: PageError) -> View:
    context = {"title": error.title, "message": error.message, "status": error.status}
    return View("error.html", {**context, "retry_in_s": error.retry_in_s}, error.status)
