"""What a diagnosis finds: a file for each cause, and for prices, proofs, health and thresholds."""
