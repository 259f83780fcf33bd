"""The names of datasets: two that look alike are one name, or the second is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from reticent.core.errors import InvalidArgument

_LONGEST = 200
# Shown as nothing or as a blank, though no control character: fillers, joiners, variation selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b\u180c\u180d\u180f")
# Letters of other scripts that are drawn like Latin ones, in lower case. Not all of Unicode's: the scripts
# that keyboards of one office share.
_LOOK_ALIKES = str.maketrans(
    {
        **dict(zip("авгеёзіїјкмнопрстухһцчьѕԁԛԝѵӏ", "abreeziijkmhonpctyxhu4bsdqwvl", strict=True)),
        **dict(zip("ґғқҝңҫүұҳөԍ", "rrkkhcyyxog", strict=True)),
        **dict(zip("αβγδεηικμνορστυχωϲϳ", "abydenikuvopotuxwcj", strict=True)),
        **dict(zip("ıɑɡɩʏᴏ", "iagiyo", strict=True)),
        **dict(zip("øłđðħŧƀɨ", "olddhtbi", strict=True)),  # strokes, which are not accents to Unicode
        **dict(zip("01|!", "olli", strict=True)),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’ʼ′`", "'"),
    }
)
# Capitals whose lower case is drawn like another letter, or like none.
_CAPITALS = str.maketrans("ΕΖΗΜΝΥ", "EZHMNY")


def normalize(name: str) -> str:
    """The one spelling of a name: compatible forms composed (NFKC), blanks at the ends and doubled gone.

    Raises:
        InvalidArgument: it is empty or too long, or holds characters that do not show.

    Example:
        >>> normalize("  ﬁrst  visit ")
        'first visit'
    """
    if not isinstance(name, str):
        raise InvalidArgument(
            f"The name of a dataset is text, not {type(name).__name__}.", remedy="Pass a name."
        )
    for place, letter in enumerate(name):
        if letter in _INVISIBLE or unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            raise InvalidArgument(
                f"Character {place + 1} of the dataset's name is invisible: {_in_words(letter)}.",
                remedy="Type the name without it.",
            )
        if 0xFE00 <= ord(letter) <= 0xFE0F or 0xE0100 <= ord(letter) <= 0xE01EF:
            raise InvalidArgument(
                f"Character {place + 1} of the dataset's name is invisible: a variation selector.",
                remedy="Type the name without it.",
            )
    plain = " ".join(unicodedata.normalize("NFKC", name).split())
    if not plain or len(plain) > _LONGEST:
        raise InvalidArgument(
            f"dataset must be one line of 1 to {_LONGEST} printable characters.",
            remedy="Pass another dataset.",
        )
    return plain


def skeleton(name: str) -> str:
    """What a hasty reader sees: no case, no accents, look-alikes of Cyrillic and Greek as Latin letters.

    Example:
        >>> skeleton("Pаtients") == skeleton("patients")  # the first а is Cyrillic
        True
    """
    plain = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKC", name).casefold().translate(_LOOK_ALIKES)
    )
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter) and letter != " ")
    return letters.translate(_LOOK_ALIKES).replace("i", "l").replace("rn", "m").replace("vv", "w")


def _shapes(name: str) -> set[str]:
    """A name as it reads in lower case, and as its capitals are drawn."""
    return {skeleton(name), skeleton(unicodedata.normalize("NFD", name).translate(_CAPITALS))}


def find_look_alike(name: str, known: Iterable[str]) -> str | None:
    """A known name that a reader would take for this one, though it is another; None if there is none."""
    wanted = _shapes(name)
    return next((other for other in known if other != name and _shapes(other) & wanted), None)


def difference(name: str, other: str) -> str:
    """The characters in which two similar names differ, in words."""
    pairs = [(mine, theirs) for mine, theirs in zip(name, other, strict=False) if mine != theirs]
    if not pairs or len(name) != len(other):
        return f"{len(name)} characters instead of {len(other)}"
    # Another alphabet tells more than another case.
    mine, theirs = next((pair for pair in pairs if pair[0].casefold() != pair[1].casefold()), pairs[0])
    return f"{_in_words(mine)} instead of {_in_words(theirs)}"


def _in_words(letter: str) -> str:
    return unicodedata.name(letter, f"U+{ord(letter):04X}")
