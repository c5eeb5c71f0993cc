"""What programs around a model need."""
