"""Search terms: words without case and accents, bound to their store, and quoted for tsquery and tsvector."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.terms import beginning, entry, exactly, lexeme, vector, words

stores = st.integers(1, 2**63 - 1)
values = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=300)

_QUOTED = re.compile(r"'((?:[^'\\]|''|\\\\)*)'")


def unquoted(text: str) -> list[str]:
    """The lexemes of a tsquery or tsvector literal, as PostgreSQL reads them."""
    rest = _QUOTED.sub("", text)
    assert not set(rest) - set(" &:*"), rest
    return [found.replace("''", "'").replace("\\\\", "\\") for found in _QUOTED.findall(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Linen Shirt, blue", ["linen", "shirt", "blue"]),
        ("T-Shirt 2XL", ["t", "shirt", "2xl"]),
        ("Crème Brûlée", ["creme", "brulee"]),
        ("STRAẞE Straße", ["strasse", "strasse"]),
        ("\ufb01ne \uff12\uff10", ["fine", "20"]),
        ("naïve snake_case", ["naive", "snake_case"]),
        ("\U0001d400dele \u3371", ["adele", "hpa"]),
        ("麻のシャツ", ["麻のシャツ"]),
        ("!? -- ...", []),
    ],
)
def test_a_text_is_split_into_words_without_case_and_accents(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_case_does_not_matter(text: str) -> None:
    assert words(text.casefold()) == words(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_cut_for_ascii_yields_the_same_words(text: str) -> None:
    assert words(text) == words(f"{text} é")[:-1]


@given(st.text())
def test_words_are_normalized_once_and_for_all(text: str) -> None:
    found = words(text)
    assert words(" ".join(found)) == found
    assert not any(unicodedata.combining(character) for word in found for character in word)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("word", "7/w/linen"), ("tag", "7/t/linen"), ("meta", "7/m/linen"), ("brand", "7/b/linen"),
     ("category", "7/c/linen"), ("name", "7/n/linen")],
)  # fmt: skip
def test_a_lexeme_starts_with_its_store_and_kind(kind: str, expected: str) -> None:
    assert lexeme(7, kind, "linen") == expected  # pyright: ignore[reportArgumentType]


@given(stores, stores, values, values)
def test_lexemes_of_two_stores_never_share_a_prefix(one: int, other: int, value: str, another: str) -> None:
    first, second = lexeme(one, "tag", value), lexeme(other, "tag", another)
    assert first.startswith(f"{one}/t/")
    assert (one == other) or not second.startswith(f"{one}/")


@given(stores, values, values)
def test_two_lexemes_are_equal_only_for_equal_values(store: int, value: str, another: str) -> None:
    assert (lexeme(store, "meta", value) == lexeme(store, "meta", another)) == (value == another)


@given(st.text(min_size=201, max_size=2_000))
def test_a_long_value_becomes_a_digest_that_fits_into_an_index(value: str) -> None:
    encoded = value.encode("utf-8", "replace").decode()
    found = lexeme(1, "tag", encoded)
    assert re.fullmatch(r"1/t/[0-9a-f]{64}", found)
    assert found == lexeme(1, "tag", encoded)


@pytest.mark.parametrize(
    ("value", "expected"), [("red", "color=red"), (True, "color=true"), (False, "color=false"), (12, "color=12")]
)
def test_a_metadata_entry_is_written_as_in_a_query_string(value: object, expected: str) -> None:
    assert entry("color", value) == expected


@given(st.lists(values))
def test_a_tsquery_quotes_every_lexeme(found: list[str]) -> None:
    query = exactly(found)
    assert unquoted(query) == found
    assert query.count(" & ") >= max(0, len(found) - 1)


@given(st.lists(values))
def test_a_tsvector_quotes_every_lexeme_in_order(found: list[str]) -> None:
    assert unquoted(vector(found)) == sorted(found)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert exactly([r"7/t/rock'n\roll"]) == r"'7/t/rock''n\\roll'"
    assert vector([r"a\b", "c'd"]) == r"'a\\b' 'c''d'"
    assert vector([]) == exactly([]) == ""


def test_a_search_matches_prefixes_of_words_in_one_store() -> None:
    assert beginning(7, "Linen shi") == "'7/w/linen':* & '7/w/shi':*"
    assert beginning(7, "Ada", "name") == "'7/n/ada':*"
    assert beginning(7, " ?! ") == ""


@given(stores, st.text(max_size=500))
def test_every_term_of_a_search_is_bound_to_its_store(store: int, text: str) -> None:
    query = beginning(store, text)
    assert all(term.startswith(f"{store}/w/") for term in unquoted(query))
    assert len(unquoted(query)) <= 20
