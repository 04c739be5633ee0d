"""What every connection to the database is set to, whatever the server prefers."""

from stoa.db.connection import connect


async def test_a_text_arrives_as_bytes_of_utf_8_although_the_database_prefers_another_encoding(
    database_url: str,
) -> None:
    db = await connect(database_url)
    [[name]] = await db.fetch("SELECT current_database()")
    await db.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    try:
        other = await connect(database_url)
        [[sent]] = await other.fetch("SELECT textsend('Östra')")
        await other.close()
    finally:
        await db.execute(f"ALTER DATABASE {name} RESET client_encoding")
        await db.close()
    assert sent == "Östra".encode()
