"""Names: what people write is allowed, and what only imitates another name is not."""

# ruff: noqa: RUF001 - letters that look alike are what this file is about

import pytest

from stoa.names import fault_in

HONEST = [
    "Stock Sync", "Café Zoë", "Müller & Söhne GmbH", "O'Brien’s", "Кафе Пушкин", "Магазин Nike", "Ελληνικά Τρόφιμα",
    "Ω Audio", "α-Tech", "10 µm Filters", "無印良品", "ユニクロUNIQLO", "東京ストア Tokyo", "ＳＯＮＹストア", "서울마켓 Seoul", "삼성SDS",
    "ㄅㄆㄇ商店", "متجر القهوة", "חנות ספרים", "ร้านกาแฟ", "हिन्दी दुकान", "Việt Nam", "Nguyễn Thị Ánh", "Łódź 2", "❤\ufe0f Shop",
    "☕ Coffee", "1-2-3 Shop", "Море", "Ｔ-shirts", "Ἀθῆναι", "Plan А", "naïve\u0301", "Crème d’Or", "e\u0301t\u00e9",
]  # fmt: skip
MISLEADING = {
    "Cyrillic a in a Latin word": ("Pаypal", "mixes Cyrillic and Latin letters"),
    "Cyrillic o in a Latin word": ("Stоa Sync", "mixes Cyrillic and Latin letters"),
    "Greek o in a Latin word": ("Stοa", "mixes Greek and Latin letters"),
    "Latin in a Cyrillic word": ("Магaзин", "mixes Cyrillic and Latin letters"),
    "full-width Cyrillic neighbor": ("Ｐаy", "mixes Cyrillic and Latin letters"),
    "Cherokee": ("ᏢayPal", "mixes Cherokee and Latin letters"),
    "Han with Cyrillic": ("東京маркет", "mixes Cjk and Cyrillic letters"),
    "a mark between two scripts": ("Pa\u1dc4ураl", "mixes Cyrillic and Latin letters"),
    "a whole word of look-alikes": ("Stoa Арр", "look like Latin ones"),
    "after a hyphen": ("Pay-рау", "look like Latin ones"),
    "mathematical letters": ("𝐒𝐭𝐨𝐚", "letters of another style"),
    "double-struck": ("ℂhase", "letters of another style"),
    "right to left": ("Stoa\u202esync", "nobody sees"),
    "zero width": ("Sto\u200ba", "nobody sees"),
    "joiner": ("Sto\u200da", "nobody sees"),
    "Hangul filler": ("Stoa\u3164", "nobody sees"),
    "Braille blank": ("Sto\u2800a", "nobody sees"),
    "grapheme joiner": ("Sto\u034fa", "nobody sees"),
    "variation selector": ("Stoa\ufe00", "nobody sees"),
    "tag": ("Stoa\U000e0041", "nobody sees"),
    "control": ("Sto\x07a", "nobody sees"),
    "piled marks": ("S" + "\u0301\u0302\u0303\u0304\u0306" + "toa", "nobody sees"),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_name_is_allowed(name: str) -> None:
    assert fault_in(name) is None


@pytest.mark.parametrize("case", MISLEADING)
def test_a_name_that_imitates_another_is_refused(case: str) -> None:
    name, fault = MISLEADING[case]
    assert fault in (fault_in(name) or "")
