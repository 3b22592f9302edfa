"""Bar and line charts as SVG text: no package, nothing fetched by a reader.

Colours are those that read on a light and on a dark page.
"""

import html
import math

COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7", "#ef4444")
WIDTH, LEFT, RIGHT, TOP, PLOT = 820, 64, 16, 74, 250


def _ticks(top):
    """About five round numbers from 0 to at least `top`."""
    rough = top / 5 or 1
    power = 10 ** math.floor(math.log10(rough))
    step = next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough) * power
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(x, y, words, anchor="middle", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>'
            f"{html.escape(str(words))}</text>")


def _frame(title, unit, series, below, body, label):
    height = TOP + PLOT + below
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" aria-label="{html.escape(label)}">',
        "<style>text{fill:#888;font:12px system-ui,sans-serif}"
        ".title{font-weight:600;font-size:14px}.small{font-size:10px}"
        ".grid{stroke:#8884;stroke-width:1}.line{fill:none;stroke-width:2}"
        "</style>",
        _text(LEFT, 20, title, "start", ' class="title"'),
        _text(LEFT, 54, unit, "start"),
    ]
    x = LEFT
    for i, name in enumerate(series):
        parts.append(f'<rect x="{x}" y="30" width="10" height="10"'
                     f' fill="{COLOURS[i]}"/>')
        parts.append(_text(x + 15, 39, name, "start"))
        x += 34 + 7 * len(name)
    return "\n".join([*parts, *body, "</svg>", ""])


def _grid(ticks):
    top = ticks[-1]
    for value in ticks:
        y = TOP + PLOT * (1 - value / top)
        yield (f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}"'
               f' y1="{y:.1f}" y2="{y:.1f}"/>')
        yield _text(LEFT - 6, y + 4, _number(value), "end")


def bars(title, unit, series, groups, marks=None):
    """Groups of bars: {group name: [a value a series, None for none]}.

    A newline in a group's name starts a second line. `marks` are values of the
    groups that a short line shows, with their name: (name, [values]).
    """
    values = [v for row in groups.values() for v in row if v is not None]
    values += [v for v in (marks[1] if marks else []) if v is not None]
    ticks = _ticks(max(values))
    body = list(_grid(ticks))
    slot = (WIDTH - LEFT - RIGHT) / len(groups)
    wide = min(34.0, slot * 0.8 / len(series))
    for g, (name, row) in enumerate(groups.items()):
        middle = LEFT + slot * (g + 0.5)
        x = middle - wide * len(series) / 2
        for i, value in enumerate(row):
            if value is not None:
                tall = PLOT * value / ticks[-1]
                y = TOP + PLOT - tall
                body.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - 1:.1f}"'
                    f' height="{tall:.1f}" fill="{COLOURS[i]}"><title>'
                    f"{html.escape(name)}, {html.escape(series[i])}: {value:.4g}"
                    "</title></rect>")
                body.append(_text(x + wide / 2, y - 3, _number(value),
                                  extra=' class="small"'))
            x += wide
        if marks and marks[1][g] is not None:
            y = TOP + PLOT * (1 - marks[1][g] / ticks[-1])
            body.append(f'<line x1="{middle - slot * .45:.1f}"'
                        f' x2="{middle + slot * .45:.1f}" y1="{y:.1f}"'
                        f' y2="{y:.1f}" stroke="#888" stroke-dasharray="4 3"/>')
        for line, words in enumerate(name.split("\n")):
            body.append(_text(middle, TOP + PLOT + 18 + 14 * line, words))
    lines = max(name.count("\n") for name in groups) + 1
    if marks:
        unit += f"; dashed: {marks[0]}"
    return _frame(title, unit, series, 14 + 14 * lines, body, title)


def lines(title, unit, series, xs, below):
    """A line a series over `xs`, to scale: {name: [values]}; `below` names x."""
    ticks = _ticks(max(v for row in series.values() for v in row))
    body = list(_grid(ticks))
    place = [LEFT + (WIDTH - LEFT - RIGHT - 30) * x / max(xs) for x in xs]
    last = 0
    for x, name in zip(place, xs):
        if x - last > 50:
            body.append(_text(x, TOP + PLOT + 18, f"{name:,}"))
            last = x
    body.append(_text((place[0] + place[-1]) / 2, TOP + PLOT + 36, below))
    for i, (name, row) in enumerate(series.items()):
        at = [(x, TOP + PLOT * (1 - v / ticks[-1])) for x, v in zip(place, row)]
        body.append(f'<polyline class="line" stroke="{COLOURS[i]}" points="'
                    + " ".join(f"{x:.1f},{y:.1f}" for x, y in at) + '"/>')
        for (x, y), value in zip(at, row):
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"'
                        f' fill="{COLOURS[i]}"><title>{html.escape(name)}:'
                        f" {value:.4g}</title></circle>")
    return _frame(title, unit, list(series), 50, body, title)
