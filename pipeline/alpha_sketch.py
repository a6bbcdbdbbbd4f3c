"""The Alpha sketch of the DataSketches library: what Iceberg's Spark action makes of a column in each task.

Up to 4096 values it keeps the hash of each. From then on its theta shrinks with every new value that is below it, so
that what it ends with depends on the order of values. Those that it has kept below its theta, sorted, are its compact
form, from which sketches of several tasks are united (`ThetaSketch.union`).
"""

from __future__ import annotations

from typing import Final

from firn.pipeline.value_hashes import Hashes
from firn.storage.theta import NOMINAL_ENTRIES, THETA_MAX, ThetaSketch

ALPHA: Final = NOMINAL_ENTRIES / (NOMINAL_ENTRIES + 1.0)
CHUNK: Final = 4096
"""Hashes that are compared with theta at once before those below it are looked at one by one."""

KEPT_MAX: Final = 8 * NOMINAL_ENTRIES


class AlphaSketch:
    """A sketch that takes hashes in the order of their values. Repetitions may come."""

    def __init__(self) -> None:
        self._theta = THETA_MAX
        self._kept: set[int] = set()

    def update(self, hashes: Hashes) -> None:
        """Take hashes of values; 0 is none."""
        for start in range(0, len(hashes), CHUNK):
            chunk = hashes[start : start + CHUNK]
            for hashed in chunk[(chunk < self._theta) & (chunk > 0)].tolist():
                self._take(hashed)

    def compact(self) -> ThetaSketch:
        """What it has kept."""
        return ThetaSketch(tuple(sorted(one for one in self._kept if one < self._theta)), self._theta)

    def _take(self, hashed: int) -> None:
        if hashed >= self._theta or hashed in self._kept:
            return
        self._kept.add(hashed)
        if len(self._kept) <= NOMINAL_ENTRIES and self._theta == THETA_MAX:
            return
        # As the library has it: a product of doubles, cut to an integer.
        self._theta = int(self._theta * ALPHA)
        if len(self._kept) > KEPT_MAX:
            self._kept = {one for one in self._kept if one < self._theta}
