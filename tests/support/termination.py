"""What a program that starts others does when it is terminated."""

import signal
import sys
from types import FrameType


def exit_on_sigterm() -> None:
    """Exit normally on SIGTERM, so that everything we started is stopped. A second SIGTERM does not interrupt that."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
