"""What a developer sees of an app's use: pictures with honest axes, the same as a table, and what was refused."""

import itertools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree as ET

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.access.grants import install
from stoa.accounts.ownership import open_store, register_app
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.charts import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, bars, dates, lines, short, ticks
from stoa.usage.rules import FIGURES
from tests.portal.people import Somebody, as_operator
from tests.support.shops import api_client, service_client, token_for

MARCH = [date(2026, 3, 1) + timedelta(days=number) for number in range(31)]
_numbers = itertools.count(1)


# --- axes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "wanted"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (4, [0, 1, 2, 3, 4]),
        (7, [0, 2, 4, 6, 8]),
        (10, [0, 5, 10]),
        (97, [0, 50, 100]),
        (100, [0, 50, 100]),
        (18_734, [0, 5_000, 10_000, 15_000, 20_000]),
    ],
)
def test_an_axis_has_round_numbers(most: float, wanted: list[float]) -> None:
    assert ticks(most) == wanted


def test_an_axis_of_milliseconds_may_have_parts_of_one() -> None:
    assert ticks(0.9, whole=False) == [0, 0.5, 1]


@given(most=st.floats(0, 1e12), whole=st.booleans())
def test_an_axis_reaches_what_it_shows_in_few_even_steps(most: float, whole: bool) -> None:
    found = ticks(most, whole=whole)
    assert found[0] == 0
    assert found[-1] >= most * (1 - 1e-6) - 1e-6
    assert 2 <= len(found) <= 6
    steps = [after - before for before, after in itertools.pairwise(found)]
    assert max(steps) - min(steps) <= 1e-5 * max(steps) + 1e-6
    if whole:
        assert all(float(each).is_integer() for each in found)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(0, "0"), (0.5, "0.5"), (950, "950"), (1_500, "1.5k"), (20_000, "20k"), (2_500_000, "2.5M"), (3e9, "3B")],
)
def test_a_figure_on_an_axis_is_short(value: float, wanted: str) -> None:
    assert short(value) == wanted


@given(count=st.integers(1, 400))
def test_few_days_are_named_and_the_last_is_one_of_them(count: int) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(count)]
    named = dates(days)
    assert 1 <= len(named) <= 6
    assert named[-1] == (count - 1, f"{days[-1]:%-d %b}")


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=90), st.integers(0, 10**6))
def test_no_bar_leaves_its_box(values: list[int], more: int) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(len(values))]
    chart = bars("x", "X", "", days, [Series("a", "sea", "a", values), Series("b", "clay", "b", [more] * len(values))])
    for drawn in chart.drawn:
        for left, bottom, up, width in re.findall(r"M([\d.-]+) ([\d.-]+)v([\d.-]+)h([\d.-]+)", drawn.path):
            assert LEFT <= float(left) <= float(left) + float(width) <= WIDTH - RIGHT + 0.2
            assert TOP - 2 <= float(bottom) + float(up) <= float(bottom) <= HEIGHT


def test_a_line_is_broken_where_nothing_was_asked() -> None:
    values: list[float | None] = [5, 6, None, 7, None, 8, 9]
    [drawn] = lines("x", "X", "ms", MARCH[:7], [Series("p50", "sea", "p50", values)]).drawn
    assert drawn.path.count("M") == 2
    assert len(drawn.dots) == 1


def test_a_picture_tells_in_words_what_it_shows() -> None:
    chart = bars("x", "Requests", "a day", MARCH[:3], [Series("Requests", "sea", "requests", [1, 40, 7])])
    assert chart.says == "1 March 2026 to 3 March 2026, by day. Requests: at most 40 a day, on 2 March; lately 7."
    quiet = bars("x", "Errors", "a day", MARCH[:3], [Series("Failed", "clay", "failed", [0, 0, 0])])
    assert "Failed: none." in quiet.says


# --- pages ----------------------------------------------------------------------------------------------------------


@dataclass
class Trade:
    """An app of somebody's, on a store of somebody's, with a way to call it."""

    person: Somebody
    app_id: int
    handle: str
    store_id: int
    client: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/portal/apps/{self.app_id}"


async def trade(person: Somebody, db: Database) -> Trade:
    number, me = next(_numbers), person.account.id
    by = as_operator(db, person.application.settings)
    store = await open_store(by, me, f"trade-{me}-{number}", f"Trade {number}", "EUR")
    made = await register_app(by, me, "Counter", "", {"products:read": "To count."}, f"{me}:{number}")
    await install(by, made.client_id, store.handle)
    async with service_client(person.application) as service:
        token = await token_for(service, made.client_id, made.client_secret)
    return Trade(person, made.app_id, store.handle, store.id, api_client(person.application, store.handle, token))


@pytest.fixture
async def marias(maria: Somebody, db: Database) -> AsyncIterator[Trade]:
    made = await trade(maria, db)
    yield made
    await made.client.aclose()


async def used(db: Database, at: Trade, days_ago: int, requests: int, **figures: int) -> None:
    """So many requests on a day, each of them counted as taking up to ten milliseconds."""
    values = dict.fromkeys(FIGURES, 0) | {"requests": requests, "ms_10": requests} | figures
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    marks = ", ".join(f"${place}" for place in range(5, 5 + len(values)))
    await db.execute(
        f"INSERT INTO usage_days (store_id, app_id, day, operation, {', '.join(values)}) VALUES ($1, $2, $3, $4, {marks})",
        at.store_id,
        at.app_id,
        day,
        "list_products",
        *values.values(),
    )


async def test_before_the_first_request_the_page_says_how_to_make_it(marias: Trade) -> None:
    await marias.person.open(f"{marias.path}/usage")
    assert "No requests yet" in marias.person.text
    assert "curl -s" in marias.person.text
    assert f"/stores/{marias.handle}" not in marias.person.text  # it stands in .env
    assert "<svg viewBox" not in marias.person.text.replace('<svg viewBox="0 0 24 24"', "")


async def test_four_pictures_are_drawn_with_axes_units_and_words(marias: Trade, db: Database) -> None:
    await used(db, marias, 0, 120, client_errors=6, server_errors=1, rate_limited=9)
    await used(db, marias, 3, 80)
    await marias.person.open(f"{marias.path}/usage?days=7")
    pictures = [
        ET.fromstring(each)  # noqa: S314 - it is our own page
        for each in re.findall(r'<svg viewBox="0 0 440 216".*?</svg>', marias.person.seen.text, re.DOTALL)
    ]
    assert len(pictures) == 4
    for picture in pictures:
        assert picture.get("role") == "img"
        desc = picture.find("desc")
        assert desc is not None
        assert desc.text
        assert len(picture.findall("g[@class='up']/text")) >= 2
        assert len(picture.findall("g[@class='along']/text")) >= 4
    assert "Requests: at most 120 a day" in marias.person.text
    assert "Answered 429: at most 9 a day" in marias.person.text
    assert ">200<" in marias.person.text  # the sum of both days
    assert "3.5 %" in marias.person.text
    assert marias.person.text.count('<th scope="row">') == 7


async def test_the_figures_are_of_the_days_and_the_store_that_were_chosen(
    marias: Trade, maria: Somebody, db: Database
) -> None:
    by = as_operator(db, maria.application.settings)
    other = await open_store(by, maria.account.id, f"other-{maria.account.id}", "Other", "EUR")
    second = Trade(maria, marias.app_id, other.handle, other.id, marias.client)
    await used(db, marias, 1, 41)
    await used(db, second, 1, 1_000)
    await used(db, marias, 60, 7)
    await maria.open(f"{marias.path}/usage?days=30")
    assert "1,041" in maria.text
    assert other.handle in maria.text
    await maria.open(f"{marias.path}/usage?days=90&store={marias.handle}")
    assert ">48<" in maria.text
    assert "1,000" not in maria.text
    await maria.open(f"{marias.path}/usage?days=7&store={other.handle}")
    assert "1,000" in maria.text


@pytest.mark.parametrize(
    "query", ["days=0", "days=9999999", "days=-1", "days=x", "store=../..", "store=%00", "store=''"]
)
async def test_a_question_that_makes_no_sense_is_answered_as_usual(marias: Trade, db: Database, query: str) -> None:
    await used(db, marias, 1, 5)
    await marias.person.open(f"{marias.path}/usage?{query}")
    assert marias.person.seen.status_code == 200
    assert marias.person.text.count('<th scope="row">') == 30


async def test_ninety_days_fit_on_the_page(marias: Trade, db: Database) -> None:
    for day in range(90):
        await used(db, marias, day, 10_000 + day, client_errors=17, rate_limited=3)
    await marias.person.open(f"{marias.path}/usage?days=90")
    assert len(marias.person.seen.content) < 100_000


async def test_another_apps_use_of_the_same_store_is_not_counted(marias: Trade, maria: Somebody, db: Database) -> None:
    await used(db, marias, 1, 33)
    stranger = await trade(maria, db)
    await used(db, Trade(maria, stranger.app_id, marias.handle, marias.store_id, stranger.client), 1, 4_444)
    await maria.open(f"{marias.path}/usage")
    assert "33" in maria.text
    assert "4,444" not in maria.text
    await stranger.client.aclose()


async def test_a_refused_request_is_listed_with_reason_and_request_id(
    marias: Trade, application: Application, db: Database
) -> None:
    refused = await marias.client.get("/products", params={"sort": "nope"})
    missing = await marias.client.get("/products/999999999")
    await application.usage.flush(db)
    await marias.person.open(f"{marias.path}/failures")
    for answer in (refused, missing):
        problem = answer.json()
        assert problem["request_id"] in marias.person.text
        assert f'href="/problems/{problem["code"]}"' in marias.person.text
    assert "/docs/products/list_products" in marias.person.text
    assert (await marias.person.client.get("/docs/products/list_products")).status_code == 200
    assert "sort" in marias.person.text
    await marias.person.open(f"{marias.path}/usage")
    assert "list_products" in marias.person.text


FAIL = """INSERT INTO failed_requests (store_id, app_id, at, request_id, method, operation, status, code, fault_pointer,
                                       fault_code, duration_us)
          VALUES ($1, $2, now() - make_interval(secs => $3::integer), $4, 'GET', 'list_products', 400,
                  'invalid_parameter', '', '', 900)"""


async def test_failures_are_paged_and_may_be_of_one_store(marias: Trade, db: Database) -> None:
    for number in range(60):
        await db.execute(FAIL, marias.store_id, marias.app_id, number, f"req_{number:03}")
    person = marias.person
    await marias.client.get("/products")
    await used(db, marias, 0, 60)
    seen: list[str] = []
    address = f"{marias.path}/failures?store={marias.handle}"
    for _ in range(3):
        await person.open(address)
        seen += re.findall(r">(req_\d{3})<", person.text)
        following = re.search(r'href="(\?[^"]+)">Older', person.text)
        address = f"{marias.path}/failures{following[1]}" if following else ""
        assert not following or f"store={marias.handle}" in following[1]
    assert seen == [f"req_{number:03}" for number in range(60)]
    assert address == ""
    await person.open(f"{marias.path}/failures?page=99999")
    assert "req_000" in person.text


async def test_what_a_caller_sent_is_never_markup(marias: Trade, db: Database) -> None:
    hostile = FAIL.replace("'invalid_parameter'", "'<script>alert(1)</script>'")
    await db.execute(hostile, marias.store_id, marias.app_id, 1, "<img src=x>")
    await marias.person.open(f"{marias.path}/failures")
    assert "<script>alert" not in marias.person.seen.text
    assert "<img src=x>" not in marias.person.seen.text
