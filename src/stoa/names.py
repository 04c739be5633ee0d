"""Names of apps, stores and people that could pass for another name: scripts mixed within a word, and unseen characters.

Follows the level "highly restrictive" of Unicode Technical Standard 39, word by word, because a shop may be called
"Магазин Nike". The script of a letter is the first word of its Unicode name.
"""

import re
import unicodedata

# Scripts that are written together: Japanese, Chinese and Korean, each with Latin.
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
# Letters of other scripts that look like Latin ones.
_LIKE_LATIN = frozenset("аеорсухѕіјԛԝһӏԁѵАВЕЅІЈКМНОРСТУХԚԜҮүαινορυχγκΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհցՕՏ")
# Unseen, though Unicode counts them as letters, marks or symbols: fillers, joiners, selectors, and the empty Braille cell.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)
_STYLED = frozenset({"MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER"})
_WIDTHS = frozenset({"FULLWIDTH", "HALFWIDTH"})
_MOST_MARKS = 4  # on one letter, as in the standard


def fault_in(name: str) -> str | None:
    """What is wrong with a name, as the end of a sentence that begins with "the name"; None if nothing is."""
    if not name.isprintable() or _UNSEEN.search(name) or _is_stacked(name):
        return "must not contain characters that nobody sees"
    words = [(word, _scripts(word)) for word in _words(unicodedata.normalize("NFC", name))]
    for word, scripts in words:
        if "STYLED" in scripts:
            return f'must not contain letters of another style, as in "{word}"'
        if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
            listed = " and ".join(sorted(script.capitalize() for script in scripts))
            return f'mixes {listed} letters in "{word}"; write each word in one alphabet'
    if any("LATIN" in scripts for _, scripts in words):
        for word, scripts in words:
            letters = [each for each in word if each.isalpha()]
            if "LATIN" not in scripts and len(letters) > 1 and _LIKE_LATIN.issuperset(letters):
                return f'contains "{word}", whose {min(scripts).capitalize()} letters look like Latin ones'
    return None


def _words(name: str) -> list[str]:
    """The words of a name: letters with their marks, digits, and apostrophes."""
    return "".join(
        each if each in "'\u2019" or unicodedata.category(each)[0] in "LMN" else " " for each in name
    ).split()


def _scripts(word: str) -> set[str]:
    return {script for letter in word if (script := _script(letter))}


def _script(letter: str) -> str:
    """The script of a letter; empty for what all scripts share: digits, marks, and signs such as the prolonged sound mark."""
    if unicodedata.category(letter) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    first = unicodedata.name(letter, "").partition(" ")[0]
    if first in _WIDTHS:
        return _script(unicodedata.normalize("NFKC", letter)[0])
    if first in _STYLED:
        return "STYLED"
    return "" if first in ("MICRO", "FEMININE", "MASCULINE") else first


def _is_stacked(name: str) -> bool:
    """Whether marks are piled up on one letter."""
    count = 0
    for character in unicodedata.normalize("NFD", name):
        count = count + 1 if unicodedata.category(character) == "Mn" else 0
        if count > _MOST_MARKS:
            return True
    return False
