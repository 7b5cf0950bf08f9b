"""Client programs. Each runs in its own process under `triten.as_torch`, and no module imports them."""
