"""Fourier transforms of lines: steps of small radices, short lines in registers."""
