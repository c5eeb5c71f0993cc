"""Values in and out: pickles, files, printed text, other libraries' arrays."""
