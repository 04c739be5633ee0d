"""The query string: names and values, percent-encoded, each name once unless it takes several values."""

from collections.abc import Collection
from urllib.parse import parse_qsl

from stoa.rest.problems import InvalidParameter, UnknownParameter, shown

LARGEST_SET = 250
_MOST_PARAMETERS = 50


def pairs_of(query_string: bytes, sets: Collection[str] = ()) -> dict[str, str]:
    """Read it; a name that stands twice is refused, but for `sets`, whose values are joined by commas."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS + LARGEST_SET,
        )
    except ValueError as error:
        raise InvalidParameter("The query must be percent-encoded UTF-8 with fewer parameters.") from error
    given: dict[str, str] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise InvalidParameter("Parameters may not hold NUL.")
        if name not in given:
            given[name] = value
        elif name in sets:
            given[name] += f",{value}"
        else:
            raise InvalidParameter(f"The parameter {shown(name)} stands twice.")
    if len(given) > _MOST_PARAMETERS:
        raise InvalidParameter(f"A query may have at most {_MOST_PARAMETERS} parameters.")
    return given


def known_only(query_string: bytes, known: Collection[str], sets: Collection[str] = ()) -> dict[str, str]:
    """Read the parameters of an endpoint that is no list."""
    given = pairs_of(query_string, sets) if query_string else {}
    for name in given:
        if name not in known:
            raise UnknownParameter(
                f"This endpoint has no parameter {shown(name)}.", parameters=[shown(name)], available=sorted(known)
            )
    return given
