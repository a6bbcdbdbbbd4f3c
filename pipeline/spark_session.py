"""A Spark session for programs that start their own: settings that firn needs, and no noise.

Applications that have a session need nothing of this.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from firn.model.errors import Misconfigured
from firn.pipeline.java import require_java

LOCAL_MASTER: Final = "local[*]"
LOG_TAIL_CHARS: Final = 2_000

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "16",  # Spark's 200 are meant for a cluster
}


@contextmanager
def spark_session(
    *, app: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of this process's own, which is stopped at the end.

    `master` None: that of `settings` or of ``spark-defaults.conf``, else all cores of this machine. `settings` go over
    firn's; whoever lists processes sees them. What Java says on its standard error goes to a file that is shown only
    when Spark does not start. Raises Misconfigured for a Java that is not there or too old, or when Spark does not
    start.
    """
    require_java()
    given = dict(settings or {})
    if master is None and "SPARK_CONF_DIR" not in os.environ:
        master = given.pop("spark.master", LOCAL_MASTER)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = master is not None and master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **given}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile(prefix="firn-spark-") as log:
        try:
            with _standard_error_to(log.fileno()):
                session = builder.getOrCreate()
        except (PySparkException, OSError, RuntimeError) as error:
            log.seek(0)
            tail = log.read().decode(errors="replace")[-LOG_TAIL_CHARS:]
            raise Misconfigured(f"Spark does not start: {error}\n{tail}") from error
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """While Java is started: what it says goes to a file, from then on."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
