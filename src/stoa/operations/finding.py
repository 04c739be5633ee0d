"""What a check of `stoa doctor` finds."""

from typing import Literal

import msgspec

Status = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct):
    """The result of one check, and what to do if it is not ok."""

    check: str
    status: Status
    detail: str
    action: str = ""
