"""firn commits to Apache Iceberg tables: many writers submit intents, one coordinator per table commits them in groups."""
