"""The query string: names and values, percent-encoded, each name once unless it takes several values."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import parse_qsl

from stoa.rest.problems import Fault, InvalidParameter, UnknownParameter, did_you_mean, shown

LARGEST_SET = 250
_MOST_PARAMETERS = 50
_MOST_TOLD = 5


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
    if unknown := [name for name in given if name not in known]:
        raise unknown_parameters("endpoint", unknown, dict.fromkeys(known, ()))
    return given


def unknown_parameters(where: str, names: Sequence[str], known: Mapping[str, Sequence[str]]) -> UnknownParameter:
    """Says which parameters there are, and of each name that is none of them what was perhaps meant.

    `known` are the parameters with the operators that each takes in brackets.
    """
    told = [shown(name) for name in names[:_MOST_TOLD]]
    return UnknownParameter(
        f"This {where} has no parameter {', '.join(told)}.",
        faults=[_fault(name, known) for name in names[:_MOST_TOLD]],
        parameters=told,
        available=sorted(known),
    )


def _fault(name: str, known: Mapping[str, Sequence[str]]) -> Fault:
    base, bracket, _ = name.partition("[")
    if not bracket or base not in known:
        words, meta = "is not a parameter here", did_you_mean(name, known)
    elif operators := list(known[base]):
        words = f"is not an operator of {base}; those are {', '.join(f'{base}[{each}]' for each in operators)}"
        meta = {"operators": operators}
    else:
        words, meta = f"is not a parameter here: {base} takes nothing in brackets", {"did_you_mean": base}
    return Fault(shown(name), UnknownParameter.code, words, meta)
