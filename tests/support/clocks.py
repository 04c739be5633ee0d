"""A clock that tests set, in place of the one by which requests wait."""


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now
