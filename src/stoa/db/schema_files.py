"""The files that describe the schema: numbered migrations with their phase, and one file for each stored function."""

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, get_args

import msgspec

# expand: adds tables and nullable columns, in short transactions.
# concurrently: builds indexes and validates constraints, statement by statement, without a transaction.
# backfill: fills columns of existing rows, one batch of one store after another.
# contract: removes what the previous release no longer uses, in short transactions.
Phase = Literal["expand", "concurrently", "backfill", "contract"]
_PHASE = re.compile(r"-- phase: (\w+)$", re.MULTILINE)
_CLUSTER = "cluster"
_ON_CLUSTER = {
    # A plan without a store cannot be sent to the store's node.
    "plan_cache_mode = force_generic_plan": "plan_cache_mode = force_custom_plan",
    # The last moment of a move locks a whole shard, which must not look like another request with the same key.
    "lock_timeout = '100ms'": "lock_timeout = '1s'",
    # No store moves to another database, and the notes of moves are on the coordinator alone.
    "SELECT EXISTS (SELECT FROM store_residence r WHERE in_store_id = r.store_id AND NOT r.here)": "SELECT in_store_id IS NULL",
    # A document is computed in a CASE, in which Citus refuses functions that are not declared immutable when it changes rows.
    "STABLE PARALLEL SAFE RETURN": "IMMUTABLE PARALLEL SAFE RETURN",
}


class MigrationRefused(Exception):
    """The database was migrated by another or altered set of files, or its tables are in use for too long."""


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str

    def __str__(self) -> str:
        return f"{self.version:04} {self.name}"

    @property
    def phase(self) -> Phase:
        """What the first line declares, such as `-- phase: backfill`; otherwise expand."""
        header = _PHASE.match(self.sql)
        for phase in get_args(Phase):
            if header is None or header[1] == phase:
                return phase
        raise MigrationRefused(f"Migration {self} declares an unknown phase: choose from {', '.join(get_args(Phase))}.")

    @property
    def digest(self) -> str:
        return _digest(self.sql)

    @property
    def statements(self) -> list[str]:
        """The statements one by one, as Citus needs them; each ends at the end of a line, and none has a body."""
        lines = [line for line in self.sql.splitlines() if not line.lstrip().startswith("--")]
        parts = re.split(r"(?<=;)[ \t]*(?:--.*)?$", "\n".join(lines), flags=re.MULTILINE)
        return [part for part in parts if part.strip()]


class Function(msgspec.Struct, frozen=True):
    """A stored function. A pure one reads no table; generated columns may call it, so it exists before the tables."""

    name: str
    package: str
    sql: str

    @property
    def pure(self) -> bool:
        return self.package == "db"

    @property
    def digest(self) -> str:
        return _digest(self.sql)


class Release(msgspec.Struct, frozen=True):
    """The previous release: its commit, and the functions that its processes call. See Releasing in CONTRIBUTING.md."""

    version: str
    commit: str
    functions: list[str]


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


def known() -> list[Migration]:
    """All migrations of this release, in order."""
    folder = files("stoa") / "schema"
    names = sorted(item.name for item in folder.iterdir() if item.name[:4].isdigit())
    return [Migration(int(name[:4]), name[5:-4], (folder / name).read_text(encoding="utf-8")) for name in names]


def previous_release() -> Release:
    """The release before this one, whose processes still run while this one migrates."""
    return msgspec.json.decode((files("stoa") / "schema" / "released.json").read_bytes(), type=Release)


def functions(*, distributed: bool = False) -> list[Function]:
    """All stored functions of this release: each `<package>/functions/<name>.sql` holds one.

    On a cluster, a file of the package `cluster` replaces the function of the same name or is added, and settings of
    functions differ.
    """
    found = sorted(_functions_below(files("stoa"), ""), key=lambda function: (not function.pure, function.name))
    plain = [function for function in found if function.package != _CLUSTER]
    if not distributed:
        return plain
    chosen = {function.name: function for function in plain}
    chosen |= {function.name: function for function in found if function.package == _CLUSTER}
    return [msgspec.structs.replace(function, sql=with_cluster_settings(function.sql)) for function in chosen.values()]


def with_cluster_settings(sql: str) -> str:
    """A function with the settings that it has on a cluster."""
    for setting, other in _ON_CLUSTER.items():
        sql = sql.replace(setting, other)
    return sql


def _functions_below(folder: Traversable, package: str) -> Iterator[Function]:
    for item in folder.iterdir():
        if item.is_dir() and item.name == "functions":
            for file in item.iterdir():
                yield Function(file.name.removesuffix(".sql"), package, file.read_text(encoding="utf-8"))
        elif item.is_dir() and item.name != "__pycache__":
            yield from _functions_below(item, f"{package}.{item.name}" if package else item.name)


VERSIONS = tuple(migration.version for migration in known())
