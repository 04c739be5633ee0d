"""The stock locations of a store, as old as the row that admission caches."""

import msgspec

from stoa.access.queries import ServedStore
from stoa.rest.call import Store

DEFAULT_LOCATION = "default"
_ONE_LOCATION = f'[{{"code":"{DEFAULT_LOCATION}","name":"Default","address":null,"priority":0,"active":true}}]'


class _Location(msgspec.Struct):
    code: str
    active: bool


_decoder = msgspec.json.Decoder(list[_Location])


def locations_json(store: Store) -> str:
    """All locations as JSON. A store that was not read from its row, such as an example, has only the default one."""
    return store.locations if isinstance(store, ServedStore) else _ONE_LOCATION


def active_locations(store: Store) -> frozenset[str]:
    """The codes of the locations that hold stock."""
    return frozenset(each.code for each in _decoder.decode(locations_json(store)) if each.active)
