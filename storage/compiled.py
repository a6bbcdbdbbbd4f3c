"""Whether the compiled part of firn is there: it is made where firn is installed, if there is a C compiler."""

from __future__ import annotations

from types import ModuleType
from typing import Final

INTERFACE: Final = 2
"""The compiled code that this firn is for."""

try:
    from firn.storage.native import wire_files as _built
except ImportError:  # installed where there was no C compiler
    compiled: ModuleType | None = None
else:
    compiled = _built if getattr(_built, "INTERFACE", 0) == INTERFACE else None  # an older build may be left there

IS_COMPILED: Final = compiled is not None
