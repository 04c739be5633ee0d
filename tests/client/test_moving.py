"""A small shop moves by the SDK against a running service, as the guide says and as the figure measures."""

from pathlib import Path

import pytest

from tests.client.test_guide import run, variables
from tests.docs.pages import GUIDES, blocks
from tests.figures.moving import differences, events_of, move_shop
from tests.support.moved_shop import shop_of
from tests.support.service import Account

assert variables  # the fixture
GUIDE = "\n".join(block.text for block in blocks(GUIDES / "moving.md", "python"))
SHOWN = [line.removeprefix("# ") for line in GUIDE.splitlines() if line.startswith("# ")]


def test_the_guide_prints_what_it_shows(variables: dict[str, str], tmp_path: Path) -> None:
    printed = run(GUIDE, variables, tmp_path).splitlines()
    assert printed[:2] == ["products succeeded 2", "customers succeeded 1"]
    assert printed[2:] == SHOWN


@pytest.mark.timeout(300)
async def test_a_small_shop_moves_unchanged(account: Account) -> None:
    shop = shop_of(50, 20, 60)
    move_shop(account, shop)
    assert differences(account, shop) == 0
    assert await events_of(account.service, account) == 0
