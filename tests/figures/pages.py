"""Readers of the documentation and guests of the portal who hammer it: the app API is hardly affected."""

import asyncio
from pathlib import Path

import click

from tests.figures.calling import Line, Outcome, call
from tests.support.service import Service

SEARCHERS, GUESTS = 10, 100
MOST_MS = 25.0  # that the median of the app API may grow by
_WORDS = (
    "order product customer webhook stock refund token scope event import filter cursor price variant retry".split()
)


class PageLine(Line, frozen=True):
    """A repeated request for a page, without a token."""

    def __str__(self) -> str:
        return f"GET\t{self.path}\t\t"


async def browse(folder: Path, seconds: float) -> bool:
    """Measure callers of the app API alone, beside searches that no cache knows, and beside requests for the sign-in page."""
    with Service(folder, workers=1, access_log=False, log_level="error") as service:
        account = await service.account("pages", burst=100_000, refill=10_000)
        async with account.client() as client:
            for n in range(20):
                await client.post("/products", json={"name": f"Mug {n}", "price": "9.90"})
        lines = [Line(account, "/products?limit=20")]
        queries = [f"{one}+{other}+{third}" for one in _WORDS for other in _WORDS for third in _WORDS if one != other]
        pages = {
            SEARCHERS: [PageLine(account, f"/docs/search?q={query}") for query in queries],
            GUESTS: [PageLine(account, "/portal/sign-in")],
        }

        async def api() -> Outcome:
            return await call(folder, lines, callers=5, seconds=seconds, think_ms=20)

        async with service.client() as client:  # the first search builds the index
            for path in ("/docs/search?q=a", "/portal/sign-in"):
                assert (await client.get(path)).is_success
        await api()
        alone = await api()
        beside: dict[int, tuple[Outcome, Outcome]] = {}
        for readers, pages_of in pages.items():
            crowd = call(folder, pages_of, callers=readers, seconds=seconds, name=f"readers-{readers}")
            beside[readers] = await asyncio.gather(api(), crowd)
        clean = service.stop() == 0
    runs = [alone, *(each[0] for each in beside.values())]
    failed = sum(run.other + run.broken + run.refused for run in runs)
    found = [
        f"{run.p50_ms:.1f} ms (p99 {run.p99_ms:.0f} ms) beside {readers} connections, which got {crowd.good_per_s:.0f} pages"
        f" and {crowd.refused / crowd.seconds:.0f} refusals a second, {crowd.rude} without Retry-After"
        for readers, (run, crowd) in beside.items()
    ]
    click.echo(
        f"pages: median of the app API {alone.p50_ms:.1f} ms alone (p99 {alone.p99_ms:.0f} ms), {', '.join(found)};"
        f" {failed} of its requests failed; exit code 0: {clean}"
    )
    polite = not any(crowd.rude + crowd.other for _, crowd in beside.values())
    return clean and polite and not failed and all(run.p50_ms <= alone.p50_ms + MOST_MS for run in runs)
