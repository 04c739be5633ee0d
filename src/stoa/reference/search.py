"""Full-text search over the documentation: a small index in memory, and the ranking of its entries."""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

import msgspec

from stoa.reference.search_words import SYNONYMS

MOST_CHARACTERS = 100  # of a query; the rest is ignored
_MOST_WORDS = 8
_MOST_COMPLETIONS = 40  # words that a started word may stand for
_MOST_ALIKE = 3  # entries with one title, such as the field `email` of several objects
_EXCERPT = 150
_NAME, _TITLE, _TOPIC, _CONTEXT, _TEXT = 3.0, 4.0, 1.5, 1.5, 2.0  # the weight of a word by where it occurs
_WHOLE_NAME, _WHOLE_TOPIC, _WHOLE_TITLE = 40.0, 25.0, 12.0  # added if the query is the name, a topic, or the title
_GUIDE_OF_TYPO = (
    1.6  # how much more a guide counts for a word that is misspelled: its writer does not know the name yet
)
_SYNONYM, _COMPLETION, _CORRECTION = 0.7, 0.6, 0.5  # the share of a word that the query does not contain itself
_OTHER_FORM, _STOPPED = 0.8, 0.3  # what another form of a word, and a stop word, count in a title
_WORD = re.compile(r"[a-z0-9]+")
_IDENTIFIER = re.compile(r"\w[_.:/-]\w")  # a query that names something, not a topic
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_SHORTEST_CORRECTED, _SHORTEST_TWICE_CORRECTED = 4, 8
_STOP_WORDS = frozenset(
    "a all an and any api are as at be by can do does for from how i if in is it its me my need needs of on or that the this to use via "
    "what when where which why with you your".split()
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Something to find: a page, or a part of one."""

    kind: str
    title: str
    address: str
    context: str = ""
    names: tuple[str, ...] = ()  # identifiers, such as `sku_taken`
    topics: tuple[str, ...] = ()  # what else readers call it, such as `sandbox`
    text: str = ""
    weight: float = 1.0


class Piece(msgspec.Struct, frozen=True):
    """A piece of an excerpt; the query matches the marked ones."""

    text: str
    marked: bool = False


class Hit(msgspec.Struct, frozen=True):
    kind: str
    title: str
    address: str
    context: str
    excerpt: list[Piece]


def words_of(text: str) -> list[str]:
    """The words of a text without their endings; `low_stock_threshold` has three."""
    return [stem(word) for word in _WORD.findall(text.lower())]


@lru_cache(maxsize=10_000)
def stem(word: str) -> str:
    """A word without plural and verb endings, so that retries, retried and retry are one word."""
    size = len(word)
    if not word.isalpha() or size < 4:
        return word
    if word.endswith(("ies", "ied")) and size > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "uses", "ches", "shes", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ing", 6), ("ed", 5), ("ion", 7)):
        if word.endswith(ending) and size >= least:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiosu":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


class Index:
    """Finds entries by their words. It is built once, and a search only reads it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self._postings: dict[str, dict[int, float]] = defaultdict(dict)
        self._names = [set(map(_identifier, entry.names)) - {""} for entry in self.entries]
        self._topics = [{_topic(topic) for topic in entry.topics} for entry in self.entries]
        self._titles = [_WORD.findall(entry.title.lower()) for entry in self.entries]
        self._in_titles = [frozenset(title) | frozenset(map(stem, title)) for title in self._titles]
        texts = [words_of(entry.text) for entry in self.entries]
        average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
        for number, entry in enumerate(self.entries):
            for word, weight in _weights(entry, texts[number], average).items():
                self._postings[word][number] = weight
        self._vocabulary = sorted(self._postings)

    def search(self, query: str, most: int = 12) -> list[Hit]:
        """The best entries first. Entries with all words of the query come before the others."""
        raw = _raw(query)
        asked = [each for word in raw if word not in _STOP_WORDS for each in self._known(word)] or raw
        found: dict[int, list[float]] = {}
        for position, word in enumerate(asked):
            for number, score in self._matches(word, last=position == len(asked) - 1).items():
                found.setdefault(number, [0.0] * len(asked))[position] = score
        whole, topic = " ".join(raw), frozenset[str]() if _IDENTIFIER.search(query) else _topic(query)
        stems = {stem(word) for word in asked}
        ranked = sorted(
            ((self._score(number, scores, whole, topic, asked, stems), -number) for number, scores in found.items()),
            reverse=True,
        )
        return list(self._hits((-number for _, number in ranked), asked, most))

    def _known(self, word: str) -> tuple[str, ...]:
        """The word, or its synonyms if the documentation does not contain it."""
        return (word,) if stem(word) in self._postings else _synonyms().get(stem(word), (word,))

    def _matches(self, word: str, *, last: bool) -> dict[int, float]:
        """The entries with this word, a synonym of it, or a word that begins with it; else with a likely correction."""
        found: dict[int, float] = {}
        for term, share in self._terms(word, last=last).items():
            postings = self._postings[term]
            rarity = math.log(1 + len(self.entries) / len(postings))
            for number, weight in postings.items():
                guides = _GUIDE_OF_TYPO if share == _CORRECTION and self.entries[number].kind == "Guide" else 1.0
                found[number] = max(found.get(number, 0.0), share * rarity * weight * guides)
        return found

    def _terms(self, word: str, *, last: bool) -> dict[str, float]:
        """The words of the index that a word of the query stands for, each with its share."""
        given = stem(word)
        shares = dict.fromkeys(_synonyms().get(given, ()), _SYNONYM)
        shares[given] = 1.0
        if last:
            start = bisect_left(self._vocabulary, word)
            for each in self._vocabulary[start : start + _MOST_COMPLETIONS]:
                if not each.startswith(word):
                    break
                shares.setdefault(each, _COMPLETION)
        known = {each: share for each, share in shares.items() if each in self._postings}
        if known or len(word) < _SHORTEST_CORRECTED:
            return known
        near = [each for each in _one_edit(given) if each in self._postings]
        if not near and len(given) >= _SHORTEST_TWICE_CORRECTED:
            near = [each for each in self._vocabulary if each[0] == given[0] and _two_edits(given, each)]
        return dict.fromkeys(near, _CORRECTION)

    def _score(
        self,
        number: int,
        scores: Sequence[float],
        whole: str,
        topic: frozenset[str],
        asked: Sequence[str],
        stems: set[str],
    ) -> float:
        score = sum(scores)
        if not (stems.isdisjoint(self._in_titles[number]) and self._in_titles[number].isdisjoint(asked)):
            score += _WHOLE_TITLE * _covered(self._titles[number], asked, stems)
        if topic in self._topics[number]:
            score += _WHOLE_TOPIC
        matched = sum(each > 0 for each in scores) / len(scores)
        named = _WHOLE_NAME if whole in self._names[number] else 0.0  # whatever its kind: the query names it
        return score * self.entries[number].weight * matched**4 + named

    def _hits(self, numbers: Iterable[int], asked: Sequence[str], most: int) -> Iterator[Hit]:
        alike: Counter[tuple[str, str]] = Counter()
        count = 0
        for number in numbers:
            entry = self.entries[number]
            alike[entry.kind, entry.title] += 1
            if alike[entry.kind, entry.title] > _MOST_ALIKE:
                continue
            yield Hit(entry.kind, entry.title, entry.address, entry.context, excerpt(entry.text, asked))
            count += 1
            if count == most:
                return


@cache
def _synonyms() -> Mapping[str, tuple[str, ...]]:
    return {stem(word): tuple(words_of(others)) for word, others in SYNONYMS.items()}


def _raw(query: str) -> list[str]:
    """The words of a query; `what's` is one."""
    return _WORD.findall(
        query[:MOST_CHARACTERS].lower().replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")
    )[:_MOST_WORDS]


def _topic(text: str) -> frozenset[str]:
    """The words of a topic in any order and form; stop words count only if there is nothing else."""
    words = _raw(text)
    return frozenset(stem(word) for word in words if word not in _STOP_WORDS) or frozenset(words)


def _identifier(name: str) -> str:
    """The words of a name; empty for a plain word such as `stock`, which people search for as a topic."""
    words = _WORD.findall(name.lower())
    return "" if len(words) == 1 and words[0].isalpha() else " ".join(words)


def _covered(title: Sequence[str], asked: Sequence[str], stems: set[str]) -> float:
    """How much of a title the query is: a title that consists of it is about it, a long one only mentions it."""
    hits = sum(1.0 if word in asked else _OTHER_FORM if stem(word) in stems else 0.0 for word in title)
    size = sum(_STOPPED if word in _STOP_WORDS and word not in asked else 1.0 for word in title)
    return hits / max(size, len(asked), 1)


def _weights(entry: Entry, text: Sequence[str], average: float) -> dict[str, float]:
    """The weight of each word of an entry. Repetition counts less and less, and less in a long text."""
    weights: dict[str, float] = defaultdict(float)
    for word, count in Counter(text).items():
        weights[word] += _TEXT * count / (count + 0.5 + len(text) / average)
    for word in set(words_of(entry.context)):
        weights[word] += _CONTEXT
    for word in {word for topic in entry.topics for word in words_of(topic)}:
        weights[word] += _TOPIC
    named = {word: _NAME for name in entry.names for word in words_of(name)}
    for word, weight in {**named, **dict.fromkeys(words_of(entry.title), _TITLE)}.items():
        weights[word] += weight
    return weights


def _one_edit(word: str) -> set[str]:
    """Every word that is one insertion, deletion, replacement or exchange away."""
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    return {
        *(a + b[1:] for a, b in splits if b),
        *(a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1),
        *(a + c + b[1:] for a, b in splits if b for c in _ALPHABET),
        *(a + c + b for a, b in splits for c in _ALPHABET),
    }


def _two_edits(first: str, second: str) -> bool:
    """Whether at most two insertions, deletions or replacements make one word of the other."""
    if abs(len(first) - len(second)) > 2:
        return False
    row = list(range(len(second) + 1))
    for at, letter in enumerate(first, 1):
        above, row = row, [at]
        for column, other in enumerate(second, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != other)))
        if min(row) > 2:
            return False
    return row[-1] <= 2


def excerpt(text: str, asked: Sequence[str]) -> list[Piece]:
    """The part of a text around the first word that matches, with the matches marked."""
    plain, spans = _located(text)
    matches = sorted(span for word in {stem(word) for word in asked} for span in spans.get(word, ()))
    start = 0
    if matches and matches[0][1] > _EXCERPT:
        start = plain.rfind(". ", 0, matches[0][0]) + 2
        if start < 2 or matches[0][1] - start > _EXCERPT:
            start = plain.rfind(" ", 0, matches[0][0] - 40) + 1
    end = len(plain) if len(plain) - start <= _EXCERPT else plain.rfind(" ", 0, start + _EXCERPT)
    end = end if end > start else start + _EXCERPT
    pieces = [Piece("… ")] if start else []
    at = start
    for first, last in matches:
        if last > end:
            break
        if first >= start:
            pieces += [Piece(plain[at:first]), Piece(plain[first:last], marked=True)]
            at = last
    pieces.append(Piece(plain[at:end] + (" …" if end < len(plain) else "")))
    return [piece for piece in pieces if piece.text]


@lru_cache(maxsize=2_000)
def _located(text: str) -> tuple[str, Mapping[str, Sequence[tuple[int, int]]]]:
    """A text on one line, and where each of its words is."""
    plain = " ".join(text.split())
    lowered = plain.lower()
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    if len(lowered) == len(plain):
        for found in _WORD.finditer(lowered):
            spans[stem(found[0])].append(found.span())
    return plain, spans
