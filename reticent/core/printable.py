"""Text that came from a file, made fit to print: nothing in it moves the cursor, hides or reorders words."""

from __future__ import annotations

import re

# Controls of terminals (all but new lines and tabs), marks that are invisible or turn the reading direction,
# and halves of characters that no encoding has.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ud800-\udfff\ufff9-\ufffb]"
    "|[\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    r"""The same text with what a terminal would obey, or a reader not see, written out.

    >>> printable("age\x1b[2J, in\u202ecome")
    'age\\x1b[2J, in\\u202ecome'
    """
    return _UNFIT.sub(lambda found: _escape(found[0]), text)


def printable_json(text: str) -> str:
    r"""The same for a JSON document, which stays one: such characters stand only within its strings.

    >>> printable_json('{"a\x7f": 1}')
    '{"a\\u007f": 1}'
    """
    return _UNFIT.sub(lambda found: _escape_json(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(character: str) -> str:
    words = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{words[at : at + 2].hex()}" for at in range(0, len(words), 2))
