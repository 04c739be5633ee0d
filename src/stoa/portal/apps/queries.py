"""SQL for pages of apps that no API endpoint covers."""

from datetime import datetime

import msgspec

from stoa.db.query import Query

ORDER_BY_NUMBER = Query(int, "SELECT id FROM orders WHERE store_id = $1 AND number = $2")


class OrderNumber(msgspec.Struct):
    id: int
    number: int


ORDER_NUMBERS = Query(
    OrderNumber, "SELECT id, number FROM orders WHERE store_id = $1 AND id = ANY ($2::text[]::bigint[])"
)


class DeliveryHour(msgspec.Struct):
    """The attempts of one hour."""

    hour: datetime
    succeeded: int = 0
    failed: int = 0
    duration_ms: int = 0

    @property
    def mean_ms(self) -> float | None:
        attempts = self.succeeded + self.failed
        return round(self.duration_ms / attempts, 1) if attempts else None


DELIVERY_HOURS = Query(
    DeliveryHour,
    """SELECT hour, attempts - failed_attempts AS succeeded, failed_attempts AS failed, duration_ms FROM delivery_hours
        WHERE store_id = $1 AND webhook_id = $2 AND hour > now() - interval '24 hours'""",
)
