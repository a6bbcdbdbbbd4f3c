"""What threads of this process are at, for people who wait for them.

A call that hangs in a store cannot be ended, only named. It is found where it stands, in the frames of its thread, so
that the millions of calls that do not hang need not be written down.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec

OURS: Final = "firn."
STORES: Final = "firn.storage."

PLACES: Final = ("location", "prefix")
"""What stores call the argument that says which file they are asked for, or which folder."""


class ThreadCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has not returned: of what, for which file (None: it does not say), in a thread of this name."""

    thread: str
    call: str
    location: str | None


def calls_under_way() -> list[ThreadCall]:
    """Calls of firn's in threads that a process waits for before it ends: neither the main one nor daemonic ones."""
    frames = sys._current_frames()  # noqa: SLF001 - its documented name
    threads = [one for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    found = (_call(one.name, frames[one.ident]) for one in threads if one.ident in frames)
    return [call for call in found if call is not None]


def end_process(code: int) -> NoReturn:
    """End with this exit code. Threads whose calls do not return are left behind, where Python would wait for them."""
    if not calls_under_way():
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _call(thread: str, innermost: FrameType) -> ThreadCall | None:
    """What of firn's the thread is in, as far inside as stores go; None for one that waits for work."""
    ours = [frame for frame in _outwards(innermost) if _is_of(frame, OURS)]
    if not ours:
        return None
    called = next((frame for frame in ours if _is_of(frame, STORES)), ours[0])
    places: Iterator[Any] = (frame.f_locals.get(name) for frame in ours for name in PLACES)
    location = next((place for place in places if isinstance(place, str)), None)
    return ThreadCall(thread=thread, call=called.f_code.co_qualname, location=location)


def _is_of(frame: FrameType, package: str) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(package)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
