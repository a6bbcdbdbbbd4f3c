"""What touches the world: file stores, manifests, metadata files, pointers, locks, intent streams and the journal.

Each is a port with a real implementation and an in-memory twin, and one contract test suite runs on both.
"""
