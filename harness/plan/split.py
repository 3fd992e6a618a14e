"""Distribution of a network over the items of a board: the words of `--split` and of a profile's `split`.

Each word is one choice; later ones override earlier ones for the layers that they name.

    LAYER=ITEM            offload: this layer on that item
    FIRST..LAST=ITEM      offload: these layers, in the order of the model
    LAYER=ITEM+ITEM       parallel layer: its channels or columns, as evenly as can be; also of a range
    LAYER=ITEM+ITEM:rows  parallel layer: the rows of all its channels
    parallel=ITEM+ITEM    parallel layer: every layer with weights that has enough channels; with `:rows` enough rows
    branches=ITEM+ITEM    branches: layers that read the same tensor are assigned to different items
    pipeline              pipeline: an item works on one execution while the next item works on the one before

`parallel` and `branches` alone take all items of the board.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from harness.core.errors import RequestError, unknown_name
from harness.core.text import plural
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.region import WAYS, Region, Way
from harness.operators.traits import Trait

PIPELINE, PARALLEL, BRANCHES = "pipeline", "parallel", "branches"
FORMS = (
    "LAYER=ITEM, FIRST..LAST=ITEM, LAYER=ITEM+ITEM[:rows], parallel[=ITEM+...[:rows]], branches[=ITEM+...], pipeline"
)


@dataclass(frozen=True)
class Share:
    """Columns `start` to `stop` of each of `runs` runs of a layer's columns, for the item with this index."""

    item: int
    start: int
    stop: int
    runs: int = 1

    @classmethod
    def of(cls, item: int, region: Region) -> Share:
        """Return the share of a region."""
        return cls(item, region.start, region.stop, region.runs)


@dataclass(frozen=True)
class Split:
    """The layers whose items are chosen, by index, with the shares of each; whether executions are pipelined."""

    shares: dict[int, tuple[Share, ...]]
    pipeline: bool


def parse(words: Sequence[str], network: Network, items: Sequence[str]) -> Split:
    """Return the split of these words; raise RequestError for unknown words, and for a split that is not possible."""
    shares: dict[int, tuple[Share, ...]] = {}
    for word in words:
        if word != PIPELINE:
            shares |= _choice(word, network, items)
    named = [name for word in words for name in _named(word)]
    _require_work(named, shares, items, words)
    return Split(shares, PIPELINE in words)


def _choice(word: str, network: Network, items: Sequence[str]) -> dict[int, tuple[Share, ...]]:
    what, who, way = _parts(word)
    by: Way = way if way in WAYS else WAYS[0]
    chosen = [_item(word, name, items) for name in who.split("+")] if who else list(range(len(items)))
    _require_distinct(word, chosen, items)
    if way and len(chosen) < 2:
        raise RequestError(
            f"split {word}: {way} for {items[chosen[0]]} alone", f"name two items or more: ITEM+ITEM:{way}"
        )
    if what in {PARALLEL, BRANCHES} and len(chosen) < 2:
        raise RequestError(
            f"split {word}: there is only {items[chosen[0]]} to split over", "it takes two items or more"
        )
    if what == PARALLEL:
        return _parallel(word, network, chosen, by)
    if what == BRANCHES:
        return _branches(word, network, chosen)
    return {index: _even(word, network.layers[index], chosen, by) for index in _range(word, what, network)}


def _parts(word: str) -> tuple[str, str, str]:
    """Return the layers, the items and the way of a part of --split; items and way are empty if it has none."""
    what, separator, rest = word.partition("=")
    who, colon, way = rest.partition(":")
    if not what or (separator and not who) or not (separator or what in {PARALLEL, BRANCHES}):
        _refuse_form(word)
    if colon and (way not in WAYS or what == BRANCHES):
        raise RequestError(
            f"split {word}: no layer is divided by {way!r}", f"by {' or '.join(WAYS)}: LAYER=ITEM+ITEM:rows"
        )
    return what, who, way


def _refuse_form(word: str) -> NoReturn:
    raise RequestError(f"split {word!r}: says nothing", f"the forms, with commas and no blanks: {FORMS}")


def _named(word: str) -> list[str]:
    return [name for name in word.partition("=")[2].partition(":")[0].split("+") if name]


def _item(word: str, name: str, items: Sequence[str]) -> int:
    if name not in items:
        unknown = unknown_name("item", name, items)
        raise RequestError(f"split {word}: {unknown.message}", unknown.hint)
    return items.index(name)


def _require_distinct(word: str, chosen: Sequence[int], items: Sequence[str]) -> None:
    for item in chosen:
        if chosen.count(item) > 1:
            raise RequestError(f"split {word}: item {items[item]} is named twice", "name each item once")


def _range(word: str, what: str, network: Network) -> range:
    """Return the layers of LAYER or FIRST..LAST."""
    names = [layer.name for layer in network.layers]
    first, dots, last = what.partition("..")
    if dots and not (first and last):
        _refuse_form(word)
    for name in (first, last) if dots else (first,):
        if name not in names:
            unknown = unknown_name("layer", name, names)
            raise RequestError(f"split {word}: {unknown.message}", unknown.hint)
    found = range(names.index(first), names.index(last if dots else first) + 1)
    if not found:
        raise RequestError(f"split {word}: {last} comes before {first} in the model", f"write {last}..{first}")
    return found


def _even(word: str, layer: Layer, chosen: Sequence[int], way: Way) -> tuple[Share, ...]:
    """Return a layer for each of the items, its channels or rows as evenly as can be."""
    count = len(chosen)
    if count == 1:
        return (Share(chosen[0], 0, layer.size),)
    pieces = layer.division.pieces(way)
    if pieces is None or count > pieces.count:
        others = any(layer.division.pieces(other) for other in WAYS)
        cannot = f"cannot be split by {way}" if others else "cannot be split"
        few = f"has {_counted(layer, way)}, too few for {count} items"
        raise RequestError(
            f"split {word}: layer {layer.name} ({layer.operator}) {few if pieces else cannot}",
            f"possible: {'; '.join(_choices(layer))}",
        )
    edges = [pieces.count * part // count for part in range(count + 1)]
    regions = (pieces.region(*edges[part : part + 2]) for part in range(count))
    return tuple(Share.of(item, region) for item, region in zip(chosen, regions, strict=True))


def _counted(layer: Layer, way: Way) -> str:
    """Return the number of pieces of a layer with their noun; empty if it cannot be divided in this way."""
    pieces, (first, *others) = layer.division.pieces(way), layer.output.shape
    if pieces is None:
        return ""
    if way == "rows":
        return plural(pieces.count, "row")
    if pieces.count < first:
        return plural(pieces.count, "group of channels", "groups of channels")
    return plural(pieces.count, "channel" if others else "column")


def _choices(layer: Layer) -> Iterator[str]:
    """Yield the ways to assign a layer to items."""
    yield f"{layer.name}=ITEM"
    for way in WAYS:
        pieces = layer.division.pieces(way)
        if pieces and pieces.count > 1:
            suffix = "" if way == WAYS[0] else f":{way}"
            yield f"{layer.name}=ITEM+ITEM{suffix} for {_counted(layer, way)}"


def _parallel(word: str, network: Network, chosen: Sequence[int], way: Way) -> dict[int, tuple[Share, ...]]:
    wide = {
        index: _even(word, layer, chosen, way)
        for index, layer in enumerate(network.layers)
        if Trait.SUMS in layer.traits and (pieces := layer.division.pieces(way)) and pieces.count >= len(chosen)
    }
    if not wide:
        raise RequestError(
            f"split {word}: no layer of {network.name} can be split over {len(chosen)} items",
            f"name fewer items: each needs a {'row' if way == 'rows' else 'channel or column'} at least",
        )
    return wide


def _branches(word: str, network: Network, chosen: Sequence[int]) -> dict[int, tuple[Share, ...]]:
    """Return the item of each layer: that of its first source, unless another reader of that source has it already.

    Then the layer gets the item with the fewest layers so far, the first of them in the order given.
    """
    lanes: dict[str, int] = {tensor.name: chosen[0] for tensor in network.inputs}
    continued: set[str] = set()
    work = dict.fromkeys(chosen, 0)
    shares: dict[int, tuple[Share, ...]] = {}
    for index, layer in enumerate(network.layers):
        source = layer.sources[0]
        item = lanes[source] if source not in continued else min(chosen, key=lambda choice: work[choice])
        if source in continued and item == lanes[source]:
            item = min((other for other in chosen if other != item), key=lambda choice: work[choice], default=item)
        continued.add(source)
        lanes[layer.output.name] = item
        work[item] += 1
        shares[index] = (Share(item, 0, layer.size),)
    if len({share[0].item for share in shares.values()}) < 2:
        raise RequestError(
            f"split {word}: {network.name} has no parallel branches for {len(chosen)} items",
            "no two of its layers read the same tensor; see --split pipeline and parallel",
        )
    return shares


def _require_work(
    named: Sequence[str], shares: dict[int, tuple[Share, ...]], items: Sequence[str], words: Sequence[str]
) -> None:
    """Require that every item that the split names gets a layer."""
    busy = {items[share.item] for parts in shares.values() for share in parts}
    idle = [name for name in named if name not in busy]
    if idle:
        raise RequestError(
            f"split {','.join(words)}: item {idle[0]} is left without work", "leave it out, or give it a layer"
        )
