"""Of what Spark tells about a failed job, people see the cause."""

from __future__ import annotations

import pytest

from firn.pipeline.spark_errors import cause_of

JAVA = """An error occurred while calling o12.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: org.apache.spark.SparkException: Parquet column cannot be converted
\tat a.b(C.java:1)
Caused by: java.lang.RuntimeException: corrupted file: the footer index is not within the file: 1302
\tat d.e(F.java:2)
"""
PYTHON = """Job aborted: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
firn.model.errors.InvalidInput: id: holds 3 nulls and is required

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (JAVA, "java.lang.RuntimeException: corrupted file: the footer index is not within the file: 1302"),
        (PYTHON, "firn.model.errors.InvalidInput: id: holds 3 nulls and is required"),
        ("the disk is full", "the disk is full"),
        ("", "RuntimeError"),
    ],
)
def test_the_innermost_cause_is_told(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause
