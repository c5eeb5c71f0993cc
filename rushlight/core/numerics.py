"""How exactly sums are to be formed, as programs say it for the whole process.

Attributes:
    float32_matmul: ``highest``, ``high`` or ``medium``: what products of float32 matrices
        may lose; the last two allow TF32 on a GPU.
"""

float32_matmul = "highest"
