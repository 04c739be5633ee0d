from tests.imports.files import *
from tests.support.shops import Shop, SHIRT
async def test_smoke(shop: Shop) -> None:
    job = await send(shop, lines([mug(1), mug(2), SHIRT, {"sku":"x"}]))
    print(job)
    await run_pending(shop.db)
    print(await job_of(shop, job["id"]))
    print(await report(shop, job["id"]))
    print(await failures(shop, job["id"]))
    print(await events(shop))
