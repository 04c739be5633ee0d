"""The terms by which typed metadata is compared are those that their definition says, whatever a row contains."""

import re
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from stoa.db.pool import Database

_NUMBER = re.compile(r"([0-9]+)/m/([^=]+)=(-?[0-9]{1,26}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)")
_LIST = re.compile(r"([0-9]+)/m/([^=]+)=(.+,.+)")
_PADDED = re.compile(r"(^|,)[ ,]|[ ,](,|$)")

_numbers = st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,4})?(e[+-]?[0-9]{1,2})?", fullmatch=True)
_lists = st.lists(st.sampled_from(["a", "b c", " x", "y ", "", "1", "é"]), max_size=4).map(",".join)
_values = st.one_of(_numbers, _lists, st.sampled_from(["linen", "a=b,c", "9" * 26, "9" * 27, "-0", "5.", "1,"]))
_terms = st.builds(
    "{}/{}/{}={}".format,
    st.sampled_from([7, 12]),
    st.sampled_from("mmmt"),
    st.sampled_from(["year", "a b", "k/m/x"]),
    _values,
)


def comparable(terms: set[str]) -> set[str]:
    """The definition, as the comment on the function and the guide of metadata give it."""
    found: set[str] = set()
    for term in terms:
        if (number := _NUMBER.fullmatch(term)) is not None:
            value = Decimal(number[3])
            whole, _, fraction = f"{abs(value):f}".partition(".")
            digits = whole.lstrip("0") or "0"
            if len(digits) <= 26:
                sign, length = "n" if value < 0 else "p", chr(96 + len(digits))
                found.add(f"{number[1]}/#/{number[2]}={sign}{length}{digits}{fraction.rstrip('0')}")
        elif (several := _LIST.fullmatch(term)) is not None and not _PADDED.search(several[3]):
            found |= {f"{several[1]}/#/{several[2]}=:{value}" for value in several[3].split(",")}
    return found


@given(terms=st.sets(_terms, max_size=6))
@example(terms={"7/m/year=2026", "7/m/colors=red,green", "7/t/2026,linen"})
async def test_numbers_are_comparable_and_values_of_lists_are_found(db: Database, terms: set[str]) -> None:
    statement = "SELECT tsvector_to_array(comparable_terms(array_to_tsvector($1::text[])))"
    [[found]] = await db.fetch(statement, sorted(terms))
    assert set(found or []) == comparable(terms)
