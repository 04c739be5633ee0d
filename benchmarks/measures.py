"""The measured requests, each with the statements that are its limit, and its targets."""

import base64

import msgspec

from benchmarks.catalog import CLIENT_HANDLE, INSTALLATIONS, MANY_STORES, PAGE, Loaded
from benchmarks.drive import Request, Script, as_script
from benchmarks.trade import Trade
from stoa.access.authentication import Attempt
from stoa.access.contract import NewSecret
from stoa.access.queries import CLIENT, INSTALLATIONS_PAGE
from stoa.customers import queries as customer_queries
from stoa.customers.documents import section_start
from stoa.db.listing import Listing, Shape
from stoa.orders import queries as order_queries
from stoa.products import queries
from stoa.rest.cursors import Cursor
from stoa.rest.dispatch import PREFIX


class Access(msgspec.Struct, frozen=True):
    """An app's credentials and token."""

    app: NewSecret
    token: str


class Wanted(msgspec.Struct, frozen=True):
    """The targets of a row, as shares of other rates."""

    of_limit: float | None = None
    aim_of_limit: float | None = None
    of_baseline: float | None = None
    aim_of_baseline: float | None = None
    like: str = ""  # the row to whose rate this one is compared
    of_like: float = 0.5
    per_second: float | None = None


class Measure(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    title: str
    request: Request
    limit: Script | None  # none if pgbench cannot repeat the statements
    baseline: Request | None = None
    wanted: Wanted = Wanted()


def form(app: NewSecret) -> str:
    """The token request of an app."""
    return f"grant_type=client_credentials&client_id={app.client_id}&client_secret={app.client_secret}"


_DOCUMENTS, _AS_TEXT = "textsend(string_agg(doc, ','))", "string_agg(doc, ',')"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def of_large_store(store: Loaded, access: Access) -> list[Measure]:
    """The rows for the store with 10,000 products."""
    deep = store.last_id - 60
    cursor = base64.urlsafe_b64encode(str(deep).encode()).decode()
    return [
        Measure(
            "listing",
            f"50 of {store.products:,} products, with total",
            _get(store, access, "/products"),
            _listing(store, 50),
            baseline=_get(store, access, "/products"),
            wanted=Wanted(of_limit=0.5, aim_of_limit=0.7, of_baseline=10, aim_of_baseline=22),
        ),
        Measure(
            "listing-same",
            "the same, compared with the unchanged statement",
            _get(store, access, "/products"),
            _listing(store, 50, unchanged=True),
            wanted=Wanted(of_limit=0.5, aim_of_limit=0.7),
        ),
        Measure(
            "one",
            "one product with its variants",
            _get(store, access, "/products/%d"),
            Script(
                as_script(
                    (queries.GET.sql, [str(store.store_id), ":id"]),
                    choose=f"\\set id random({store.first_id}, {store.last_id})",
                )
            ),
            baseline=_get(store, access, "/products/%d"),
            wanted=Wanted(of_baseline=10, aim_of_baseline=16),
        ),
        Measure(
            "listing-250",
            f"250 of {store.products:,} products, with total",
            _get(store, access, "/products?limit=250"),
            _listing(store, 250),
            baseline=_get(store, access, "/products?limit=250"),
        ),
        Measure(
            "deep",
            f"50 of {store.products:,} products, near the end",
            _get(store, access, f"/products?cursor={_cursor(deep)}"),
            _listing(store, 50, after=deep),
            baseline=_get(store, access, f"/products?cursor={cursor}"),
            wanted=Wanted(like="listing"),
        ),
        _token(access),
        _installations(access),
    ]


def of_trade(store: Loaded, trade: Trade, access: Access, *, baseline: bool = True) -> list[Measure]:
    """The lists of the store's orders and customers."""
    rows = (
        ("orders", trade.orders, order_queries.LISTING, 32),
        ("customers", trade.customers, customer_queries.LISTING, None),
    )
    return [
        Measure(
            name,
            f"50 of {count:,} {name}, with total",
            _get(store, access, f"/{name}"),
            _listing(store, 50, listing=listing, caller=section_start(access.app.app_id)),
            baseline=_get(store, access, f"/{name}") if baseline else None,
            wanted=Wanted(of_limit=0.5, of_baseline=10, aim_of_baseline=aim),
        )
        for name, count, listing, aim in rows
    ]


def of_million_store(store: Loaded, access: Access) -> list[Measure]:
    """The rows for the store with a million products, which the baseline does not have."""
    deep = store.last_id - 60
    return [
        Measure(
            "million-first",
            f"50 of {store.products:,} products, with total",
            _get(store, access, "/products"),
            _listing(store, 50),
            wanted=Wanted(like="listing"),
        ),
        Measure(
            "million-deep",
            f"50 of {store.products:,} products, near the end",
            _get(store, access, f"/products?cursor={_cursor(deep)}"),
            _listing(store, 50, after=deep),
            wanted=Wanted(like="deep"),
        ),
        Measure(
            "stores",
            f"{PAGE} of {PAGE} products, with total, in one of {MANY_STORES:,} stores",
            Request(
                f"/stores/{CLIENT_HANDLE}%d{PREFIX}/products",
                first_id=1,
                last_id=MANY_STORES,
                headers={"Authorization": f"Bearer {access.token}"},
            ),
            None,
            wanted=Wanted(like="listing"),
        ),
    ]


def _token(access: Access) -> Measure:
    subjects = ",".join(f'"{subject}"' for subject in Attempt(access.app.client_id, "127.0.0.1").subjects)
    request = Request("/oauth/token", method="POST", headers=FORM, body=form(access.app))
    secrets = f"ARRAY(SELECT secret_hash FROM app_secrets WHERE app_id = {access.app.app_id})"
    # Each token is a new row, so its hash is random; that costs a few microseconds.
    token = [secrets, "sha256(random()::text::bytea)", "3600"]
    values = [f"'{access.app.client_id}'", "''", "'127.0.0.1'", "''", "''", f"'{{{subjects}}}'", "false", *token]
    wanted = Wanted(of_baseline=3, aim_of_baseline=5)
    script = Script(as_script((CLIENT.sql, values)))
    return Measure("token", "an access token", request, script, baseline=request, wanted=wanted)


def _installations(access: Access) -> Measure:
    values = [str(access.app.app_id), "0", "'2000-01-01'::timestamptz", "'{installed,uninstalled}'", "51", "'{}'"]
    return Measure(
        "installations",
        f"50 of {INSTALLATIONS:,} installations of an app",
        Request("/oauth/installations", headers={"Authorization": f"Bearer {access.token}"}),
        Script(as_script((INSTALLATIONS_PAGE.sql, values))),
        wanted=Wanted(like="listing"),
    )


def _get(store: Loaded, access: Access, path: str) -> Request:
    return Request(
        f"/stores/{store.handle}{PREFIX}{path}",
        first_id=store.first_id,
        last_id=store.last_id,
        headers={"Authorization": f"Bearer {access.token}"},
    )


def _listing(
    store: Loaded,
    limit: int,
    after: int | None = None,
    *,
    listing: Listing = queries.LISTING,
    caller: str = "",
    unchanged: bool = False,
) -> Script:
    # Variables instead of literals reach the server as parameters, so it plans as for the service.
    chosen = [f"\\set store {store.store_id}"]
    chosen.append(f"\\set rows {limit + 1}")
    values = [":store", ":rows", *([f"'{caller}'"] if listing.depends_on_caller else [])]
    if after is not None:
        chosen.append(f"\\set after {after}")
        values.append(":after")
    # The service reads bytes in binary format. pgbench reads only text, in which bytes become hexadecimal digits at a
    # high cost; documents as text make the limit higher, and the comparison fair.
    sql = listing.statement(Shape(resumed=after is not None, joined=",", most=limit))
    if not unchanged:
        sql = sql.replace(_DOCUMENTS, _AS_TEXT)
    return Script(as_script((sql, values), choose="\n".join(chosen)))


def _cursor(after: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(Cursor({}, False, [after]))).rstrip(b"=").decode()  # noqa: FBT003
