"""Text as numbers of words and pieces of words, as BERT's authors cut it up."""

import unicodedata

LONGEST = 100  # letters of a word; a longer one is unknown


class WordPiece:
    """A vocabulary, and the longest piece of it that a word begins with, again and again.

    Args:
        path: a ``vocab.txt``, one piece on a line; ``##`` marks pieces inside a word.
        lower: capitals and accents make no difference.
    """

    def __init__(self, path, lower=True):
        lines = path.read_text(encoding="utf-8").splitlines()
        self.numbers = {piece: number for number, piece in enumerate(lines)}
        self.lower = lower

    def words(self, text):
        """The words and signs of a text."""
        if self.lower:
            text = unicodedata.normalize("NFD", text.lower())
            text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        word = ""
        for character in text:
            if character.isspace() or not character.isprintable():
                yield from [word] if word else []
                word = ""
            elif _alone(character):
                yield from [word] if word else []
                yield character
                word = ""
            else:
                word += character
        if word:
            yield word

    def pieces(self, word):
        """The numbers of a word's pieces; unknown where one is missing."""
        found, start = [], 0
        unknown = [self.numbers["[UNK]"]]
        if len(word) > LONGEST:
            return unknown
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.numbers:
                    found.append(self.numbers[piece])
                    start = end
                    break
            else:
                return unknown
        return found

    def __call__(self, texts, longest=256):
        """Rows of numbers of one length, and rows that say which are no padding.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "vocab.txt"
        >>> _ = path.write_text("[PAD] [UNK] [CLS] [SEP] a ##b c !".replace(" ", chr(10)))
        >>> WordPiece(path)(["Ab!", "c"])
        ([[2, 4, 5, 7, 3], [2, 6, 3, 0, 0]], [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
        """
        rows = []
        for text in texts:
            inside = [
                number for word in self.words(text) for number in self.pieces(word)
            ]
            first, last = self.numbers["[CLS]"], self.numbers["[SEP]"]
            rows.append([first, *inside[: longest - 2], last])
        width = max(map(len, rows))
        pad = self.numbers["[PAD]"]
        ids = [row + [pad] * (width - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        return ids, mask


def _alone(character):
    """Whether a character is a word by itself: signs, and Chinese characters."""
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    ideographs = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF
    return ideographs or unicodedata.category(character).startswith("P")
