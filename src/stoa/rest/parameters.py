"""Reads the query parameters of an endpoint that is not a list."""

import msgspec

from stoa.rest.call import Call
from stoa.rest.endpoint import Endpoint
from stoa.rest.filters import InvalidValue
from stoa.rest.problems import Fault, InvalidParameter, counted
from stoa.rest.query_string import query_parameters, subset, unknown_parameters
from stoa.rest.request import Request


def read_parameters(request: Request, endpoint: Endpoint, call: Call) -> None:
    """Read `fields`, `include` and the endpoint's own parameters, for an endpoint that is not a list."""
    shaping = [*(["fields"] if endpoint.shows_fields else []), *(["include"] if endpoint.includes else [])]
    sets = [*shaping, *(name for name, kind in endpoint.parameters.items() if kind.several)]
    known = [*shaping, *endpoint.parameters]
    given = query_parameters(request.query, sets)
    if unknown := [name for name in given if name not in known]:
        raise unknown_parameters("endpoint", unknown, dict.fromkeys(known, ()))
    faults: list[Fault] = []
    for name, kind in endpoint.parameters.items():
        if name in given:
            try:
                call.parameters[name] = kind.read(given[name], call.store)
            except InvalidValue as error:
                faults.append(Fault(name, "invalid_parameter", str(error)))
    fields = [field.encode_name for field in msgspec.structs.fields(endpoint.resource)] if endpoint.resource else []
    call.fields = subset("fields", given.get("fields"), fields, faults)
    call.include = subset("include", given.get("include"), endpoint.includes, faults) or frozenset()
    if faults:
        raise InvalidParameter(f"{counted(len(faults), 'parameter')} cannot be read.", faults=faults)
    if call.fields is not None:
        call.include |= call.fields & frozenset(endpoint.includes)
        call.fields |= call.include
