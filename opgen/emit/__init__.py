"""One module for each kind of output; all write text from the same entries."""
