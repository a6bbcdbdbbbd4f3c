"""`firn demo`: writers, compactors and a deleter against one table, and a proof that nothing was lost or doubled.

Everything is real: servers, processes, Parquet files, conflicts. The proof reads the table with another engine.
"""
