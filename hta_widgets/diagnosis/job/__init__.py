"""The ranks side by side: steps as matrices (ranks × steps), waiting, hardware, traffic."""
