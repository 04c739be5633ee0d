"""Money: integers of minor units inside, decimal strings with the currency's digits outside, never floats."""

from decimal import Decimal

# ISO 4217: active currencies whose number of fraction digits is not two.
_DIGITS = {
    **dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split(), 0),
    **dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3),
    **dict.fromkeys("CLF UYW".split(), 4),
}
_TWO_DIGITS = frozenset(
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY "
    "COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS "
    "INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR "
    "MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD "
    "SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG".split()
)
CURRENCIES = frozenset(_DIGITS) | _TWO_DIGITS

LARGEST = 10**15


class InvalidMoney(ValueError):
    """The amount has too many fraction digits, is negative, or is too large."""


def digits(currency: str) -> int:
    """The number of fraction digits of a currency."""
    return _DIGITS.get(currency, 2)


def too_large(fraction_digits: int) -> str:
    return f"must be at most {to_text(LARGEST - 1, fraction_digits)}"


def to_minor(amount: Decimal, fraction_digits: int) -> int:
    """Convert an amount to minor units; refuses an amount that would need rounding."""
    if not amount.is_finite():
        raise InvalidMoney("must be a finite number")
    if amount.adjusted() > 20:
        raise InvalidMoney(too_large(fraction_digits))
    minor = int(amount.scaleb(fraction_digits))
    if Decimal(minor).scaleb(-fraction_digits) != amount:  # `scaleb` rounds to 28 digits
        raise InvalidMoney(f"must have at most {fraction_digits} fraction digits in this store's currency")
    if minor < 0:
        raise InvalidMoney("must not be negative")
    if minor >= LARGEST:
        raise InvalidMoney(too_large(fraction_digits))
    return minor


def to_text(minor: int, fraction_digits: int) -> str:
    """Format minor units as the decimal string that callers see."""
    if fraction_digits == 0:
        return str(minor)
    if minor < 0:
        return "-" + to_text(-minor, fraction_digits)
    figures = str(minor).rjust(fraction_digits + 1, "0")
    return f"{figures[:-fraction_digits]}.{figures[-fraction_digits:]}"
