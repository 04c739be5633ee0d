"""What is due for an order, and the payment status that follows from its records. All amounts are in minor units.

`head_with_payments` in the database computes the same for an order that the previous release wrote.
"""

from typing import Literal

import msgspec

PaymentMark = Literal["unpaid", "authorized", "paid", "failed", "voided", "refunded"]
PaymentStatus = Literal[
    "unpaid", "authorized", "partially_paid", "paid", "overpaid", "failed", "voided", "partially_refunded", "refunded"
]


def share_of(total: int, units: int, quantity: int) -> int:
    """What the first units of a line item are worth together: their part of its total, rounded down once."""
    return total * units // quantity


class Figures(msgspec.Struct, frozen=True):
    """The sums of an order's records, and what follows from them."""

    total: int
    kept: int  # the value of what was neither cancelled, removed nor returned
    paid: int
    refunded: int

    @property
    def balance(self) -> int:
        """What the customer owes; negative if the shop does. A refund counts only as far as more was paid than is kept."""
        return self.kept - self.paid + min(self.refunded, max(0, self.paid - self.kept))

    @property
    def due(self) -> int:
        return max(0, self.balance)

    def payment_status(self, mark: PaymentMark) -> PaymentStatus:
        """The status that follows from the records; without a payment, it is the one that an app set."""
        if not self.paid:
            return "unpaid" if self.due and mark in ("paid", "refunded") else mark
        if self.refunded:
            return "refunded" if self.refunded == self.paid else "partially_refunded"
        if self.due:
            return "partially_paid"
        return "overpaid" if self.paid > self.total else "paid"
