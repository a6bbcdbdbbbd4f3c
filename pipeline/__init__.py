"""Iceberg through PySpark: the sink, the source, row-level operations, maintenance and reports on the journal.

Everything that changes a table goes through the client as an intent, like any other writer's.

Most modules need PySpark, and some do without. Where a package is missing, the import of any of them says which extra
of firn installs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from firn.model.extras import naming_the_extra


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with naming_the_extra(module.__name__):
            super().exec_module(module)


class _Finder:
    """Finds the modules of this package, and no others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


sys.meta_path.insert(0, _Finder)
