"""Vectors in which the windows of a convolution differ, so that few of them show what a proof asks of every sum.

Lone codes.  Places of an image that no window has both of are tried at the same time, each with a channel and code of
its own; all other values are at the zero point.

Pairs of codes.  The m-sequence s over GF(256) repeats after 65,535 codes.  At any two of its places whose distance is
no multiple of 257 it has every pair of codes but (0, 0), once each.  Value (channel c, row y, column x) of image n is
s[n + of_channel[c] + of_row * y + x], so the window at another position holds what the first window holds in another
image: the images of few n have, somewhere, every pair of codes of any two values of a window.  Values whose places have
a distance that is a multiple of 257 get other distances in another arrangement.

Groups of channels have the same vectors, each in another order, so that a value of another group is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import orthogonal_array
from harness.operators.window import Window

CODES = 256
PERIOD = CODES * CODES - 1
POINTS = 257
TAPS = 1, 33  # s[n + 2] = 1 * s[n + 1] + 33 * s[n] in GF(256): x^2 + x + 33 is primitive
MOST_ARRANGEMENTS = 8
ORDER = 1009  # places between the vectors of a group and of the next one

Integers = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Distances in the sequence: of the channels of a group from the first one, and of a row from the one before."""

    of_channel: Integers
    of_row: int


@dataclass(frozen=True, eq=False)
class WindowVectors:
    """The vectors of a convolution of images with so many channels in all; a sum has those of one group."""

    window: Window
    channels: int
    groups: int

    @property
    def size(self) -> int:
        """The number of values of a vector."""
        return self.channels * self._image

    @property
    def _image(self) -> int:
        return self.window.shape[0] * self.window.shape[1]

    # Lone codes

    @cached_property
    def lone_vectors(self) -> int:
        """The number of vectors of `lone_codes`."""
        return sum(-(-self._rows // len(places)) for places in self._lone_places)

    def lone_codes(self, zero_point: int, dtype: np.dtype[Any], at_once: int) -> Iterator[Array]:
        """Yield at most `at_once` vectors (n, size) together.

        For each input of a sum and each code, some sum has this code there and otherwise the zero point; a sum without
        values outside the image, if there is one.  An input that is outside at every position has no code.
        """
        for places in self._lone_places:
            count = -(-self._rows // len(places))
            for first in range(0, count, at_once):
                vectors = np.arange(first, min(first + at_once, count))[:, None]
                of_group = ORDER * np.arange(self.groups)[:, None]
                row = (vectors * len(places) + np.arange(len(places)))[:, None] + of_group
                channel, code = np.divmod(row % self._rows, CODES)  # (n, groups, places)
                images = np.full((len(vectors), self.groups, self._channels, self._image), zero_point, dtype)
                vector, group = np.ogrid[: len(vectors), : self.groups]
                images[vector[..., None], group[..., None], channel, places] = code.astype(np.uint8).view(dtype)
                yield images.reshape(len(vectors), -1)

    @property
    def _channels(self) -> int:
        return self.channels // self.groups

    @property
    def _rows(self) -> int:
        return self._channels * CODES

    @cached_property
    def _lone_places(self) -> list[Integers]:
        """Sets of places of an image: no window has two of a set; together they have each place of the kernel."""
        rows, columns = (list(self._tracks(axis)) for axis in (0, 1))
        width = self.window.shape[1]
        return [(row[:, None] * width + column).reshape(-1) for row in rows for column in columns]

    def _tracks(self, axis: int) -> Iterator[Integers]:
        """Yield rows or columns that no window has two of, and which windows have at the same places of the kernel."""
        window, kernel = self.window, np.arange(self.window.kernel[axis])
        begin = np.arange(window.shape[axis])[:, None] + window.before[axis] - kernel * window.dilation[axis]
        number, rest = np.divmod(begin, window.stride[axis])
        first, count = self._whole[axis]
        if not count:
            first, count = 0, window.output[axis]
        seen = (rest == 0) & (number >= first) & (number < first + count)  # (size, kernel)
        missing = seen.any(axis=0)
        while missing.any():
            best = seen[np.argmax((seen & missing).sum(axis=1))]
            track: list[int] = []
            for place in np.flatnonzero((seen == best).all(axis=1)).tolist():
                if not track or place - track[-1] >= self._extent(axis):
                    track.append(place)
            yield np.array(track)
            missing &= ~best

    # Pairs of codes

    @cached_property
    def pair_vectors(self) -> int:
        """The number of vectors of `pairs`; 0 if no sum has all its terms, or the kernel is too wide."""
        return sum(len(self._numbers(arrangement)) for arrangement in self._arrangements) + bool(self._arrangements)

    def pairs(self, dtype: np.dtype[Any], at_once: int) -> Iterator[Array]:
        """Yield at most `at_once` vectors (n, size) together; any two inputs of a sum have all pairs of codes."""
        if self._arrangements:
            yield np.zeros((1, self.size), dtype)  # the pair (0, 0)
        for arrangement in self._arrangements:
            height, width = self.window.shape
            places = arrangement.of_row * np.arange(height)[:, None] + np.arange(width)
            of_group = ORDER * np.arange(self.groups)[:, None, None]
            distances = of_group + arrangement.of_channel[:, None] + places.reshape(-1)  # (groups, channels, image)
            numbers = self._numbers(arrangement)
            for first in range(0, len(numbers), at_once):
                part = numbers[first : first + at_once]
                images = _sequence()[(part[:, None, None, None] + distances) % PERIOD]
                yield images.reshape(len(part), -1).view(dtype)

    def _extent(self, axis: int) -> int:
        return (self.window.kernel[axis] - 1) * self.window.dilation[axis] + 1

    @cached_property
    def _whole(self) -> list[tuple[int, int]]:
        """Along each axis the first window that is within the image, and the number of these windows."""
        window, found = self.window, []
        for axis in (0, 1):
            before, stride = window.before[axis], window.stride[axis]
            first, last = -(-before // stride), (window.shape[axis] - self._extent(axis) + before) // stride
            found.append((first, max(min(last, window.output[axis] - 1) + 1 - first, 0)))
        return found

    def _numbers(self, arrangement: Arrangement) -> Integers:
        """Return the numbers of images in whose whole windows the sequence begins at each of its places."""
        ((_, rows), (_, columns)), stride = self._whole, self.window.stride
        row = arrangement.of_row * stride[0] * np.arange(rows)[:, None]
        begins = (row + stride[1] * np.arange(columns)).reshape(-1)
        covered, found = np.zeros(PERIOD, np.bool_), []
        for number in range(PERIOD):
            if not covered[number]:
                found.append(number)
                covered[(number + begins) % PERIOD] = True
        return np.array(found)

    @cached_property
    def _arrangements(self) -> tuple[Arrangement, ...]:
        """Arrangements in one of which the distance of any two values of a window is no multiple of 257."""
        (_, rows), (_, columns) = self._whole
        if not rows or not columns:
            return ()
        window, size = self.window, self.window.size
        # The windows of a row of positions, then those of the next one, begin one after the other in the sequence.
        least = max(-(-window.stride[1] * columns // window.stride[0]), -(-self._extent(1) // window.dilation[0]))
        span = self._in_kernel(least).max() + 1
        apart = span if span * self._channels <= POINTS else size
        found = [Arrangement(np.arange(self._channels) * apart, least)]
        first, second = _equal(self._points(found[0]))
        while len(first):
            if len(found) == MOST_ARRANGEMENTS:
                return ()
            found.append(self._apart(first, second, least))
            points = self._points(found[-1])
            left = points[first] == points[second]
            first, second = first[left], second[left]
        return tuple(found)

    def _points(self, arrangement: Arrangement) -> Integers:
        """Return the places of a window's values in the sequence, modulo 257: (channels of a group * kernel size,)."""
        points = arrangement.of_channel[:, None] + self._in_kernel(arrangement.of_row)
        return points.reshape(-1) % POINTS

    def _in_kernel(self, of_row: int) -> Integers:
        (rows, columns), dilation = self.window.kernel, self.window.dilation
        row = of_row * dilation[0] * np.arange(rows)[:, None]
        return (row + dilation[1] * np.arange(columns)).reshape(-1)

    def _apart(self, first: Integers, second: Integers, least: int) -> Arrangement:
        """Return the arrangement in which few of these pairs of a window's values have equal points.

        The distance of rows is the best for values of one channel; then each channel is moved away from those before.
        """
        size = self.window.size
        (channel, place), (other, of_other) = np.divmod(second, size), np.divmod(first, size)
        alone = channel == other

        def equal(of_row: int) -> int:
            points = self._in_kernel(of_row) % POINTS
            return int((points[place[alone]] == points[of_other[alone]]).sum())

        of_row = min(range(least, least + POINTS), key=equal)
        points, of_channel = self._in_kernel(of_row), np.zeros(self._channels, np.intp)
        for each in range(self._channels):
            wanted = (channel == each) & ~alone
            taken = of_channel[other[wanted]] + points[of_other[wanted]] - points[place[wanted]]
            of_channel[each] = np.bincount(taken % POINTS, minlength=POINTS).argmin()
        return Arrangement(of_channel, of_row)


def _equal(points: Integers) -> tuple[Integers, Integers]:
    """Return the numbers of all pairs of equal points, the lower ones first."""
    pairs = [np.zeros((2, 0), np.intp)]
    for point in np.unique(points):
        alike = np.flatnonzero(points == point)
        pairs.append(alike[np.stack(np.triu_indices(len(alike), 1))])
    first, second = np.concatenate(pairs, axis=1)
    return first, second


@cache
def _sequence() -> npt.NDArray[np.uint8]:
    """Return the m-sequence, uint8 (65535,)."""
    products, found = orthogonal_array.products(), [0, 1]
    near, far = (products[tap].tolist() for tap in TAPS)
    while len(found) < PERIOD:
        found.append(near[found[-1]] ^ far[found[-2]])
    return np.array(found, np.uint8)
