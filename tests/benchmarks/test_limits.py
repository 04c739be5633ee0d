"""The limits and targets of the benchmarks."""

from pathlib import Path

from benchmarks import catalog, drive, measures, report, results
from stoa.access.contract import NewSecret

STORE = catalog.Loaded(7, "large", 101, 10_100)
ACCESS = measures.Access(NewSecret(1, "stoa_ci_x", "secret"), "token")


def test_every_parameter_of_a_statement_is_replaced_by_its_value() -> None:
    values = [str(number) for number in range(101, 112)]
    assert drive.as_script(("SELECT $1,\n $11::text[], $2", values)) == "SELECT 101,  111::text[], 102;\n"


def test_no_parameter_is_left_in_a_limit() -> None:
    rows = measures.of_large_store(STORE, ACCESS) + measures.of_million_store(STORE, ACCESS)
    assert [row.name for row in rows if row.limit is None] == ["stores"]
    assert [row.name for row in rows if row.limit is not None and "$" in row.limit.text] == []


def test_the_limit_of_a_listing_is_not_lowered_by_quoting_of_arrays() -> None:
    listing = next(m for m in measures.of_large_store(STORE, ACCESS) if m.name == "listing")
    assert listing.limit is not None
    assert listing.limit.text.count("string_agg(doc, ',')") == 1
    assert "array_agg(doc" not in listing.limit.text
    assert "textsend" not in listing.limit.text


def test_a_target_is_met_from_its_minimum_and_shows_its_aim() -> None:
    wanted = measures.Wanted(of_limit=0.5, aim_of_limit=0.7, of_baseline=10)
    measure = measures.Measure("listing", "", drive.Request("/"), drive.Script(""), wanted=wanted)
    one, two = (results.Round(drive.Figures(rate), drive.Figures(1000), drive.Figures(50), None) for rate in (510, 480))
    row = results.row_of(measure, [one, two, two])
    assert [(mark.figure, mark.wanted, mark.met) for mark in results.marks_of([row], None, {"cold": 8.1})] == [
        ("48%", "at least 50% (aim: 70%)", False),
        ("9.6 times", "at least 10 times", False),
        ("8.1 s", "at most 8 s", False),
    ]
    met = results.marks_of([results.row_of(measure, [one])], None, {"warm": 3})
    assert [mark.met for mark in met] == [True, True, True]


def test_recorded_results_replace_only_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    report.record(file, "requests", "old figures")
    report.record(file, "imports", "rows a second")
    file.write_text(file.read_text() + "\n## What the figures say\n")
    report.record(file, "requests", "new figures")
    text = file.read_text()
    assert "old figures" not in text
    positions = [
        text.index(words) for words in ("# Benchmarks", "new figures", "rows a second", "What the figures say")
    ]
    assert positions == sorted(positions)


def test_the_cost_of_a_request_is_compared_with_that_of_the_baseline() -> None:
    measure = measures.Measure("listing", "", drive.Request("/"), None)
    theirs = drive.Figures(50, service_us=900, database_us=300)
    runs = [
        results.Round(drive.Figures(500, service_us=each, database_us=100), None, theirs, None)
        for each in (200, 210, 900)
    ]
    shown = results.Results(results.describe_machine("18"), "", "", [results.row_of(measure, runs)], [], None, {})
    assert "| listing | 210 | 100 | - | 900 | 300 | 3.9 |" in report.as_markdown(shown, explained=False)
