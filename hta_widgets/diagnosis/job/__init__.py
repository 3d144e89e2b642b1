"""The ranks compared: steps as matrices (ranks × steps), waiting, hardware, traffic."""
