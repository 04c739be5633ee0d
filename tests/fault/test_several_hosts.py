"""A URL with several servers: each has its own time to answer, and the one that accepted last comes first."""

import asyncio
import os
import socket

from stoa.db import hosts
from stoa.db.connection import connect
from tests.conftest import SERVER
from tests.fault.proxy import Proxy


def test_a_url_is_split_by_server() -> None:
    several = "postgresql://stoa:p%40ss@db1.example.com:5432,db2.example.com/stoa?target_session_attrs=read-write"
    assert hosts.single_hosts(several) == [
        "postgresql://stoa:p%40ss@db1.example.com:5432/stoa?target_session_attrs=read-write",
        "postgresql://stoa:p%40ss@db2.example.com/stoa?target_session_attrs=read-write",
    ]
    for one in (
        "postgresql:///stoa?host=/run",
        "postgresql://stoa@/stoa?host=/run",
        "postgresql://db.example.com/stoa",
    ):
        assert hosts.single_hosts(one) == [one]


async def test_a_server_that_never_answers_does_not_hide_the_next_one() -> None:
    async with Proxy(os.environ[SERVER]) as proxy:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and says nothing
            host = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:"
            url = f"{proxy.url.replace('127.0.0.1:', host)}&target_session_attrs=read-write"
            first = await connect(url, timeout_s=3)
            # The server that accepted last is asked first; the silent one would take 60 s.
            again = await asyncio.wait_for(connect(url, timeout_s=60), 30)
            for connection in (first, again):
                await connection.close()
