"""The first few elements of rows, and which of equal ones come first."""
