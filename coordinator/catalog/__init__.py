"""The REST catalog: Iceberg's protocol, spoken by a process beside the daemon (decision 39)."""
