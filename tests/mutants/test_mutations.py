"""The list of mutations matches the source, and a run of tests is judged correctly."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import judge, picked
from tests.mutants.mutation import ROOT, Mutation, NoLongerApplies, read_sources
from tests.mutants.mutations import MUTATIONS

MOVED = Mutation("nothing", "one line", "another line", "tests/mutants")
FAILED = "FAILED tests/a.py::test_b[two words] - assert 1 == 2\n"


def test_every_mutation_applies() -> None:
    texts = read_sources()
    for mutation in MUTATIONS:
        path, content = mutation.apply(texts)
        assert content != texts[path], mutation.breaks
        if path.suffix == ".py":
            ast.parse(content)  # a file that cannot be imported proves nothing


def test_every_mutation_names_existing_tests() -> None:
    for mutation in MUTATIONS:
        path, _, test = mutation.caught_by.partition("::")
        assert (ROOT / path).exists(), mutation.breaks
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), mutation.breaks


def test_there_are_50_mutations_with_different_names() -> None:
    assert len({each.breaks for each in MUTATIONS}) == len(MUTATIONS) == 50


@pytest.mark.parametrize("texts", [["no such line"], ["one line", "one line"], ["one line, one line"]])
def test_a_mutation_whose_text_is_gone_or_repeated_is_refused(texts: list[str]) -> None:
    with pytest.raises(NoLongerApplies, match=r"'nothing' no longer applies .* update it"):
        MOVED.apply({Path(str(n)): text for n, text in enumerate(texts)})


def test_a_mutation_follows_its_text_to_another_file() -> None:
    assert MOVED.apply({Path("a"): "nothing", Path("b"): "this one line"}) == (Path("b"), "this another line")


@pytest.mark.parametrize(
    ("code", "output", "caught", "words"),
    [
        (1, FAILED, True, "caught by tests/a.py::test_b[two words]"),
        (0, "1 passed", False, "SURVIVED"),
        (1, "ERROR tests/a.py::test_b - the database has no function\n", False, "PROVES NOTHING"),
        (1, "FAILED tests/a.py::test_b - Failed: Timeout (>120.0s)\n", False, "PROVES NOTHING"),
        (2, "ERROR tests/a.py - ImportError\n", False, "PROVES NOTHING"),
        (None, FAILED, False, "PROVES NOTHING"),
    ],
    ids=["failed", "passed", "error in the set-up", "timeout of a test", "error at import", "timeout of the run"],
)
def test_only_a_failed_test_catches_a_mutation(code: int | None, output: str, caught: bool, words: str) -> None:
    verdict = judge(code, output)
    assert verdict.caught == caught
    assert verdict.words.startswith(words)


def test_mutations_are_picked_by_number_or_word() -> None:
    assert list(picked([])) == list(range(1, len(MUTATIONS) + 1))
    assert picked(["3"]) == {3: MUTATIONS[2]}
    assert set(picked(["refund"]).values()) == {each for each in MUTATIONS if "refund" in each.breaks}
    assert picked(["no such word"]) == {}
