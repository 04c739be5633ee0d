"""The benchmark of matching measures what its names say."""

import pytest

from benchmarks import matching
from stoa.webhooks.delivery import matching as delivery


@pytest.mark.parametrize("kind", matching.KINDS)
async def test_a_rule_of_the_benchmark_selects_the_events_that_its_name_says(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "STORE_SECONDS", 60)  # on a busy machine, a store would exceed its share
    events = matching.events()
    matched = await matching.match(events, matching.subscriptions(matching.KINDS[kind]))
    assert len(matched.events) == len(events)
    assert len(matched.pairs) == (0 if "not sent" in kind else len(events) * matching.SUBSCRIPTIONS)
