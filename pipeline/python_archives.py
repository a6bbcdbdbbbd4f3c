"""Archives on the path of Spark's Python workers, which are read again before every task unless they are forgotten.

A worker drops its import caches before each task. Up to Python 3.11 that reads the list of contents of every archive it
has ever imported through: of Spark's own jar, with its thousands of classes, a sixth of a second.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from zipimport import zipimporter


def forget_spark_jars() -> None:
    """Forget the finders of Spark's jars; Python makes them anew, from what it has read, when it imports something."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _is_spark_jar(finder.archive):
            sys.path_importer_cache.pop(path, None)


def _is_spark_jar(archive: str) -> bool:
    name = PurePath(archive).name
    return name.startswith("spark-core_") and name.endswith(".jar")
