"""A text file as a stream of clean UTF-8 bytes.

Whatever the file's compression and encoding, what comes out is UTF-8 without a byte-order mark,
without NUL bytes, and without a line longer than a limit. The first that is not so ends the stream with a
message that names the line.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
from pathlib import Path
from typing import Any, BinaryIO, cast

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.files.shards import line_ends_before

LINE_LIMIT = 64 << 20  # bytes; a file with a longer line is not a table
SAMPLE = 1 << 20  # bytes that detection looks at, or the first line if that is longer

_PIECE = 1 << 20
_BLANKS = re.compile(r"[ \t]+")
_LINE_END = re.compile(r" ?(\r?\n) ?")
_LINE_MAY_END = re.compile(r"(?<![ \t])([ \t]*)(\r?)\Z")
_GZIP = b"\x1f\x8b"
_MARKS = {  # byte-order marks; the longer ones first, since one begins like another
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class CleanText(io.RawIOBase):
    """The file from its first byte, or from byte `skip` of its clean text, which is on line `line`.

    A part of a file that is not packed is given by `begin` and `end`, bytes of the file as it is on disk, the
    first of them at the start of a line. `head` comes before what is read, and `tail` after it. Where
    `is_lenient`, bytes that are not text become U+FFFD, and only their own cell is not what it was. Where
    `is_squeezed`, blanks and tabs between cells are a single blank, and lines neither begin nor end with one.

    Raises:
        DataError: from `read`, for NUL bytes, bytes that are not text, and over-long lines.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoding: str,
        is_lenient: bool = False,
        is_squeezed: bool = False,
        skip: int = 0,
        line: int = 1,
        line_limit: int = LINE_LIMIT,
        begin: int = 0,
        end: int | None = None,
        head: bytes = b"",
        tail: bytes = b"",
    ) -> None:
        self._path = path
        self._raw = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self._raw.seek(begin)
        self._file = unpack(self._raw, is_gzip=is_gzip(path))
        self._begin = begin
        self._left = None if end is None else end - begin
        self._tail = tail
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("replace" if is_lenient else "strict")
        self._squeezer = Squeezer() if is_squeezed else None
        self._ready = head
        self._skip = skip
        self._line = line
        self._line_length = 0
        self._line_limit = line_limit
        self._piece = min(_PIECE, line_limit)
        self.is_finished = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Exactly `size` bytes, or what is left."""
        parts, missing = [], size if size >= 0 else float("inf")
        while missing > 0 and (self._ready or self._refill()):
            part = self._ready if missing >= len(self._ready) else self._ready[: int(missing)]
            self._ready = self._ready[len(part) :]
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        self._raw.close()
        super().close()

    @property
    def position(self) -> int:
        """The position in the file on disk."""
        return self._raw.tell()

    def _refill(self) -> bool:
        while not self._ready and not self.is_finished:
            piece = self._piece_of_file()
            self.is_finished = not piece
            clean = self._decode(piece)
            if self._skip:
                clean, self._skip = clean[self._skip :], max(0, self._skip - len(clean))
            self._inspect(clean)
            self._ready = clean
        if not self._ready:
            self._ready, self._tail = self._tail, b""
        return bool(self._ready)

    def _piece_of_file(self) -> bytes:
        if self._left is None:
            return self._file.read(self._piece)
        piece = self._file.read(min(self._piece, self._left))
        self._left -= len(piece)
        if self._left and not piece:
            raise DataError(
                f"{self._path} was cut short while it was read.", remedy="Try again once it is complete."
            )
        return piece

    def _place(self, line: int) -> str:
        return f"{self._path}, line {line_ends_before(self._path, self._begin) + line}"

    def _decode(self, piece: bytes) -> bytes:
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeError as error:
            before = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            line = self._line + before.count(b"\n")
            raise DataError(
                f"{self._place(line)} holds bytes that are not {self._encoding.upper()} text.",
                remedy="Say which encoding it is in, such as --encoding cp1252, or save the file as UTF-8.",
            ) from None
        if self._squeezer is not None:
            text = self._squeezer.squeeze(text, is_last=not piece)
        return text.encode("utf-8", errors="replace")

    def _inspect(self, clean: bytes) -> None:
        nul = clean.find(b"\0")
        if nul >= 0:
            line = self._line + clean.count(b"\n", 0, nul)
            raise DataError(
                f"{self._place(line)} holds a NUL byte, which a text file never does.",
                remedy="Give a table as text (CSV, TSV, libsvm), Parquet or NPZ.",
            )
        # Lines inside this piece are shorter than it; only the one that crosses its edge can be too long.
        breaks = [at for at in (clean.find(b"\n"), clean.find(b"\r")) if at >= 0]
        self._line_length += min(breaks, default=len(clean))
        if self._line_length > self._line_limit:
            raise DataError(
                f"{self._place(self._line)} is longer than {format_size(self._line_limit)}.",
                remedy="This is not a table: check that its lines end, and that every quote is closed.",
            )
        if breaks:
            self._line_length = len(clean) - max(clean.rfind(b"\n"), clean.rfind(b"\r")) - 1
        self._line += clean.count(b"\n")


def is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


class Squeezer:
    """Makes runs of blanks and tabs single blanks, whatever pieces the text comes in."""

    def __init__(self) -> None:
        self._held, self._is_at_start = "", True

    def squeeze(self, text: str, *, is_last: bool) -> str:
        text = self._held + text
        held = _LINE_MAY_END.search(text)
        assert held is not None  # at worst an empty one at the end
        # Whether a line ends after these is seen in the next piece. However many they are, one is kept.
        kept, self._held = text[: held.start()], (" " if held[1] else "") + held[2]
        if is_last:
            kept += held[2]
        clean = _LINE_END.sub(r"\1", _BLANKS.sub(" ", kept))
        if self._is_at_start:
            clean = clean.removeprefix(" ")
        self._is_at_start = clean.endswith("\n") if clean else self._is_at_start
        return clean


def unpack(raw: io.RawIOBase | BinaryIO, *, is_gzip: bool) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(fileobj=cast("BinaryIO", raw)) if is_gzip else raw)


def first_bytes(path: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked."""
    with open(path, "rb") as raw, unpack(raw, is_gzip=is_gzip(path)) as file:
        return file.read(size)


def detect_encoding(start: bytes) -> str:
    """The encoding of a text from its first bytes: by its mark, else UTF-8, else cp1252.

    cp1252 is Latin-1 with the euro sign and typographic quotes: what Excel writes in Western Europe.

    Most of the lines that tell decide: one line that is not UTF-8 does not change how others are read.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    strange = [line for line in start.split(b"\n")[:-1] or [start] if not line.isascii()]
    wrong = sum(not _is_utf8(line) for line in strange)
    return "cp1252" if 2 * wrong > len(strange) else "utf-8"


def is_utf8_beyond_ascii(start: bytes) -> bool:
    """Whether the beginning of a text has letters beyond ASCII, and is UTF-8."""
    return not start.isascii() and detect_encoding(start).startswith("utf-8")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def has_plain_line_ends(encoding: str) -> bool:
    """Whether a line-end byte is nothing else in this encoding, and each line decodes on its own."""
    name = codecs.lookup(encoding).name
    return name in ("utf-8", "utf-8-sig", "ascii") or name.startswith(("iso8859-", "cp125", "koi8-"))


def check_encoding(encoding: str) -> None:
    try:
        codecs.getincrementaldecoder(encoding)().decode("".encode(encoding))
    except (LookupError, ValueError, TypeError):
        raise InvalidArgument(
            f"encoding={encoding!r} is not known.", remedy="Try utf-8, latin-1, cp1252 or utf-16."
        ) from None


def format_size(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size} bytes"
