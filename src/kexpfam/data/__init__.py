"""Stage 1: rows come in; they are standardised, sampled and cut into blocks."""
