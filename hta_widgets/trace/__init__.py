"""Files to job: loaders, links, steps, kernel types."""
