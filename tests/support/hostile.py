"""How many of all pairs of a target and a hostile value a test sends: every third, or with `make deep` every one."""

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

Value = TypeVar("Value")
STRIDE = 1 if os.environ.get("HOSTILE") == "all" else 3


def share_of(number: int, values: Iterable[Value]) -> Iterator[Value]:
    """The values for the target with this number. Each target gets a third of them, and each value reaches a third of the targets."""
    return (value for n, value in enumerate(values) if (number + n) % STRIDE == 0)
