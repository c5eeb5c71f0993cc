"""Renderers of the loop IR: LLVM for the host, PTX, and readable Python."""
