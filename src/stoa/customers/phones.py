"""Converts phone numbers with a country code, in any notation, to E.164."""

import phonenumbers


def e164(text: str) -> str | None:
    """A phone number as it is stored and compared, or None if the text is not one."""
    plain = text.strip()
    if plain.startswith("00"):
        plain = f"+{plain[2:]}"
    if not plain.startswith("+"):
        return None  # a store has no default country, so a national number is ambiguous
    try:
        number = phonenumbers.parse(plain, None)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
