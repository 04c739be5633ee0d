"""Run every command and request of the collections guide, and compare the responses with those shown."""

import asyncio
import re
import shlex
from typing import Any

import msgspec
from click.testing import CliRunner
from tests.docs.pages import GUIDES, blocks
from tests.orders.test_guide import assert_matches
from tests.support.shops import MUG, Shop

from stoa.access.console import open_console
from stoa.products.collection_commands import collection
from stoa.settings import Settings


async def test_every_example_matches_the_response(shop: Shop, settings: Settings) -> None:
    ids: dict[str, str] = {}
    response: Any = None
    compared = 0
    for block in blocks(GUIDES / "collections.md", "bash", "http", "json"):
        if block.language == "bash":
            for line in block.text.splitlines():
                if "collection add" in line:
                    await shop.add({**MUG, "sku": "LIN-SHT-BLU-S"})  # of the demo
                words = shlex.split(line.replace(" demo", f" {shop.store.handle}"))
                done = await asyncio.to_thread(CliRunner().invoke, collection, words[2:], obj=open_console(settings))
                assert (words[:2], done.exit_code) == (["stoa", "collection"], 0), done.output
        elif block.language == "http":
            line, _, body = re.sub(r"\b50\d{3}\b", lambda found: ids[found[0]], block.text).partition("\n")
            method, path = line.split(" ")
            content = {"json": msgspec.json.decode(body)} if body.strip() else {}
            response = await shop.client.request(method, path, **content)
            assert response.is_success, response.text
        else:
            assert_matches(msgspec.json.decode(block.text), response.json(), ids)
            compared += 1
    assert compared == 3
