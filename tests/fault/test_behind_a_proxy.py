"""A node that stops behind a proxy breaks no request: it serves until the proxy has noticed."""

from pathlib import Path

import pytest

from tests.figures.stops import stop_under_load
from tests.support.haproxy import needs_haproxy

STOPS = 2  # `make faults ARGS=stops` does 50


@needs_haproxy
@pytest.mark.timeout(600)
@pytest.mark.long
async def test_stops_of_nodes_behind_haproxy_break_no_request(tmp_path: Path) -> None:
    assert await stop_under_load(tmp_path, STOPS, minutes=10, workers=1, think_s=0.05)
