"""Recognizes a connection pooler between Stoa and PostgreSQL, and sends settings with each transaction through one."""

from collections.abc import Mapping

import msgspec

from stoa.db.hosts import open_connection

STATEMENTS = 500  # prepared statements that a connection keeps
# The statement lists itself, under the name that it has in the server's session.
_EXAMINE = r"SELECT pg_backend_pid(), ARRAY(SELECT name FROM pg_prepared_statements WHERE name LIKE '\_\_asyncpg\_%')"


class Path(msgspec.Struct, frozen=True):
    """How connections reach the server. Through a pooler, each transaction may run in another session."""

    pooled: bool = False
    prepares: bool = True  # statements that were prepared in one transaction are known in the next

    @property
    def statements(self) -> int:
        """How many prepared statements to keep; without any, each statement is prepared again in its own transaction."""
        return STATEMENTS if self.prepares else 0

    def begin(self, settings: Mapping[str, str]) -> str:
        """The statement that begins a transaction; a pooler passes no settings on when a connection starts."""
        if not self.pooled:
            return "BEGIN"
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())])


DIRECT = Path()
_paths: dict[str, Path] = {}


async def path_of(url: str, timeout_s: int, name: str) -> Path:
    """Examine the way to the server once in each process. A pooler invents the process id that it tells its clients, and only
    one that manages prepared statements gives them names of its own (PgBouncer since 1.21, with max_prepared_statements)."""
    if (known := _paths.get(url)) is not None:
        return known
    connection = await open_connection(
        url, timeout=timeout_s, command_timeout=timeout_s, server_settings={"application_name": name}
    )
    try:
        await connection.execute("BEGIN")
        [(pid, kept)] = await connection.fetch(_EXAMINE)
        pooled = pid != connection.get_server_pid()
        if pooled:
            for statement in kept:  # another client would use the same name
                await connection.execute(f'DEALLOCATE "{statement}"')
        await connection.execute("COMMIT")
    finally:
        await connection.close()
    _paths[url] = found = Path(pooled=True, prepares=not kept) if pooled else DIRECT
    return found
