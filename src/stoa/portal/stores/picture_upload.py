"""Takes the picture that a form uploads: decodes it, and stores it for the store of the page."""

from stoa.media.contract import MOST_PICTURE_BYTES, Picture, PictureRefused, PicturesUnavailable
from stoa.media.files import media_of
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.visit import Visit


async def take_upload(visit: Visit) -> Picture | None:
    """The stored picture; None if the form has no file. The caller then refers to it."""
    upload = visit.upload
    if upload is None or upload.empty:
        return None
    if upload.file.size > MOST_PICTURE_BYTES:
        raise FormError(file="The file has more than 8 MB.")
    media = media_of(visit.settings)
    try:
        decoded = await media.decoder.decode(upload.path.read_bytes())
        return await media.keep(visit.db.autocommit, visit.store.id, decoded)
    except PictureRefused as refusal:
        raise FormError(file=f"The file {refusal}.") from None
    except PicturesUnavailable as reason:
        raise FormError({"": f"{reason} Try again in a moment."}, status=503) from None
