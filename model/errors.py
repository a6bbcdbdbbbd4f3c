"""Everything firn raises, by what the caller can do about it.

FirnError
├── InvalidInput          the bytes, JSON or arguments given are wrong: fix them; retrying cannot help
│   ├── InvalidMetadata   table or view metadata breaks the specification (names the field)
│   │   └── InvalidPropertyError  a property has a value that cannot be used (names the property)
│   ├── InvalidSchema     a schema or a schema change is not allowed
│   ├── InvalidIntent     an intent breaks the wire format or a limit at the door
│   ├── TooLarge          reading it would take more memory or time than a limit allows
│   ├── ChangesUnavailableError  what changed since a snapshot cannot be determined exactly: start from a full read
│   ├── UnknownOptionError  a keyword or an option that there is not, which is a TypeError, too
│   └── Unsupported       valid Iceberg (or a future one) that this version does not implement
├── CorruptFile           a stored file is not what its reference says it is: restore it; never guess around it
├── NotFound              a table, view, snapshot, ref or file that does not exist
├── AlreadyExists         a name or a location that is taken
├── Unavailable           Redis, ZooKeeper or a file store does not answer: try again later, nothing is decided
│   └── UnknownOutcome    a request went out and no answer came: it may or may not have happened
├── RejectedError         an intent was rejected, where the caller asked for a commit (`Ticket.committed`)
├── ConsumerMovedError    a named consumer is at another snapshot than expected: take back what was processed
├── Fenced                the lock, the session or the shard is lost: whatever was being done must be abandoned
└── Misconfigured         a setting is missing or contradicts another (names the setting)

A *conflict* is not an exception: replay returns it as a value (see `firn.model.outcome`), and so does the client.
"""

from __future__ import annotations

from typing import Literal

from firn.model.outcome import Rejected

ChangesReason = Literal[
    "base-expired",
    "history-gap",
    "history-rewritten",
    "table-replaced",
    "end-unknown",
    "end-before-start",
    "entries-unusable",
    "files-gone",
]
"""Why changes cannot be told: see `ChangesUnavailableError`."""


class FirnError(Exception):
    """Base of every error that firn raises on purpose."""


class InvalidInput(FirnError):
    """What was given is wrong, wherever and whenever it is tried.

    `where` is the path to the offending part (``schemas[2].fields[0].type``), `hint` what to do about it.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message = message
        self.where = where
        self.hint = hint
        text = f"{where}: {message}" if where else message
        super().__init__(f"{text} ({hint})" if hint else text)


class InvalidMetadata(InvalidInput):
    """Table or view metadata that breaks the specification."""


class InvalidPropertyError(InvalidMetadata):
    """A table or view property whose value cannot be used: set another value, or remove the property."""


class InvalidSchema(InvalidInput):
    """A schema, or a change of one, that the specification forbids."""


class InvalidIntent(InvalidInput):
    """An intent that breaks the wire format or a limit; `rule` is the rejection's rule name."""

    def __init__(self, message: str, *, rule: str, where: str | None = None, hint: str | None = None) -> None:
        self.rule = rule
        super().__init__(message, where=where, hint=hint)


class TooLarge(InvalidInput):
    """More bytes, values or levels than a limit allows, noticed before they are decoded."""


class UnknownOptionError(InvalidInput, TypeError):
    """A keyword or an option that a function does not have; `hint` names the nearest one that it has."""


class Unsupported(InvalidInput):
    """Something valid that this version of firn does not implement."""


class ChangesUnavailableError(InvalidInput):
    """What came after a snapshot cannot be determined exactly, so nothing is: start again from a full read.

    `reason` is one of these. ``base-expired``: the snapshot that the window begins after is gone, and so is what came
    next. ``history-gap``: a snapshot within the window expired. ``history-rewritten``: the window begins after a
    snapshot that is not in the history of its end (a rollback, or the branch was replaced). ``table-replaced``: the
    table was made anew under the name. ``end-unknown``: there is no snapshot to end with. ``end-before-start``: the
    window ends before it begins. ``entries-unusable``: the writer of a snapshot did not record which files it changed.
    ``files-gone``: files that hold deleted rows were removed with an expired snapshot.
    """

    def __init__(
        self, message: str, *, reason: ChangesReason, where: str | None = None, hint: str | None = None
    ) -> None:
        self.reason = reason
        super().__init__(message, where=where, hint=hint)


class CorruptFile(FirnError):
    """A stored file whose bytes are not what its reference says; names the file and the check that failed."""

    def __init__(self, location: str, check: str) -> None:
        self.location = location
        self.check = check
        super().__init__(f"{location}: {check}")


class NotFound(FirnError):
    """Something named does not exist."""


class AlreadyExists(FirnError):
    """A name or location is taken."""


class Unavailable(FirnError):
    """A server or store does not answer; nothing was decided, try again later."""


class UnknownOutcome(Unavailable):
    """A request was sent and its answer was lost: it may or may not have taken effect."""


class RejectedError(FirnError):
    """An intent has had no effect and never will; `outcome` says why and what to do."""

    def __init__(self, outcome: Rejected) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.rule}: {outcome.message} ({outcome.hint})")


class ConsumerMovedError(FirnError):
    """A consumer of changes is not at the snapshot from which it was to be advanced."""


class Fenced(FirnError):
    """The lock, session or shard ownership is gone; abandon what was under way."""


class Misconfigured(FirnError):
    """A setting is missing, malformed or contradicts another."""
