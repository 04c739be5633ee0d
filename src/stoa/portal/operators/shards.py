"""The page of shards: where the stores are, how old the copies of global tables are, and which stores move."""

import math

import msgspec

from stoa.access.operator_queries import STORES_BY_SHARD
from stoa.access.stores import choose_shard
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.db.shards import DIRECTORY
from stoa.portal.kit.pages import Audience, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.shards.global_tables import replication_of
from stoa.shards.membership import BYTES
from stoa.shards.moves import MOVES_LEFT, RECENT
from stoa.shards.registry import Shard, address, shards_of

pages = Pages()
_OLD_S = 30.0  # copies that are older are a problem


class Figures(msgspec.Struct):
    """What one database says of itself; `problem` keeps its global tables from being up to date."""

    schema: int
    bytes: int
    problem: str = ""


class ShownShard(msgspec.Struct):
    """A shard on the page, without figures if it does not answer. `age` is that of its copies in seconds, if it is known."""

    name: str
    address: str
    state: str
    stores: int
    figures: Figures | None
    age: float | None = None

    @property
    def problem(self) -> str:
        """What is wrong with a shard that answers."""
        if self.figures is None:
            return ""
        if self.figures.schema < migrate.LATEST:
            return "Its schema is older than this release. Run the migrations."
        if self.figures.problem:
            return f"{self.figures.problem[:1].upper()}{self.figures.problem[1:]}."
        return "Its global tables are old." if self.age is not None and self.age > _OLD_S else ""


@pages.page("/operators/shards", audience=Audience.OPERATOR)
async def operator_shards(visit: Visit) -> View:
    known = await shards_of(visit.directory, visit.by.key)
    stores = {each.shard: each.stores for each in await STORES_BY_SHARD.all(visit.directory)}
    shown = [await _shown(visit, shard, stores.get(shard.name, 0)) for shard in _all(visit, known)]
    context = {
        "shards": shown,
        "moves": await RECENT.all(visit.directory),
        "left": await MOVES_LEFT.one(visit.directory) if known else 0,
        "latest": migrate.LATEST,
        "next": await choose_shard(visit.by) if known else None,
    }
    return View("operators/shards.html", context)


def _all(visit: Visit, shards: list[Shard]) -> list[Shard]:
    return [Shard(DIRECTORY, visit.directory.url), *shards]


async def _shown(visit: Visit, shard: Shard, stores: int) -> ShownShard:
    async def read(db: Database) -> Figures:
        problem = (await replication_of(visit.directory, db, shard.name)).problem if shard.name else ""
        return await _figures(db, problem)

    figures = await visit.everywhere.ask(shard.name, read)
    age = visit.everywhere.age(shard.name)
    return ShownShard(
        shard.shown, address(shard.url), shard.state, stores, figures, None if math.isinf(age) else round(age, 1)
    )


async def _figures(db: Executor, problem: str) -> Figures:
    return Figures(await migrate.version(db), await BYTES.one(db), problem)
