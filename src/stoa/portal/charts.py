"""Pictures of figures by day: where ticks, bars and lines lie, so that a template only has to draw them."""

import math
from collections.abc import Sequence
from datetime import date

import msgspec

WIDTH, HEIGHT = 440, 216
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 14, 30
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
_STEPS = (1, 2, 5, 10)
_MOST_DATES = 5
_LEAST = 0.001
_WIDEST_BAR = 26


class Series(msgspec.Struct, frozen=True):
    """One figure a day; None where there is nothing to tell. `column` is its place in the table beside the picture."""

    words: str
    tone: str
    column: str
    values: Sequence[float | None]


class Tick(msgspec.Struct, frozen=True):
    at: float
    words: str


class Drawn(msgspec.Struct, frozen=True):
    """One series as it is drawn: the outline of its bars or its line, and points that no line joins."""

    words: str
    tone: str
    column: str
    path: str
    dots: Sequence[tuple[float, float]] = ()


class Chart(msgspec.Struct, frozen=True):
    """A picture in a box of WIDTH by HEIGHT, with what a screen reader says of it."""

    id: str
    title: str
    unit: str
    says: str
    kind: str
    days: int
    up: Sequence[Tick]
    along: Sequence[Tick]
    drawn: Sequence[Drawn]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom edge of the plot."""
        return LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM


def ticks(most: float, *, whole: bool = True, about: int = 4) -> list[float]:
    """Round numbers from 0 to at least `most`, with even steps of 1, 2 or 5 times a power of ten."""
    if most < _LEAST:
        return [0, 1]
    rough = most / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each for each in _STEPS if each * power >= rough * (1 - 1e-9)) * power
    if whole:
        step = max(1, round(step))
    count = math.ceil(most / step - 1e-9)
    return [round(number * step, 6) for number in range(count + 1)]


def short(value: float) -> str:
    """A figure as an axis has room for it: 950, 1.5k, 20M."""
    for size, mark in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{mark}"
    return f"{value:g}"


def dates(days: Sequence[date], most: int = _MOST_DATES) -> list[tuple[int, str]]:
    """Which days are named below the axis, evenly from the last one back."""
    every = max(1, math.ceil(len(days) / most))
    places = sorted(range(len(days) - 1, -1, -every))
    return [(place, f"{days[place]:%-d %b}") for place in places]


def bars(id: str, title: str, unit: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """Bars by day, those of several series one upon the other."""
    tops = [sum(each.values[place] or 0 for each in series) for place in range(len(days))]
    scale = ticks(max(tops, default=0))
    slot = _PLOT_WIDTH / max(1, len(days))
    width = round(min(_WIDEST_BAR, slot * 0.72), 1)
    below = [0.0] * len(days)
    drawn: list[Drawn] = []
    for each in series:
        parts: list[str] = []
        for place, value in enumerate(each.values):
            if value:
                left = _near(LEFT + slot * (place + 0.5) - width / 2)
                bottom, height = _height(below[place], scale), value / scale[-1] * _PLOT_HEIGHT
                # Even a single one among many must be seen.
                parts.append(f"M{left} {_near(bottom)}v{_near(-max(height, 1))}h{width:g}v{_near(max(height, 1))}z")
                below[place] += value
        drawn.append(Drawn(each.words, each.tone, each.column, "".join(parts)))
    return _chart(id, title, unit, "bars", days, scale, drawn, _says(days, series, unit))


def lines(id: str, title: str, unit: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """A line for each series, broken where a day has nothing to tell."""
    known = [value for each in series for value in each.values if value is not None]
    scale = ticks(max(known, default=0), whole=False)
    slot = _PLOT_WIDTH / max(1, len(days))
    drawn: list[Drawn] = []
    for each in series:
        path: list[str] = []
        dots: list[tuple[float, float]] = []
        for run in _runs(each.values):
            points = [
                (_near(LEFT + slot * (place + 0.5)), _near(_height(each.values[place] or 0, scale))) for place in run
            ]
            if len(points) == 1:
                dots += points
            else:
                path.append("M" + "L".join(f"{x} {y}" for x, y in points))
        drawn.append(Drawn(each.words, each.tone, each.column, "".join(path), dots))
    return _chart(id, title, unit, "lines", days, scale, drawn, _says(days, series, unit))


def _chart(
    id: str,
    title: str,
    unit: str,
    kind: str,
    days: Sequence[date],
    scale: Sequence[float],
    drawn: Sequence[Drawn],
    says: str,
) -> Chart:
    slot = _PLOT_WIDTH / max(1, len(days))
    up = [Tick(_near(_height(value, scale)), short(value)) for value in scale]
    along = [Tick(_near(LEFT + slot * (place + 0.5)), words) for place, words in dates(days)]
    return Chart(id, title, unit, says, kind, len(days), up, along, drawn)


def _height(value: float, scale: Sequence[float]) -> float:
    return TOP + _PLOT_HEIGHT * (1 - value / scale[-1])


def _near(value: float) -> float:
    return round(value, 1)


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """The places of values that follow one another without a gap."""
    runs: list[list[int]] = []
    for place, value in enumerate(values):
        if value is None:
            continue
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _says(days: Sequence[date], series: Sequence[Series], unit: str) -> str:
    """What the picture shows, in a sentence for each series."""
    if not days:
        return ""
    told = [f"{days[0]:%-d %B %Y} to {days[-1]:%-d %B %Y}, by day."]
    for each in series:
        known = [(value, place) for place, value in enumerate(each.values) if value is not None]
        if not known or not max(known)[0]:
            told.append(f"{each.words}: none.")
        else:
            most, place = max(known)
            told.append(f"{each.words}: at most {most:g} {unit}, on {days[place]:%-d %B}; lately {known[-1][0]:g}.")
    return " ".join(told)
