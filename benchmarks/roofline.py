"""The roofline of float networks: operations a byte of weights against operations a nanosecond.

    for name in lenet5 cifarnet; do .venv/bin/python benchmarks/run_peers.py --network $name --json > $name.json; done
    .venv/bin/python benchmarks/roofline.py lenet5.json cifarnet.json --picture roofline.svg

A multiply-add is two operations.  A point is a contender, at the minimum of its times.  The horizontal lines are the
peaks of this core, the slopes the rates at which it reads the weights of two networks.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from harness.report.chart import Axis, Chart, Key, Mark, Shape, line, number

WIDTH, HEIGHT = 560, 380
LABEL_HEIGHT = 13
Document = Mapping[str, Any]  # of run_peers.py --json


def intensity(document: Document) -> float:
    """Return the operations of an inference for each byte of its weights."""
    return 2 * float(document["multiply_adds"]) / float(document["weight_bytes"])


def roofs(documents: Sequence[Document], x: Axis, y: Axis) -> Iterator[tuple[Shape, Mark]]:
    """Yield the peaks of the core, and the least and the greatest rate of bytes."""
    *peaks, _ = [
        (bound, 2 * documents[0]["multiply_adds"] / bound["ns"]) for bound in documents[0]["bounds"] if bound["ns"]
    ]
    for index, (bound, peak) in enumerate(peaks):
        text = f"{peak:.0f}: {bound['rate'].split(', ', 1)[1]}"
        path = line([(0, y.at(peak)), (WIDTH, y.at(peak))])
        yield Shape("bound", path, text), Mark(WIDTH - 4, text, y.at(peak) - 5 - LABEL_HEIGHT * index, "end", "bound")
    rates = sorted((each["weight_bytes"] / each["bounds"][-1]["ns"], each["shape"]) for each in documents)
    highest = max(peak for _, peak in peaks)
    for rate, name in dict.fromkeys((rates[0], rates[-1])):
        ends = [max(x.low, y.low / rate), highest / rate]
        text = f"{rate:.0f} bytes a ns"
        path = line((x.at(end), y.at(end * rate)) for end in ends)
        yield (
            Shape("bound", path, f"{text}: weights of {name}"),
            Mark(x.at(ends[0]) + 8, text, y.at(ends[0] * rate) - 8, "start", "bound"),
        )


def points(documents: Sequence[Document], x: Axis, y: Axis) -> Iterator[tuple[Shape, Mark | None]]:
    """Yield a dot of every contender, and the network's name beside the fastest of harness; names do not overlap."""
    lowest: dict[float, float] = {}
    for document in sorted(documents, key=lambda each: max((rate_of(each, row) for row in ours(each)), default=0)):
        at = x.at(intensity(document))
        for row in [*(row for row in document["results"] if row["times"] and not row["is_ours"]), *ours(document)]:
            height, about = y.at(rate_of(document, row)), f"{document['shape']}, {row['name']}"
            mark = None
            if row in ours(document)[:1]:
                lowest[at] = min(height + 4, lowest.get(at, HEIGHT) - LABEL_HEIGHT)
                mark = Mark(at + 9, document["shape"], lowest[at], "start", "ours")
            kind = "ours dot" if row["is_ours"] else "peer dot"
            yield Shape(kind, f"M{number(at)} {number(height)}h0.1", f"{about}: {rate_of(document, row):.3g}"), mark


def ours(document: Document) -> list[Mapping[str, Any]]:
    """Return the rows of harness that have times, the fastest first, as they are in the document."""
    return [row for row in document["results"] if row["is_ours"] and row["times"]]


def rate_of(document: Document, row: Mapping[str, Any]) -> float:
    """Return the operations a nanosecond of a contender."""
    return 2 * float(document["multiply_adds"]) / float(row["times"]["minimum_ns"])


def draw(documents: Sequence[Document]) -> Chart:
    """Draw all networks, which must have been measured on the same core."""
    rates = [rate_of(each, row) for each in documents for row in each["results"] if row["times"]]
    peaks = [
        2 * each["multiply_adds"] / bound["ns"] for each in documents for bound in each["bounds"][:-1] if bound["ns"]
    ]
    intensities = [intensity(each) for each in documents]
    x = Axis("operations a byte of weights", min(intensities) / 8, max(intensities) * 4, 0, WIDTH, logarithmic=True)
    y = Axis("operations a ns", min(rates) / 2, max(peaks) * 2, HEIGHT, 0, logarithmic=True)
    drawn = [*roofs(documents, x, y), *points(documents, x, y)]
    machine = documents[0]["machine"]
    return Chart(
        "Roofline of float networks: one vector, one thread, one core",
        ", ".join(document["shape"] for document in documents),
        x,
        y,
        tuple(shape for shape, _ in drawn),
        (Key("ours", "harness"), Key("peer", "peers"), Key("bound", "bounds of the core")),
        tuple(mark for _, mark in drawn if mark),
        plot_width=WIDTH,
        plot_height=HEIGHT,
        bottom=68,
        caption=f"{machine['processor']}, load averages before {machine['load']}, {machine['date']}",
    )


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--picture", required=True, type=click.Path(path_type=Path), help="Write the picture to this SVG file.")
def main(files: Sequence[Path], picture: Path) -> None:
    """Read the documents and write the picture."""
    picture.write_text(draw([json.loads(file.read_text()) for file in files]).svg())


if __name__ == "__main__":
    main()
