"""The primary is lost while apps write, and the standby, which also serves the reads, takes over."""

import tempfile
from pathlib import Path

import pytest

from tests.figures.failover import fail_over
from tests.support.standby import needs_standby


@needs_standby
@pytest.mark.long
async def test_nothing_acknowledged_is_lost_with_the_primary() -> None:
    # The servers run as another user, who cannot enter the folders of pytest.
    with tempfile.TemporaryDirectory(prefix="stoa-failover-") as folder:
        assert await fail_over(Path(folder), writes=20)
