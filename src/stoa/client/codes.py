"""Every code that the service refuses with, as an exception. Written by `make sdk` from the declarations; do not edit."""

from stoa.client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    PreconditionFailed,
    ServiceFailed,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unprocessable,
)


class CursorMismatch(BadRequest):
    """The cursor belongs to another query."""

    code = "cursor_mismatch"


class InvalidIdempotencyKey(BadRequest):
    """Invalid Idempotency-Key."""

    code = "invalid_idempotency_key"


class InvalidParameter(BadRequest):
    """Invalid query parameter."""

    code = "invalid_parameter"


class MalformedJson(BadRequest):
    """The body is not well-formed JSON."""

    code = "malformed_json"


class PageTooDeep(BadRequest):
    """This page lies beyond the reach of numbered pages."""

    code = "page_too_deep"


class UnknownParameter(BadRequest):
    """Unknown query parameter."""

    code = "unknown_parameter"


class ExpiredToken(Unauthorized):
    """The token has expired."""

    code = "expired_token"


class InvalidToken(Unauthorized):
    """The token is not valid."""

    code = "invalid_token"


class MissingToken(Unauthorized):
    """A bearer token is needed."""

    code = "missing_token"


class AppNotInstalled(Forbidden):
    """The app is not installed on this store."""

    code = "app_not_installed"


class AppSuspended(Forbidden):
    """The app is suspended."""

    code = "app_suspended"


class InsufficientScope(Forbidden):
    """The granted scopes do not cover this."""

    code = "insufficient_scope"


class StoreSuspended(Forbidden):
    """The store is suspended."""

    code = "store_suspended"


class MethodNotAllowed(ApiError):
    """Method not allowed."""

    code = "method_not_allowed"


class NotAcceptable(ApiError):
    """No acceptable representation."""

    code = "not_acceptable"


class RequestTimeout(ApiError):
    """The body took too long to arrive."""

    code = "request_timeout"


class CustomerExists(Conflict):
    """The customer exists already."""

    code = "customer_exists"


class DuplicateOrderSuspected(Conflict):
    """This order may have been placed already."""

    code = "duplicate_order_suspected"


class DuplicateVariant(Conflict):
    """A variant with these options exists."""

    code = "duplicate_variant"


class ExternalIdTaken(Conflict):
    """The external id is taken."""

    code = "external_id_taken"


class IdempotencyInProgress(Conflict):
    """A request with this key is in progress."""

    code = "idempotency_in_progress"


class IllegalTransition(Conflict):
    """The order cannot go there from here."""

    code = "illegal_transition"


class InsufficientStock(Conflict):
    """There is not enough stock."""

    code = "insufficient_stock"


class LastVariant(Conflict):
    """The last variant cannot be deleted."""

    code = "last_variant"


class OrderNotEditable(Conflict):
    """The order can no longer be changed like this."""

    code = "order_not_editable"


class OrderNotPaid(Conflict):
    """The order is not paid."""

    code = "order_not_paid"


class SecretRotationActive(Conflict):
    """Two secrets are in use already."""

    code = "secret_rotation_active"


class SkuTaken(Conflict):
    """The SKU is taken."""

    code = "sku_taken"


class StaleQuantity(Conflict):
    """The stock has changed meanwhile."""

    code = "stale_quantity"


class TooManyWebhooks(Conflict):
    """There are too many subscriptions."""

    code = "too_many_webhooks"


class WebhookExists(Conflict):
    """There is such a subscription already."""

    code = "webhook_exists"


class Gone(ApiError):
    """No longer kept."""

    code = "gone"


class VersionConflict(PreconditionFailed):
    """The resource has changed."""

    code = "version_conflict"


class PayloadTooLarge(TooLarge):
    """The body is too large."""

    code = "payload_too_large"


class TooManyItems(TooLarge):
    """Too many items."""

    code = "too_many_items"


class TooManyRows(TooLarge):
    """The file has too many rows."""

    code = "too_many_rows"


class UnsupportedMediaType(ApiError):
    """Unsupported media type."""

    code = "unsupported_media_type"


class BatchFailed(Unprocessable):
    """The batch has faults."""

    code = "batch_failed"


class IdempotencyKeyReused(Unprocessable):
    """The key was used for another request."""

    code = "idempotency_key_reused"


class ValidationFailed(Unprocessable):
    """The body has faults."""

    code = "validation_failed"


class RateLimited(TooManyRequests):
    """Too many requests."""

    code = "rate_limited"


class TooManyImports(TooManyRequests):
    """Too many imports are waiting."""

    code = "too_many_imports"


class HeadersTooLarge(ApiError):
    """The header fields are too large."""

    code = "headers_too_large"


class InternalError(ServiceFailed):
    """Internal error."""

    code = "internal_error"


class Unavailable(ServiceFailed):
    """Temporarily unavailable."""

    code = "unavailable"
