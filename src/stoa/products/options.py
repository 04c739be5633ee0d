"""What the variants of a product differ in: options and their values, kept in step with the variants."""

from collections.abc import Mapping, Sequence
from typing import Any

from stoa.products.documents import options_key
from stoa.rest.problems import Fault

Options = Sequence[Mapping[str, Any]]


def faults_of_options(options: Options) -> list[Fault]:
    """What is written twice: an option's name, however its letters are cased, or one of its values."""
    faults: list[Fault] = []
    names: set[str] = set()
    for place, option in enumerate(options):
        if option["name"].casefold() in names:
            faults.append(Fault(f"/options/{place}/name", "invalid_format", "stands twice in this product"))
        names.add(option["name"].casefold())
        values: set[str] = set()
        for number, value in enumerate(option["values"]):
            if value in values:
                faults.append(Fault(f"/options/{place}/values/{number}", "invalid_format", "stands twice here"))
            values.add(value)
    return faults


def faults_of_names(options: Options, values: Mapping[str, str], at: str) -> list[Fault]:
    """Whether a variant says something of each option and of nothing else."""
    names = [option["name"] for option in options]
    if set(values) == set(names):
        return []
    words = ", ".join(names) or "none, for the product has no options"
    return [Fault(at, "option_mismatch", f"must name exactly these options: {words}")]


def faults_of_values(options: Options, values: Mapping[str, str], at: str) -> list[Fault]:
    """Whether a variant takes its values from the options."""
    return faults_of_names(options, values, at) or [
        Fault(f"{at}/{option['name']}", "option_mismatch", "is not among the option's values")
        for option in options
        if values[option["name"]] not in option["values"]
    ]


def faults_of_refitting(options: Options, every: Sequence[Mapping[str, str]]) -> list[Fault]:
    """Whether the variants of a product, as they were refitted, can live with its changed options."""
    places = {option["name"]: place for place, option in enumerate(options)}
    in_use = {(name, value) for values in every for name, value in values.items()}
    faults = [
        Fault(f"/options/{places[name]}/values", "option_mismatch", "must keep the values that variants have")
        for name in places
        if not {value for of, value in in_use if of == name} <= set(options[places[name]]["values"])
    ]
    if not faults and len({options_key(values) for values in every}) < len(every):
        faults.append(Fault("/options", "option_mismatch", "would leave two variants with the same values"))
    return faults


def refitted(before: Options, after: Options, values: Mapping[str, str]) -> dict[str, str]:
    """A variant's values under changed options: those it has, under a new name too, else the first of a new option."""
    gone = {option["name"] for option in before} - {option["name"] for option in after}
    fitted: dict[str, str] = {}
    for place, option in enumerate(after):
        name = option["name"]
        fitted[name] = option["values"][0]
        if name in values:
            fitted[name] = values[name]
        elif (
            place < len(before) and before[place]["name"] in gone and values[before[place]["name"]] in option["values"]
        ):
            fitted[name] = values[before[place]["name"]]
    return fitted


def in_order(options: Options, values: Mapping[str, str]) -> dict[str, str]:
    """A variant's values in the order of the product's options, whatever the order they were sent in."""
    return {option["name"]: values[option["name"]] for option in options}


def extended(options: Options, values: Mapping[str, str]) -> list[Any]:
    """The options with a variant's values among them, new ones last."""
    return [
        option
        if values[option["name"]] in option["values"]
        else {**option, "values": [*option["values"], values[option["name"]]]}
        for option in options
    ]
