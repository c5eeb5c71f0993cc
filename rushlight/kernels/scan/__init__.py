"""Running sums, products and extremes along one axis."""
