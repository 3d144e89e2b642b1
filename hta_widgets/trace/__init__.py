"""From trace files to a job: formats, loaders, ranks, the cache and the model of events."""
