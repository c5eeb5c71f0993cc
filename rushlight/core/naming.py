"""The package's name in what is printed: Rushlight's own, or PyTorch's in its place.

Values such as data types print with the package before their names. Programs that know
the package as ``torch`` get that name in all of them.
"""

package = "rushlight"
