"""How many requests are under way, in all and to each host: one that hangs, however many subscribe with it, leaves room."""

import asyncio
from collections import Counter

MOST_IN_FLIGHT = 2000
MOST_TO_A_HOST = MOST_IN_FLIGHT // 4  # which only a slow one comes to: a quick one has answered before


class Places:
    """One for each request that may be under way at the same time."""

    def __init__(self, most: int = MOST_IN_FLIGHT, most_to_a_host: int = MOST_TO_A_HOST) -> None:
        self.slots = asyncio.Semaphore(most)
        self._most_to_a_host = most_to_a_host
        self._taken: Counter[str] = Counter()

    def full(self, host: str) -> bool:
        """Whether this host has as many requests before it as it may."""
        return self._taken.get(host, 0) >= self._most_to_a_host

    def take(self, host: str) -> None:
        self._taken[host] += 1

    def give_back(self, host: str) -> None:
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]
