"""The load page: what the processes measured, over a day and a month, for operators."""

import re
from datetime import UTC, datetime

from stoa.app import Application
from stoa.db.pool import Database
from stoa.operations.maintenance import maintain
from stoa.operations.measuring import read_queues, record
from stoa.usage.load import LOAD
from tests.support.people import User, create_user
from tests.support.shops import Shop, api_client, open_shop


async def test_traffic_queues_and_the_database_are_shown_as_charts(
    application: Application, maria: User, db: Database
) -> None:
    shop: Shop = await open_shop(application, db)
    worker = Application(shop.application.settings)
    before = sum(each.requests for each in await LOAD.all(db, 60, 720, 720))
    async with api_client(worker, shop.store.handle, shop.token) as app, api_client(worker, "no-store-here") as lost:
        assert (await app.get("/products")).status_code == 200
        assert (await app.get("/products/999999999")).status_code == 404
        assert (await lost.get("/products")).status_code == 404
    async with api_client(worker, shop.store.handle) as stranger:
        assert (await stranger.get("/products")).status_code == 401
    await worker.usage.flush(worker.shards)
    queues = await read_queues(db)
    await record(db, queues)
    most = queues.imports.waiting + 7  # an interval shows the most; other tests leave imports that wait
    queues.imports.waiting = most
    await record(db, queues)
    queues.imports.waiting = 3
    await record(db, queues)
    await worker.close()
    for minutes, shown, hours, intervals in ((5, 30, 24, 48), (60, 720, 720, 60)):
        load = await LOAD.all(db, minutes, shown, hours)
        assert len(load) == intervals
        now = load[-1] if load[-1].requests else load[-2]  # the interval may end during this test
        assert now.client_errors >= 3
        assert now.requests >= 4
        assert (now.imports_waiting, now.p95_ms is not None) == (most, True)
        assert now.connections
        assert now.bytes
    assert sum(each.requests for each in load) - before == 4, "also those without a store or an app"
    await maria.open("/portal/operators/load")
    assert maria.response.status_code == 404
    operator = await create_user(application, db, operator=True)
    for query, label in (("", "24 hours"), ("?range=30d", "30 days"), ("?range=%00", "24 hours")):
        await operator.open(f"/portal/operators/load{query}")
        assert f"Last {label}" in operator.text
        assert operator.text.count('<svg viewBox="0 0 440 216"') == 8
        assert re.search(rf"Imports: at most {most} waiting, at most, at \d+ \w+, \d\d:\d\d", operator.text)
    await operator.client.aclose()


FILL = """INSERT INTO service_samples (minutes, at, requests, client_errors, server_errors, rate_limited, ms_10, ms_200, pending,
                                       imports_waiting, late_seconds, connections, database_ms, bytes)
          SELECT $1::integer, at, 12345 * n, n * 7, n * 3, n * 5, 12000 * n, 345, 1234 * n, n % 7, n * 1.7, 40 + n % 50,
                 n * 0.37, 1234567890 + n * 100000
            FROM (SELECT now() - make_interval(mins => $1::integer * n) AS at, n FROM generate_series(0, $2) AS n) moments"""


async def test_a_page_with_every_sample_is_small(application: Application, db: Database) -> None:
    operator = await create_user(application, db, operator=True)
    async with db.transaction() as connection:
        await connection.execute("DELETE FROM service_samples")
        await connection.execute(FILL, 5, 288)
        await connection.execute(FILL, 60, 720)
    for query in ("", "?range=30d"):
        response = await operator.client.get(f"/portal/operators/load{query}", headers={"accept-encoding": "gzip"})
        assert response.status_code == 200
        assert response.num_bytes_downloaded < 15_000
    await db.execute("DELETE FROM service_samples")
    await operator.client.aclose()


async def test_old_samples_are_deleted(db: Database) -> None:
    add = """INSERT INTO service_samples (minutes, at) VALUES
               (5, now() - interval '26 hours'), (5, now() - interval '23 hours'),
               (60, now() - interval '32 days'), (60, now() - interval '29 days')"""
    await db.execute(add)
    await maintain(db)
    rows = await db.fetch("SELECT minutes, at FROM service_samples WHERE at < now() - interval '22 hours'")
    ages = sorted((minutes, round((datetime.now(UTC) - at).total_seconds() / 3600)) for minutes, at in rows)
    assert ages == [(5, 23), (60, 29 * 24)]
