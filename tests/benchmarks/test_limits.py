"""The limits that figures are held against: the service's own statements, and the marks they have to reach."""

from benchmarks import catalogue, drive, measures, results
from stoa.access.contract import NewSecret

STORE = catalogue.Loaded(7, "large", 101, 10_100)
ACCESS = measures.Access(NewSecret(1, "stoa_ci_x", "secret"), "token")


def test_every_parameter_of_a_statement_becomes_what_was_given_for_it() -> None:
    values = [str(number) for number in range(101, 112)]
    assert drive.as_script(("SELECT $1,\n $11::text[], $2", values)) == "SELECT 101,  111::text[], 102;\n"


def test_no_parameter_is_left_in_a_limit() -> None:
    for measure in measures.of_large_store(STORE, ACCESS) + measures.of_million_store(STORE, ACCESS):
        assert "$" not in measure.limit, measure.name


def test_a_listings_limit_is_not_lowered_by_the_quoting_of_arrays() -> None:
    listing = next(m for m in measures.of_large_store(STORE, ACCESS) if m.name == "listing")
    assert listing.limit.count("string_agg(doc, ',')") == 1
    assert "array_agg(doc" not in listing.limit
    assert "convert_to" not in listing.limit


def test_a_mark_is_met_from_its_least_on_and_its_aim_is_told() -> None:
    wanted = measures.Wanted(of_limit=0.5, aim_of_limit=0.7, of_baseline=10)
    row = results.Row(
        "listing", "", wanted, drive.Figures(500), drive.Figures(1000), drive.Figures(51), of_limit=0.5, of_baseline=9.8
    )
    assert [(mark.wanted, mark.met) for mark in results.marks_of([row], None, {"cold": 8.1})] == [
        ("at least 50% (aim: 70%)", True),
        ("at least 10 times", False),
        ("at most 8 s", False),
    ]


def test_a_row_that_must_stay_near_another_is_compared_with_it() -> None:
    first = results.Row("listing", "", measures.Wanted(), drive.Figures(1000), drive.Figures(1), None, 1, None)
    deep = results.Row("deep", "", measures.Wanted(like="listing"), drive.Figures(499), drive.Figures(1), None, 1, None)
    (mark,) = results.marks_of([first, deep], None, {})
    assert (mark.figure, mark.met) == ("50%", False)
