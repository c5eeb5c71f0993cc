"""Convolutions: as products of gathered columns, directly, of one channel each."""
