"""From tensor expressions in Python to machine code: language, loops, emitters."""
