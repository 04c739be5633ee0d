"""Charts of values over days or shorter intervals: computes the SVG coordinates of ticks, bars and lines."""

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta

import msgspec

WIDTH, HEIGHT = 440, 216
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 14, 30
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
SPARK_WIDTH, SPARK_HEIGHT = 96, 24
_STEPS = (1, 2, 5, 10)
_MAX_DATE_LABELS = 5
_MIN_VALUE = 0.001
_MAX_BAR_WIDTH = 26


class Series(msgspec.Struct, frozen=True):
    """One value for each day or interval, None on days without data. `column` is its column in the table below the chart."""

    label: str
    tone: str
    column: str
    values: Sequence[float | None]


class Tick(msgspec.Struct, frozen=True):
    position: float
    label: str


class Shape(msgspec.Struct, frozen=True):
    """The SVG path of a series: its bars or its line, and isolated points."""

    label: str
    tone: str
    column: str
    path: str
    dots: Sequence[tuple[float, float]] = ()


class Chart(msgspec.Struct, frozen=True):
    """A chart in a box of WIDTH by HEIGHT; `description` is for screen readers."""

    id: str
    title: str
    unit: str
    description: str
    kind: str
    days: int
    y_ticks: Sequence[Tick]
    x_ticks: Sequence[Tick]
    shapes: Sequence[Shape]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The left, top, right and bottom edge of the plot."""
        return LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM


def ticks(maximum: float, *, whole: bool = True, target_count: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `maximum`, in even steps of 1, 2 or 5 times a power of ten."""
    if maximum < _MIN_VALUE:
        return [0, 1]
    rough = maximum / target_count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each for each in _STEPS if each * power >= rough * (1 - 1e-9)) * power
    if whole:
        step = max(1, round(step))
    count = math.ceil(maximum / step - 1e-9)
    return [round(number * step, 6) for number in range(count + 1)]


def short(value: float) -> str:
    """Format a number for an axis: 950, 1.5k, 20M."""
    for size, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:g}"


def date_labels(days: Sequence[date]) -> list[tuple[int, str]]:
    """Return the days that are labeled on the x-axis, evenly spaced and including the last one."""
    step = max(1, math.ceil(len(days) / _MAX_DATE_LABELS))
    indexes = sorted(range(len(days) - 1, -1, -step))
    return [(index, f"{days[index]:{_label_format(days)}}") for index in indexes]


def _label_format(days: Sequence[date]) -> str:
    """The format of labels: intervals within two days are labeled with the time."""
    within_days = isinstance(days[0], datetime) and days[-1] - days[0] <= timedelta(days=2)
    return "%H:%M" if within_days else "%-d %b"


def bars(id: str, title: str, unit: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """Draw one bar for each day; several series are stacked."""
    totals = [sum(each.values[index] or 0 for each in series) for index in range(len(days))]
    scale = ticks(max(totals, default=0))
    slot = _PLOT_WIDTH / max(1, len(days))
    width = round(min(_MAX_BAR_WIDTH, slot * 0.72), 1)
    stacked = [0.0] * len(days)
    shapes: list[Shape] = []
    for each in series:
        path: list[str] = []
        for index, value in enumerate(each.values):
            if value:
                left = _rounded(LEFT + slot * (index + 0.5) - width / 2)
                bottom = _rounded(_y(stacked[index], scale))
                # At least one pixel, so that small values stay visible.
                height = max(value / scale[-1] * _PLOT_HEIGHT, 1)
                path.append(f"M{left} {bottom}v{_rounded(-height)}h{width:g}v{_rounded(height)}z")
                stacked[index] += value
        shapes.append(Shape(each.label, each.tone, each.column, "".join(path)))
    return _chart(id, title, unit, "bars", days, scale, shapes, _describe(days, series, unit))


def lines(id: str, title: str, unit: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """Draw one line for each series, with gaps on days without data."""
    values = [value for each in series for value in each.values if value is not None]
    scale = ticks(max(values, default=0), whole=False)
    slot = _PLOT_WIDTH / max(1, len(days))
    shapes: list[Shape] = []
    for each in series:
        path: list[str] = []
        dots: list[tuple[float, float]] = []
        for run in _runs(each.values):
            points = [
                (_rounded(LEFT + slot * (index + 0.5)), _rounded(_y(each.values[index] or 0, scale))) for index in run
            ]
            if len(points) == 1:
                dots += points
            else:
                path.append("M" + "L".join(f"{x} {y}" for x, y in points))
        shapes.append(Shape(each.label, each.tone, each.column, "".join(path), dots))
    return _chart(id, title, unit, "lines", days, scale, shapes, _describe(days, series, unit))


def _chart(
    id: str,
    title: str,
    unit: str,
    kind: str,
    days: Sequence[date],
    scale: Sequence[float],
    shapes: Sequence[Shape],
    description: str,
) -> Chart:
    slot = _PLOT_WIDTH / max(1, len(days))
    y_ticks = [Tick(_rounded(_y(value, scale)), short(value)) for value in scale]
    x_ticks = [Tick(_rounded(LEFT + slot * (index + 0.5)), label) for index, label in date_labels(days)]
    return Chart(id, title, unit, description, kind, len(days), y_ticks, x_ticks, shapes)


def sparkline(values: Sequence[float]) -> str:
    """The SVG path of a line without axes, in a box of SPARK_WIDTH by SPARK_HEIGHT."""
    most, step = max(values) or 1, SPARK_WIDTH / max(1, len(values) - 1)
    points = [
        f"{_rounded(number * step):g} {_rounded((SPARK_HEIGHT - 2) * (1 - value / most) + 1):g}"
        for number, value in enumerate(values)
    ]
    return f"M{'L'.join(points)}"


def _y(value: float, scale: Sequence[float]) -> float:
    return TOP + _PLOT_HEIGHT * (1 - value / scale[-1])


def _rounded(value: float) -> float:
    return round(value, 1)


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """Return the indexes of consecutive values without gaps."""
    runs: list[list[int]] = []
    for index, value in enumerate(values):
        if value is None:
            continue
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _describe(days: Sequence[date], series: Sequence[Series], unit: str) -> str:
    """Describe the chart with one sentence for each series."""
    if not days:
        return ""
    timed = isinstance(days[0], datetime)
    full, at, by = ("%-d %B %Y, %H:%M", "at %-d %B, %H:%M", "") if timed else ("%-d %B %Y", "on %-d %B", ", by day")
    sentences = [f"{days[0]:{full}} to {days[-1]:{full}}{by}."]
    for each in series:
        values = [(value, index) for index, value in enumerate(each.values) if value is not None]
        if not values or not max(values)[0]:
            sentences.append(f"{each.label}: none.")
        else:
            maximum, index = max(values)
            peak = f"at most {maximum:g} {unit}, {days[index]:{at}}"
            sentences.append(f"{each.label}: {peak}; most recently {values[-1][0]:g}.")
    return " ".join(sentences)
