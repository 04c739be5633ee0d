"""The past imports of a sample store: files that a person uploaded in the portal, run by the runner of imports."""

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from stoa.access.definitions import with_definitions
from stoa.access.queries import STORE_BY_HANDLE
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.demo.backdating import MOVE_NOTIFICATIONS, backdate, route
from stoa.demo.past import Past
from stoa.ids import new_id
from stoa.imports.contract import Options
from stoa.imports.customers import CUSTOMERS
from stoa.imports.importable import Task
from stoa.imports.jobs import new_import_id, start_import
from stoa.imports.runner import run_pending

CSV = "text/csv"
# How long ago, and what the file contained. Two rows of the second one fail: an address without @, and a phone number in words.
FILES = {
    timedelta(days=23, hours=4): """email,first_name,last_name,tags
marta.kowal@example.pl,Marta,Kowal,newsletter
idris.bello@example.ng,Idris,Bello,newsletter
june.park@example.kr,June,Park,newsletter
theo.lambert@example.fr,Théo,Lambert,newsletter
ana.silva@example.pt,Ana,Silva,newsletter
""",
    timedelta(days=1, hours=6): """email,first_name,last_name,phone
fair.visitor@example.com,Rosa,Lind,+4687550125
otto.bauer.example.at,Otto,Bauer,+43155550147
nina.falk@example.se,Nina,Falk,ask her sister
paul.evans@example.co.uk,Paul,Evans,+442920180199
""",
}
ANY_IMPORT = Query(str, "SELECT id FROM imports WHERE store_id = $1 LIMIT 1")


async def import_files(database: Database, handle: str, account_id: int, now: datetime) -> None:
    """Run the imports of a store that had none, one after the other, and move them into their past."""
    store = await with_definitions(database, await STORE_BY_HANDLE.one(database, handle), None)
    if await ANY_IMPORT.maybe(database, store.id) is not None:
        return
    past = Past()
    for age, content in FILES.items():
        await past.travel(database, now - age)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "upload.csv"
            file.write_text(content)
            task = Task(store, new_import_id(), None, new_id("req"), Options(match_by="email"), account_id=account_id)
            async with database.transaction() as db:
                await start_import(db, task, CUSTOMERS, file, CSV)
        await run_pending(database)
    async with database.transaction() as db:
        await past.return_to_present(db)
        await backdate(db, store.id, past)
        await MOVE_NOTIFICATIONS.run(db, account_id, past.real, past.past)
        await route(db, store.id, now)
