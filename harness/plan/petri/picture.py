"""A net as a picture (SVG): places are circles with their tokens, transitions bars, colours lanes below each other."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import Environment, PackageLoader, Template

from harness.plan.petri.layout import ABOVE, FOOT, Lane, Layout, Spot, lay_out
from harness.plan.petri.net import Net, Tokens

RADIUS, SMALL_RADIUS = 15, 9
DOT_RING = 6.2  # the radius of the circle on which several tokens are drawn
DOTS = 6  # at most; more tokens are a number
BAR_WIDTH, BAR_HEIGHT, SYNC_WIDTH = 7, 34, 34
LEGEND_HEIGHT = 40
CHARACTERS, SHORT = 19, 3  # of a name
CHARACTER_WIDTH, LABEL_SPACE = 6.4, 6  # between two labels
PALETTE = 8  # colours that the template has; further items begin again


@dataclass(frozen=True)
class Dot:
    """One token."""

    x: float
    y: float
    hue: int


@dataclass(frozen=True)
class Circle:
    """One place; `count` replaces its tokens if they are too many for dots."""

    name: str
    x: float
    y: float
    radius: float
    dots: tuple[Dot, ...]
    count: int
    final: bool

    @property
    def text(self) -> str:
        """Its name as far as it fits; a small one has room for a short name or none."""
        if self.radius == SMALL_RADIUS:
            return self.name if len(self.name) <= SHORT else ""
        return _short(self.name)


@dataclass(frozen=True)
class TransitionBox:
    """One transition; (x, y) is its middle; `is_close` if its label is between those of its places."""

    name: str
    label: str
    x: float
    y: float
    width: float
    height: float
    hue: int
    sync: bool
    is_close: bool = False

    @property
    def label_x(self) -> float:
        """The middle of the label; of a sync its end, as arcs to the next operation pass on the right."""
        return self.x + self.width / 2 if self.sync else self.x

    @property
    def label_y(self) -> float:
        """The height of the label: above a sync, directly below an operation if there is room between its places."""
        return self.y - 9 if self.sync else self.y + (30 if self.is_close else 43)

    @property
    def text(self) -> str:
        """The label of the transition, shortened to fit."""
        return _short(self.name if self.sync else self.label or self.name)


@dataclass(frozen=True)
class Wire:
    """One arc as an SVG path; `count` is drawn at (x, y) if it is more than 1."""

    path: str
    hue: int
    count: int
    x: float
    y: float


@dataclass(frozen=True)
class Picture:
    """All shapes of a net, in SVG units; `hues` are colours by name."""

    title: str
    width: float
    height: float
    lanes: tuple[Lane, ...]
    wires: tuple[Wire, ...]
    circles: tuple[Circle, ...]
    bars: tuple[TransitionBox, ...]
    hues: dict[str, int]


def svg(net: Net, hidden: Collection[str] = ()) -> str:
    """Return `net` and its initial marking as an SVG document, also for use in HTML, without the `hidden` places."""
    return template().render(picture=draw(net, hidden))


@cache
def template() -> Template:
    """Return the compiled template."""
    environment = Environment(
        loader=PackageLoader("harness.plan.petri", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("net.svg.jinja")


def draw(net: Net, hidden: Collection[str] = ()) -> Picture:
    """Return all shapes of `net`; `hidden` names places, such as parameters, that would only clutter it."""
    layout = lay_out(net, hidden)
    hues = _hues(net)
    circles = tuple(_circle(net, name, spot, hues) for name, spot in layout.places.items())
    bars = (_bar(net, index, spot, hues) for index, spot in layout.transitions.items())
    return Picture(
        title=net.name,
        width=layout.width,
        height=layout.height + LEGEND_HEIGHT,
        lanes=layout.lanes,
        wires=tuple(_wires(net, layout, hues)),
        circles=circles,
        bars=tuple(replace(bar, is_close=_fits_between(bar, circles)) for bar in bars),
        hues=hues,
    )


def _hues(net: Net) -> dict[str, int]:
    """Return the hue of every colour; 0 is for no colour."""
    named = [colour for colour in net.colours if colour]
    return {"": 0} | {colour: 1 + index % PALETTE for index, colour in enumerate(named)}


def _short(name: str) -> str:
    return name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…"


def _circle(net: Net, name: str, spot: Spot, hues: dict[str, int]) -> Circle:
    tokens = [hues[each.colour] for each in net.initial if each.place == name for _ in range(each.count)]
    radius = _radius(spot)
    ring = DOT_RING * radius / RADIUS if len(tokens) > 1 else 0
    turns = [2 * math.pi * index / len(tokens) for index in range(len(tokens))]
    dots = [
        Dot(spot.x - ring * math.cos(turn), spot.y + ring * math.sin(turn), hue)
        for turn, hue in zip(turns, tokens, strict=True)
    ]
    few = len(tokens) <= DOTS
    final = any(each.place == name for each in net.final)
    return Circle(name, spot.x, spot.y, radius, tuple(dots) if few else (), 0 if few else len(tokens), final)


def _bar(net: Net, index: int, spot: Spot, hues: dict[str, int]) -> TransitionBox:
    transition = net.transitions[index]
    size = (SYNC_WIDTH, BAR_WIDTH) if spot.above else (BAR_WIDTH, BAR_HEIGHT)
    return TransitionBox(
        transition.name, transition.label, spot.x, spot.y, *size, hues[transition.colour], transition.sync
    )


def _fits_between(bar: TransitionBox, circles: Sequence[Circle]) -> bool:
    """Return whether the label of an operation fits between those of the places of its row."""
    row = [circle for circle in circles if circle.y == bar.y and circle.radius == RADIUS]
    reach = [CHARACTER_WIDTH * (len(bar.text) + len(circle.text)) / 2 + LABEL_SPACE for circle in row]
    return all(abs(circle.x - bar.x) >= least for circle, least in zip(row, reach, strict=True))


def _radius(spot: Spot) -> float:
    return SMALL_RADIUS if spot.above else RADIUS


def _wires(net: Net, layout: Layout, hues: dict[str, int]) -> Iterator[Wire]:
    for index, spot in layout.transitions.items():
        transition = net.transitions[index]
        arcs = [(tokens, True) for tokens in transition.consumes] + [(tokens, False) for tokens in transition.produces]
        drawn = [(tokens, taken) for tokens, taken in arcs if tokens.place in layout.places]
        for number, (tokens, taken) in enumerate(drawn):
            place = layout.places[tokens.place]
            hue = hues[tokens.colour]
            if transition.sync and place.y == spot.y:
                yield _beside(place, spot, tokens, hue)
            elif transition.sync:
                yield _upright(place, spot, (number - (len(drawn) - 1) / 2) * 9, tokens, hue, up=taken)
            elif taken:
                yield _into(place, spot, tokens, hue, layout.step)
            else:
                yield _out_of(spot, place, tokens, hue)


def _beside(place: Spot, sync: Spot, tokens: Tokens, hue: int) -> Wire:
    """Return the wire from a small place to the sync on its right."""
    x1, x2 = place.x + SMALL_RADIUS, sync.x - SYNC_WIDTH / 2
    return Wire(f"M{x1:g} {place.y:g}H{x2:g}", hue, tokens.count, x1, place.y - 5)


def _upright(place: Spot, sync: Spot, aside: float, tokens: Tokens, hue: int, *, up: bool) -> Wire:
    """Return the wire between a place and the sync above it."""
    x = sync.x + aside
    bottom = place.y - math.sqrt(max(_radius(place) ** 2 - (x - place.x) ** 2, 0))
    top = sync.y + BAR_WIDTH / 2
    ends = (bottom, top) if up else (top, bottom)
    return Wire(f"M{x:g} {ends[0]:g}V{ends[1]:g}", hue, tokens.count, x + 4, (top + bottom) / 2)


def _out_of(operation: Spot, place: Spot, tokens: Tokens, hue: int) -> Wire:
    x1, x2 = operation.x + BAR_WIDTH / 2, place.x - RADIUS
    return Wire(f"M{x1:g} {operation.y:g}L{x2:g} {place.y:g}", hue, tokens.count, (x1 + x2) / 2 - 6, place.y - 5)


def _into(place: Spot, operation: Spot, tokens: Tokens, hue: int, step: float) -> Wire:
    """Return the wire: straight, bent, or around the objects between its ends."""
    if place.above and abs(place.x - operation.x) < step / 2:
        return _down(place, operation, tokens, hue)
    x1, x2 = place.x + _radius(place), operation.x - BAR_WIDTH / 2
    if place.y == operation.y and x2 - x1 < step:
        return Wire(f"M{x1:g} {place.y:g}H{x2:g}", hue, tokens.count, (x1 + x2) / 2, place.y - 5)
    if x2 - x1 < step:
        return _bend(x1, place.y, x2, operation.y, tokens, hue)
    return _around(x1, place.y, x2, operation.y, tokens, hue, step)


def _down(place: Spot, operation: Spot, tokens: Tokens, hue: int) -> Wire:
    """Return the wire from a place above; it passes around operations between the two."""
    aside = place.x - operation.x
    x, y = operation.x + aside / 12, operation.y - BAR_HEIGHT / 2
    if operation.y - place.y == ABOVE:
        return Wire(f"M{place.x:g} {place.y + SMALL_RADIUS:g}L{x:g} {y:g}", hue, tokens.count, place.x + 5, y - 8)
    side = -1 if aside < 0 else 1
    bow = f"C{place.x + side * 40:g} {place.y + 20:g} {place.x + side * 20:g} {y - 40:g} {x:g} {y:g}"
    return Wire(f"M{place.x + side * SMALL_RADIUS:g} {place.y:g}{bow}", hue, tokens.count, x + side * 12, y - 14)


def _bend(x1: float, y1: float, x2: float, y2: float, tokens: Tokens, hue: int) -> Wire:
    middle = (x1 + x2) / 2
    return Wire(f"M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}", hue, tokens.count, x2 - 17, y2 - 6)


def _around(x1: float, y1: float, x2: float, y2: float, tokens: Tokens, hue: int, step: float) -> Wire:
    """Return the wire along the bottom of the operation's row, which is empty."""
    foot = y2 + FOOT - 6
    begin, end = x1 + step / 2 - RADIUS, x2 - step / 2 + RADIUS
    out = f"C{begin - 20:g} {y1:g} {begin - 30:g} {foot:g} {begin:g} {foot:g}"
    back = f"C{end + 30:g} {foot:g} {end + 20:g} {y2:g} {x2:g} {y2:g}"
    return Wire(f"M{x1:g} {y1:g}{out}H{end:g}{back}", hue, tokens.count, x2 - 17, y2 - 6)
