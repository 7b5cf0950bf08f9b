"""Programs that are more than a line of the catalogue; they run in a worker, and are imported nowhere."""
