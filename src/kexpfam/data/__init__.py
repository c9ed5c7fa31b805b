"""Stage 1: rows come in; they are standardized, sampled and cut into blocks."""
