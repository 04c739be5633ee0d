"""Phone numbers: any spelling that names its country in, E.164 out."""

import phonenumbers


def e164(text: str) -> str | None:
    """A number as it is stored and compared, or None when it is none."""
    plain = text.strip()
    if plain.startswith("00"):
        plain = f"+{plain[2:]}"
    if not plain.startswith("+"):
        return None  # a store has no country of its own, so a national number could be anybody's
    try:
        number = phonenumbers.parse(plain, None)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
