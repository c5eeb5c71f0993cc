"""What passes share: finding patterns, lifting parts of graphs into modules."""
