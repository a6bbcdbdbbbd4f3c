"""Settings of Spark's for one job or one scan: made in a copy of the session, so that nobody else's work has them.

A session's settings are those of everything that is planned in it meanwhile. Spark copies sessions for its streams: a
copy has the session's settings, views, functions and cached frames, and keeps what is set in it to itself. A frame is
planned by the settings of its session, but Parquet files are read by those of the session that the reader was made in,
wherever the frame is used. None of this can be reached from PySpark but through the JVM's own methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

DATASET: Final = "org.apache.spark.sql.classic.Dataset"

_NO_COPIES: Final = (Py4JError, AttributeError, TypeError)
"""What a Spark without these methods raises: Spark Connect, or one that somebody has changed."""


class SessionCopy:
    """A copy of a session."""

    def __init__(self, spark: SparkSession, copy: Any, dataset: Any) -> None:
        self._spark = spark
        self._copy = copy
        self._dataset = dataset

    @classmethod
    def of(cls, spark: SparkSession, settings: Mapping[str, str]) -> Self | None:
        """A copy that has these settings, too; None where Spark makes none."""
        try:
            dataset: Any = spark._jvm  # noqa: SLF001 - there is no other way
            for name in DATASET.split("."):
                dataset = getattr(dataset, name)
            if not isinstance(dataset, JavaClass):
                return None
            copy = spark._jsparkSession.cloneSession()  # noqa: SLF001
            for name, value in settings.items():
                copy.conf().set(name, value)
        except _NO_COPIES:
            return None
        return cls(spark, copy, dataset)

    def planned(self, rows: DataFrame) -> DataFrame:
        """The same rows, planned by the copy's settings. They must not be joined with those of the session."""
        return self._moved(rows, self._copy)

    def reader(self) -> DataFrameReader:
        """A reader that reads by the copy's settings; its frames belong to the copy, see `returned`."""
        reader = self._spark.read
        reader._jreader = self._copy.read()  # noqa: SLF001
        return reader

    def returned(self, rows: DataFrame) -> DataFrame:
        """A frame of the copy as one of the session."""
        return self._moved(rows, self._spark._jsparkSession)  # noqa: SLF001

    def _moved(self, rows: DataFrame, session: Any) -> DataFrame:
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
        return DataFrame(self._dataset.ofRows(session, plan), self._spark)
