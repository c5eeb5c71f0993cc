"""The paths of files."""

from collections.abc import Iterator, Sequence

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from rushlight.utils.data.datapipes.utils.common import get_file_pathnames_from_root

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """The paths of the files in folders.

    Args:
        root: the folder, or several.
        masks: patterns that the files' names are like.
        recursive: those in folders inside, too.
        abspath: from the root of the disk on.
        non_deterministic: in any order, not that of their names.
        length: how many there are said to be.
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        super().__init__()
        folders = [root] if isinstance(root, str) else root
        if not isinstance(folders, IterDataPipe):
            folders = IterableWrapperIterDataPipe(folders)
        self.datapipe: IterDataPipe = folders
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self) -> Iterator[str]:
        how = self.masks, self.recursive, self.abspath, self.non_deterministic
        for path in self.datapipe:
            yield from get_file_pathnames_from_root(path, *how)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
