"""Run every command and request of the metadata guide, and compare the responses with those shown."""

import asyncio
import shlex
from pathlib import Path
from typing import Any, cast

import msgspec
from click.testing import CliRunner

from stoa.access.console import open_console
from stoa.settings import Settings
from stoa.store_data.definition_commands import metadata
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/metadata.md"
VARY = {"type", "instance", "request_id"}


async def test_every_example_matches_the_response(shop: Shop, settings: Settings) -> None:
    response, compared = cast("Any", None), 0
    for language, _, text in (part.partition("\n") for part in GUIDE.read_text().split("```")[1::2]):
        if language == "bash":
            for line in text.splitlines():
                words = shlex.split(line.replace("--store demo", f"--store {shop.store.handle}"))
                done = await asyncio.to_thread(CliRunner().invoke, metadata, words[2:], obj=open_console(settings))
                assert (words[:2], done.exit_code) == (["stoa", "metadata"], 0), done.output
        elif language == "http":
            line, _, body = text.partition("\n")
            method, path = line.split(" ")
            headers = {"content-type": "application/json"}
            response = await shop.client.request(method, path, headers=headers, content=body.encode() or None)
        elif language == "json":
            shown, seen = msgspec.json.decode(text), response.json()
            assert {**seen, **{name: shown[name] for name in VARY & shown.keys()}} == shown
            compared += 1
    assert compared == 3
