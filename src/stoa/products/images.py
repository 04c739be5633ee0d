"""The images of a product: which stay, which are new, and which Stoa fetches; without a database."""

from collections.abc import Mapping, Sequence
from typing import Any

from stoa.media.contract import Picture
from stoa.rest.problems import Fault

_FOUND_OUT = ("width", "height", "status", "reason", "source_url")
_PLAIN: dict[str, Any] = {"width": None, "height": None, "status": "ready", "reason": None, "source_url": None}


def faults_of_images(
    before: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], pictures: Mapping[str, Picture]
) -> list[Fault]:
    """What is wrong with images, beyond the limits of their types."""
    known = {image["id"] for image in before}
    faults: list[Fault] = []
    for index, image in enumerate(sent):
        at, data = f"/images/{index}", image.get("data")
        named = [name for name in ("url", "source_url") if image.get(name) is not None]
        if data is None and not named and image.get("id") not in known:
            faults.append(Fault(at, "required", "must have url, source_url or data"))
        elif data is not None and named:
            faults.append(Fault(f"{at}/{named[0]}", "invalid_format", "must be omitted when data is sent"))
        elif data is not None and data not in pictures:
            words = "is accepted in requests only; a file names a source_url"
            faults.append(Fault(f"{at}/data", "invalid_format", words))
        elif data is None and image.get("content_type") is not None:
            faults.append(Fault(f"{at}/content_type", "invalid_format", "must be omitted without data"))
    return faults


def images_of(
    before: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], pictures: Mapping[str, Picture]
) -> list[dict[str, Any]]:
    """Images in the order sent. A known image, by id, URL or source URL, keeps its id."""
    last = max((image["id"] for image in before), default=0)
    found: list[dict[str, Any]] = []
    for position, image in enumerate(sent, 1):
        known = _known(before, image, pictures, {each["id"] for each in found})
        if known is None:
            last += 1
        number = known["id"] if known is not None else last
        shown = _shown(image, known, pictures)
        found.append(
            {
                "id": number,
                "url": shown["url"],
                "alt": image.get("alt"),
                "position": position,
                **{name: shown[name] for name in _FOUND_OUT},
            }
        )
    return found


def _known(
    before: Sequence[Mapping[str, Any]],
    image: Mapping[str, Any],
    pictures: Mapping[str, Picture],
    taken: set[int],
) -> Mapping[str, Any] | None:
    """The stored image that a sent one stands for: the one with its id, else with its URL, else with its source URL."""
    data = image.get("data")
    url = pictures[data].url if data is not None else image.get("url")
    for name, value in (("id", image.get("id")), ("url", url), ("source_url", image.get("source_url"))):
        for each in before if value is not None else ():
            if each.get(name) == value and each["id"] not in taken:
                return each
    return None


def _shown(
    image: Mapping[str, Any], known: Mapping[str, Any] | None, pictures: Mapping[str, Picture]
) -> dict[str, Any]:
    """The address of a picture, and what Stoa knows of it."""
    url, source, data = image.get("url"), image.get("source_url"), image.get("data")
    stored = {**_PLAIN, **known} if known is not None else None
    if data is not None:
        return _ready(pictures[data])
    if stored is not None and url in (None, stored["url"]) and source in (None, stored["source_url"]):
        # A failed image is fetched again if its source URL is sent alone, and not if the image is sent as it was read.
        failed = stored["status"] == "failed" and url is None and source is not None
        return _pending(stored["source_url"]) if failed else stored
    if source is not None and url in (None, source):
        return _pending(source)
    if url is not None and url in pictures:
        return _ready(pictures[url])
    return {**_PLAIN, "url": url}


def _ready(picture: Picture) -> dict[str, Any]:
    return {**_PLAIN, "url": picture.url, "width": picture.width, "height": picture.height}


def _pending(source_url: str) -> dict[str, Any]:
    return {**_PLAIN, "url": source_url, "status": "pending", "source_url": source_url}


def pending_images(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """The ids and source URLs of images that are to be fetched, and were not before."""
    waiting = [(image["id"], image["source_url"]) for image in after if image.get("status") == "pending"]
    known = [(image["id"], image.get("source_url")) for image in before if image.get("status") == "pending"]
    return [each for each in waiting if each not in known]


def fetched(
    images: Sequence[Mapping[str, Any]], image_id: int, source_url: str, outcome: Picture | str
) -> list[dict[str, Any]] | None:
    """Images with the outcome of a fetch: a picture, or why it failed. None if the image no longer waits for it."""
    for image in images:
        # A release without pictures leaves out the status.
        if image["id"] == image_id and image["url"] == source_url and image.get("status") in ("pending", "ready", None):
            shown = _ready(outcome) if isinstance(outcome, Picture) else {**_PLAIN, "url": source_url}
            if isinstance(outcome, str):
                shown |= {"status": "failed", "reason": outcome}
            changed = {**image, **shown, "source_url": source_url}
            return [changed if each is image else dict(each) for each in images]
    return None
