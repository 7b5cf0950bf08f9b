"""Open files (`common`), decoders of their content (`decoder`), and snapshots of pipes (`snapshot`)."""
