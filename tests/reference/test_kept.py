"""Documents that are kept ready to send."""

import asyncio
import threading

import pytest

from stoa.reference.kept import Kept


async def test_a_document_is_made_outside_the_event_loop_once_for_concurrent_callers() -> None:
    go_on, made = threading.Event(), list[str]()

    def make(name: str) -> str:
        assert go_on.wait(60), "the event loop did not go on"
        made.append(name)
        return name.upper()

    documents = Kept(1, make)
    callers = [asyncio.create_task(documents("a")) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    go_on.set()
    assert [await each for each in callers[1:]] == ["A", "A"]
    assert await documents("a") == "A"
    assert made == ["a"]
    await documents("b")
    await documents("a")
    assert made == ["a", "b", "a"], "one result is kept"


async def test_a_failure_is_not_kept() -> None:
    failures = [ValueError("first"), None]

    def make() -> str:
        if failure := failures.pop(0):
            raise failure
        return "made"

    documents = Kept(1, make)
    with pytest.raises(ValueError, match="first"):
        await documents()
    assert await documents() == "made"
