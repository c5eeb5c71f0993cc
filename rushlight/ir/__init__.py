"""What programs are made of: typed expressions, loops, symbolic integers, their rules."""
