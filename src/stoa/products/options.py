"""Options and their values, kept consistent with the variants of the product."""

from collections.abc import Mapping, Sequence
from typing import Any

from stoa.products.documents import options_key
from stoa.rest.problems import Fault

Options = Sequence[Mapping[str, Any]]


def faults_of_options(options: Options) -> list[Fault]:
    """Faults for repeated option names, ignoring case, and repeated values."""
    faults: list[Fault] = []
    names: set[str] = set()
    for index, option in enumerate(options):
        if option["name"].casefold() in names:
            faults.append(Fault(f"/options/{index}/name", "invalid_format", "is the name of another option too"))
        names.add(option["name"].casefold())
        values: set[str] = set()
        for number, value in enumerate(option["values"]):
            if value in values:
                faults.append(Fault(f"/options/{index}/values/{number}", "invalid_format", "is listed twice"))
            values.add(value)
    return faults


def faults_of_names(options: Options, values: Mapping[str, str], at: str) -> list[Fault]:
    """Faults unless a variant has a value for each option and for nothing else."""
    names = [option["name"] for option in options]
    if set(values) == set(names):
        return []
    words = (
        f"must have exactly these options: {', '.join(names)}" if names else "must be empty: the product has no options"
    )
    return [Fault(at, "option_mismatch", words)]


def faults_of_values(options: Options, values: Mapping[str, str], at: str) -> list[Fault]:
    """Faults unless a variant takes its values from the options."""
    return faults_of_names(options, values, at) or [
        Fault(f"{at}/{option['name']}", "option_mismatch", "must be one of the option's values")
        for option in options
        if values[option["name"]] not in option["values"]
    ]


def faults_of_refitting(options: Options, every: Sequence[Mapping[str, str]]) -> list[Fault]:
    """Faults unless the refitted variants are valid under the changed options."""
    indexes = {option["name"]: index for index, option in enumerate(options)}
    in_use = {(name, value) for values in every for name, value in values.items()}
    faults = [
        Fault(f"/options/{indexes[name]}/values", "option_mismatch", "must include all values that variants use")
        for name in indexes
        if not {value for option, value in in_use if option == name} <= set(options[indexes[name]]["values"])
    ]
    if not faults and len({options_key(values) for values in every}) < len(every):
        faults.append(Fault("/options", "option_mismatch", "would give two variants the same values"))
    return faults


def refitted(before: Options, after: Options, values: Mapping[str, str]) -> dict[str, str]:
    """A variant's values under changed options: its own values, also under a renamed option; the first of a new option."""
    gone = {option["name"] for option in before} - {option["name"] for option in after}
    fitted: dict[str, str] = {}
    for index, option in enumerate(after):
        name = option["name"]
        fitted[name] = option["values"][0]
        if name in values:
            fitted[name] = values[name]
        elif (
            index < len(before) and before[index]["name"] in gone and values[before[index]["name"]] in option["values"]
        ):
            fitted[name] = values[before[index]["name"]]
    return fitted


def in_order(options: Options, values: Mapping[str, str]) -> dict[str, str]:
    """A variant's values in the order of the product's options."""
    return {option["name"]: values[option["name"]] for option in options}


def extended(options: Options, values: Mapping[str, str]) -> list[Any]:
    """The options extended by a variant's new values."""
    return [
        option
        if values[option["name"]] in option["values"]
        else {**option, "values": [*option["values"], values[option["name"]]]}
        for option in options
    ]
