"""What Iceberg and firn are: the table format, intents, outcomes and journal events, as frozen values.

Nothing here does I/O, reads a clock or draws a random number; those are passed in, so that replay can be tested.
"""
