"""Whether a program is being recorded."""

tracing = 0  # how many recordings are going on
