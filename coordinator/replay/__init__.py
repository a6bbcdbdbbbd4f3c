"""Replay: fresh table state and intents in, new state and decisions out.

Nothing here writes, locks, sleeps or looks at a clock; the only input besides its arguments are immutable manifests.
One module per operation family, one function per rule.
"""
