"""What went wrong in a Spark job, in one line: the last cause, of the hundreds of lines that Spark tells."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""What a failed job raises on the driver."""

_CAUSE: Final = "Caused by: "
_TRACEBACK: Final = "Traceback (most recent call last):"


def cause_of(error: BaseException) -> str:
    """The innermost cause that the error's text names: of code in Python its last line, else Java's exception."""
    lines = [line.strip("\n") for line in str(error).splitlines() if line.strip()]
    raised = [_raised(lines[at + 1 :]) for at, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE) and _TRACEBACK not in line]
    found = [one for one in raised if one] or causes or lines[:1]
    return found[-1] if found else type(error).__name__


def _raised(lines: list[str]) -> str | None:
    """The line after a traceback's frames, which are indented."""
    return next((line for line in lines if not line.startswith((" ", "\t"))), None)
