"""firn commits to Apache Iceberg tables: many writers submit intents, one coordinator commits them in groups."""
