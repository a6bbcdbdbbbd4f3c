"""The pipeline's commands: what people who write no code do with it. `firn.coordinator.cli.main` lists them.

They reach servers and print as the coordinator's commands do, and are the only part of the pipeline that may.
"""
