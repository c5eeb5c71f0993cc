"""How sparse weights are, epoch by epoch."""
