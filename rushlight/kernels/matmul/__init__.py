"""Matrix products: register tiles, AMX, tensor cores, products with vectors."""
