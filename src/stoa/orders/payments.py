"""The rules of payments: records of money that was paid, and the payment statuses that an app sets itself."""

from collections.abc import Mapping

import msgspec

from stoa import money
from stoa.events.outbox import Actor
from stoa.orders.bodies import NewPayment, SetPaymentStatus
from stoa.orders.contract import TRANSITIONS, IllegalTransition, PaymentAlreadyRecorded
from stoa.orders.records import MOST_PAYMENTS, PaymentKind, PaymentState, PaymentStatus, amount_document
from stoa.orders.state import OrderState
from stoa.rest.problems import Fault, ValidationFailed

# What an app may set in each status. `paid` records what is due; after a refund it is possible only while something is due.
PAYMENTS: Mapping[PaymentStatus, tuple[SetPaymentStatus, ...]] = {
    "unpaid": ("authorized", "paid", "failed", "voided"),
    "authorized": ("paid", "voided", "failed"),
    "failed": ("unpaid", "authorized", "paid"),
    "partially_paid": ("paid", "partially_refunded", "refunded"),
    "paid": ("partially_refunded", "refunded"),
    "overpaid": ("partially_refunded", "refunded"),
    "partially_refunded": ("paid", "refunded"),
    "refunded": ("paid",),
    "voided": (),
}


class Occasion(msgspec.Struct, frozen=True):
    """When money is paid or refunded, by whom, and why; how, and its id in the payment system."""

    now: str
    actor: Actor
    reason: str | None = None
    note: str | None = None
    method: str | None = None
    external_id: str | None = None


def pay(order: OrderState, given: NewPayment, occasion: Occasion, digits: int) -> None:
    """Record the payment that a request names. More than what is due makes the order overpaid."""
    amount = money.to_minor(given.amount, digits)
    if not amount:
        fault = Fault("/payment/amount", "out_of_range", "must be more than 0")
        raise ValidationFailed("The payment is empty.", faults=[fault])
    check_external_id(order, occasion.external_id, "/payment/external_id", digits)
    record(order, "payment", amount, occasion, pointer="/payment/amount")


def record(order: OrderState, kind: PaymentKind, amount: int, occasion: Occasion, *, pointer: str) -> None:
    """Add a record of an amount that was checked."""
    if kind == "payment":
        _check_limits(order, amount, pointer)
        order.payment_mark = "unpaid"  # from now on, the status follows from the records
    new = PaymentState(
        id=len(order.payments) + 1,
        kind=kind,
        amount=amount,
        method=occasion.method if kind == "refund" else occasion.method or order.payment_method,
        external_id=occasion.external_id,
        note=occasion.note,
        actor=occasion.actor,
        created_at=occasion.now,
    )
    order.payments = [*order.payments, new]


def check_external_id(order: OrderState, external_id: str | None, pointer: str, digits: int) -> None:
    """Refuse a second record with the id of an earlier one, which is then the same transaction."""
    if external_id is None:
        return
    for each in order.payments:
        if each.external_id == external_id:
            fault = Fault(pointer, PaymentAlreadyRecorded.code, f"belongs to record {each.id} of this order")
            raise PaymentAlreadyRecorded(
                f"Record {each.id} of the order has this external id.",
                faults=[fault],
                payment=amount_document(each, digits),
            )


def change_payment(order: OrderState, wanted: SetPaymentStatus, refunded: int | None, occasion: Occasion) -> int:
    """Move the payment to a status that an app may set; returns the amount that remains to be refunded."""
    if refunded is not None and wanted != "partially_refunded":
        raise _refund_fault(
            "amount_refunded requires the payment status partially_refunded.",
            "must not be sent unless payment_status is partially_refunded",
        )
    figures = order.figures
    status = figures.payment_status(order.payment_mark)
    if wanted == "paid" and status not in ("paid", "voided") and figures.total:
        if not figures.due:
            words = "cannot be paid, because nothing is due: send payment with its amount"
            raise _illegal(order, status, wanted, words)
        record(order, "payment", figures.due, occasion, pointer="/payment_status")
        return 0
    if wanted != status and wanted not in PAYMENTS[status]:
        allowed = PAYMENTS[status]
        raise _illegal(
            order, status, wanted, f"must be one of {', '.join(allowed)}" if allowed else "cannot be changed any more"
        )
    if wanted == "partially_refunded":
        return _further(order, refunded, status)
    if not figures.paid:
        order.payment_mark = wanted
    return figures.paid - figures.refunded if wanted == "refunded" else 0


def _further(order: OrderState, refunded: int | None, status: PaymentStatus) -> int:
    """What remains to be refunded if this is the sum of all refunds."""
    if refunded is None:
        if status == "partially_refunded":
            return 0
        fault = Fault("/amount_refunded", "required", "is required with the payment status partially_refunded")
        raise ValidationFailed("A partial refund requires its amount.", faults=[fault])
    if refunded < order.amount_refunded or not 0 < refunded < order.amount_paid:
        raise _refund_fault(
            "The refund must exceed earlier refunds and stay below the paid amount.",
            "must not be less than the refunded amount and must be less than the paid amount",
        )
    return refunded - order.amount_refunded


def _illegal(order: OrderState, status: PaymentStatus, wanted: SetPaymentStatus, words: str) -> IllegalTransition:
    return IllegalTransition(
        f"A payment cannot move from {status} to {wanted}.",
        faults=[Fault("/payment_status", "illegal_transition", words)],
        allowed_transitions=TRANSITIONS[order.status],
        allowed_payment_transitions=PAYMENTS[status],
    )


def _refund_fault(detail: str, words: str) -> ValidationFailed:
    return ValidationFailed(detail, faults=[Fault("/amount_refunded", "out_of_range", words)])


def _check_limits(order: OrderState, amount: int, pointer: str) -> None:
    """Refuse a payment that makes the sum too large to store, or the records too many."""
    if order.amount_paid + amount >= money.LARGEST:
        words = "makes the paid amount more than the largest amount that Stoa can store"
        raise ValidationFailed("The payment is too large.", faults=[Fault(pointer, "out_of_range", words)])
    if sum(each.kind == "payment" for each in order.payments) >= MOST_PAYMENTS:
        words = f"must not be sent, because an order has at most {MOST_PAYMENTS} payments"
        fault = Fault(pointer, "too_long", words, {"max_items": MOST_PAYMENTS})
        raise ValidationFailed("The order has too many payments.", faults=[fault])
