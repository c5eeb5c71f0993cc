"""What ``nn.functional`` is made of, by topic."""
