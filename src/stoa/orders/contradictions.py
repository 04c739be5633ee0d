"""Finds the fields of a status change that contradict each other."""

import msgspec
from msgspec import UNSET

from stoa.orders.bodies import NewRefund, StatusChange
from stoa.rest.problems import Fault, ValidationFailed, counted


def check_body(body: StatusChange) -> None:
    """Refuse a change whose fields contradict each other."""
    faults: list[Fault] = []
    removes = body.tracking is None and body.fulfillment_id is not None and body.status is None
    moves = body.status or body.payment_status or body.payment or body.tracking or body.refund or body.void
    if not (moves or removes):
        words = "is required unless payment_status, payment, tracking, refund or void is given"
        faults.append(Fault("/status", "required", words))
    if body.payment_status is not None and (body.payment is not None or body.refund is not None):
        words = "must not be sent with payment or refund, which determine it"
        faults.append(Fault("/payment_status", "invalid_format", words))
    if body.line_items and body.status not in ("shipped", "returned"):
        faults.append(Fault("/line_items", "invalid_format", "must not be sent unless status is shipped or returned"))
    if body.line_items == []:
        faults.append(Fault("/line_items", "out_of_range", "must not be empty: omit it to include all line items"))
    if body.amount_refunded is not None and body.payment_status is None:
        faults.append(Fault("/amount_refunded", "invalid_format", "must not be sent without payment_status"))
    if body.tracking and not any(msgspec.structs.astuple(body.tracking)):
        faults.append(Fault("/tracking/number", "required", "is required unless carrier or url is given"))
    if body.fulfillment_id is not None:
        if body.status not in (None, "delivered"):
            words = "must not be sent unless status is delivered or omitted"
            faults.append(Fault("/fulfillment_id", "invalid_format", words))
        elif body.status is None and body.tracking is UNSET and not body.void:
            words = "is required with fulfillment_id unless status or void is given"
            faults.append(Fault("/tracking", "required", words))
    if body.shipped_at is not None and body.status != "shipped":
        faults.append(Fault("/shipped_at", "invalid_format", "must not be sent unless status is shipped"))
    if body.void:
        faults += _void_faults(body)
    if body.refund is not None:
        faults += _refund_faults(body, body.refund)
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)


def _void_faults(body: StatusChange) -> list[Fault]:
    faults = [
        Fault(f"/{name}", "invalid_format", "must not be sent with void")
        for name in ("status", "payment_status", "payment", "tracking", "refund")
        if getattr(body, name)
    ]
    if body.fulfillment_id is None:
        faults.append(Fault("/fulfillment_id", "required", "is required with void"))
    return faults


def _refund_faults(body: StatusChange, given: NewRefund) -> list[Fault]:
    faults: list[Fault] = []
    if not given.line_items and given.amount is None and given.shipping_amount is None:
        words = "is required unless line_items or shipping_amount is given"
        faults.append(Fault("/refund/amount", "required", words))
    faults += [
        Fault(f"/refund/line_items/{n}/location", "invalid_format", "must not be sent unless restock is true")
        for n, each in enumerate(given.line_items)
        if each.location is not None and not each.restock
    ]
    if body.status == "returned":
        faults += [
            Fault(f"/refund/line_items/{n}/restock", "invalid_format", "must not be sent when status is returned")
            for n, each in enumerate(given.line_items)
            if each.restock
        ]
    return faults
