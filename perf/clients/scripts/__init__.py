"""One program for each client. Each runs in a process of its own under `triten.as_torch`, and is imported nowhere."""
