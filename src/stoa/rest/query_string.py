"""Reads the query string of a request: its parameters, and a refusal of those that are unknown or invalid."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import parse_qsl

from stoa.rest.filters import LARGEST_SET
from stoa.rest.problems import Fault, InvalidParameter, UnknownParameter, did_you_mean, printable

_MOST_PARAMETERS, _MOST_NAMED = 50, 5


def query_parameters(query_string: bytes, sets: Collection[str] = ()) -> dict[str, str]:
    """Parse the query string. A repeated name is refused, except for `sets`, whose values are joined by commas."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS + LARGEST_SET,
        )
    except ValueError as error:
        raise InvalidParameter("The query string must be percent-encoded UTF-8 with fewer parameters.") from error
    given: dict[str, str] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise InvalidParameter("Parameters must not contain NUL characters.")
        if name not in given:
            given[name] = value
        elif name in sets:
            given[name] += f",{value}"
        else:
            raise InvalidParameter(f"The parameter {printable(name)} is given more than once.")
    if len(given) > _MOST_PARAMETERS:
        raise InvalidParameter(f"A query string may have at most {_MOST_PARAMETERS} parameters.")
    return given


def subset(name: str, text: str | None, allowed: Sequence[str], faults: list[Fault]) -> frozenset[str] | None:
    """Comma-separated names, each of which must be allowed."""
    if text is None:
        return None
    chosen = frozenset(names := text.split(","))
    if len(names) > LARGEST_SET:
        faults.append(Fault(name, "invalid_parameter", f"may have at most {LARGEST_SET} names"))
    elif not chosen <= frozenset(allowed):
        wrong = printable(", ".join(sorted(chosen - frozenset(allowed))))
        message = f"has no {wrong}; allowed: {', '.join(allowed) or 'none'}"
        faults.append(Fault(name, "invalid_parameter", message))
        return None
    return chosen


def unknown_parameters(where: str, names: Sequence[str], known: Mapping[str, Sequence[str]]) -> UnknownParameter:
    """The refusal of unknown parameters: the known ones, and a suggestion for each unknown one.

    `known` maps each parameter to the operators that it takes in brackets.
    """
    named = [printable(name) for name in names[:_MOST_NAMED]]
    return UnknownParameter(
        f"This {where} has no parameter {', '.join(named)}.",
        faults=[_unknown(name, known) for name in names[:_MOST_NAMED]],
        parameters=named,
        available=sorted(known),
    )


def _unknown(name: str, known: Mapping[str, Sequence[str]]) -> Fault:
    base, bracket, _ = name.partition("[")
    if not bracket or base not in known:
        message, meta = "is not a parameter of this endpoint", did_you_mean(name, known)
    elif operators := list(known[base]):
        message = f"is not an operator of {base}; use {', '.join(f'{base}[{each}]' for each in operators)}"
        meta = {"operators": operators}
    else:
        message, meta = f"is not a parameter of this endpoint: {base} takes no brackets", {"did_you_mean": base}
    return Fault(printable(name), UnknownParameter.code, message, meta)
