"""The program that lists live files of manifests (`firn.storage.path_walkers`): requests come in, lists go out."""

from __future__ import annotations

import signal
import sys
from typing import Final

import msgspec

from firn.model.errors import FirnError
from firn.model.manifest import ManifestFile
from firn.storage.manifest_paths import live_paths
from firn.storage.pipe_messages import put, take

_ROWS: Final = msgspec.msgpack.Decoder(list[ManifestFile])
_ENCODER: Final = msgspec.msgpack.Encoder()


def main() -> None:
    """Answer until whoever asks has ended."""
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the daemon, too, which ends this
        signal.signal(ignored, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (asked := take(requests)) is not None:
        put(answers, _ENCODER.encode([_paths(take(requests) or b"", row) for row in _ROWS.decode(asked)]))


def _paths(data: bytes, manifest: ManifestFile) -> list[str] | None:
    try:
        return live_paths(data, manifest=manifest)
    except FirnError:
        return None


if __name__ == "__main__":
    main()
