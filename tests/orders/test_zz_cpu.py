import asyncio, os, time, glob
import msgspec
from stoa.app import Application
from tests.support.shops import open_shop

def pg_cpu(pids):
    total = 0
    for pid in pids:
        try:
            f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            total += int(f[11]) + int(f[12])
        except FileNotFoundError: pass
    return total / os.sysconf("SC_CLK_TCK")

async def test_cpu(settings, db):
    application = Application(msgspec.structs.replace(settings, app_concurrency=1000, database_pool=5))
    shop = await open_shop(application, db)
    await shop.add(*({"name": f"P{n}", "price": "5.00", "sku": f"S{n}", "stock": {"on_hand": 10_000_000}} for n in range(300)))
    await shop.db.execute("ANALYZE")
    HOME = {"first_name": "Ada", "address1": "12 Mill Lane", "city": "Leeds", "postal_code": "LS1 4AP", "country_code": "GB"}
    n = 0
    def body(kind):
        nonlocal n
        n += 1
        lines = [{"sku": f"S{(n * 7 + k * 100) % 300}", "quantity": 1} for k in range(3)] if kind != "hot" else [{"sku": "S1", "quantity": 1}]
        contact = {"first_name": "Ada", "last_name": "Okafor"}
        if kind != "unasked": contact["email"] = f"new-{n}@example.com"
        return n, {"external_id": f"web-{n}", "contact": contact, "line_items": lines, "shipping_total": "4.90", "shipping_address": HOME, "shipping_method": "standard", "payment_method": "card", "tags": ["web"], "metadata": {"channel": "web"}}
    async def client(kind, many):
        for _ in range(many):
            k, b = body(kind)
            r = await shop.client.post("/orders", json=b, headers={"idempotency-key": f"k{k}"})
            assert r.status_code == 201, r.text
    async def round_(kind, many):
        await asyncio.gather(*(client(kind, many) for _ in range(16)))
    await round_("create", 12)
    out = []
    pids = [int(r[0]) for r in await db.fetch("SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL")]
    for rep in range(3):
        for kind in ("create", "unasked", "hot"):
            pids = [int(r[0]) for r in await db.fetch("SELECT pid FROM pg_stat_activity")]
            a, b, w = time.process_time(), pg_cpu(pids), time.perf_counter()
            await round_(kind, 25)
            out.append((kind, time.process_time() - a, max(0.0, pg_cpu(pids) - b), time.perf_counter() - w))
    for kind in ("create", "unasked", "hot"):
        rows = [o for o in out if o[0] == kind]
        print(f"{kind:8} python {min(r[1] for r in rows)/400*1000:.2f} ms  postgres {sorted(r[2] for r in rows)[1]/400*1000:.2f} ms  per order; wall best {400/min(r[3] for r in rows):.0f}/s")
    await application.close()
