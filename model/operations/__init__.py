"""The operations that an intent can ask for, one struct each; `firn.model.intent` has them all.

Each has the fields that belong to it and no others, so that a field in the wrong place is refused, not ignored.
"""
