"""Holds: the time until which a pending order waits for its payment."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import UNSET

from stoa.orders.bodies import LONGEST_HOLD_S, OrderChanges
from stoa.orders.contract import UNPAID
from stoa.orders.documents import time_text
from stoa.orders.insert import Placement
from stoa.orders.state import OrderState
from stoa.rest.call import Call
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def hold_until(expires_at: datetime | None, hold_for: int | None, moment: datetime) -> str:
    """The end of a hold, by the clock of the database; refuses one in the past or more than 30 days ahead."""
    until = expires_at if expires_at is not None else moment + timedelta(seconds=hold_for or 0)
    if not moment < until <= moment + timedelta(seconds=LONGEST_HOLD_S):
        fault = Fault("/expires_at", "out_of_range", "must be in the future, and at most 30 days ahead")
        raise ValidationFailed("The time of the hold is invalid.", faults=[fault])
    return time_text(until)


def hold_orders(placements: Sequence[Placement], moment: datetime) -> dict[Call, Refusal]:
    """Set the ends of the holds of new orders that ask for one; returns the refusals."""
    refusals: dict[Call, Refusal] = {}
    for each in placements:
        try:
            each.order.expires_at = hold_until(each.expires_at, each.hold_for, moment)
        except Refusal as refusal:
            refusals[each.call] = refusal
    return refusals


def change_hold(order: OrderState, body: OrderChanges, moment: datetime) -> None:
    """Begin, extend, shorten or end the hold of a pending order."""
    sent = [name for name in ("expires_at", "hold_for") if getattr(body, name) is not UNSET]
    if len(sent) == 2:
        raise _refused("hold_for", "specify either expires_at or hold_for, not both")
    if body.expires_at is None:
        order.expires_at = None
    elif sent:
        expires_at, hold_for = body.expires_at or None, body.hold_for or None
        if expires_at is not None and time_text(expires_at) == order.held_until:
            return
        if order.status != "pending" or order.payment_status not in UNPAID:
            raise _refused(sent[0], "must not be sent unless the order is pending and not paid")
        order.expires_at = hold_until(expires_at, hold_for, moment)


def is_due(order: OrderState, moment: datetime) -> bool:
    """Whether the hold of an order has ended before its payment."""
    until = order.held_until
    return until is not None and datetime.fromisoformat(until) <= moment


def _refused(field: str, words: str) -> ValidationFailed:
    return ValidationFailed("The hold is invalid.", faults=[Fault(f"/{field}", "invalid_format", words)])
