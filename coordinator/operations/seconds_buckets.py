"""The bounds by which firn counts how long things take: in its metrics, and in what daemons tell each other."""

from __future__ import annotations

from typing import Final

SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
