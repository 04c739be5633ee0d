"""The page of a store's locations: where its stock is, and the order in which orders reserve it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stoa.access.contract import AccessRefused
from stoa.inventory import locations
from stoa.inventory.contract import Location
from stoa.inventory.locations import (
    AFTER_DEFAULT,
    InvalidLocationCode,
    LocationTaken,
    activate_location,
    add_location,
    deactivate_location,
    update_location,
)
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()
Priority = Annotated[
    int,
    Meta(
        ge=0,
        le=locations.LOWEST_PRIORITY,
        extra={"message": f"Enter a number from 0 to {locations.LOWEST_PRIORITY:,}."},
    ),
]
_Name = Annotated[str, text("Enter a name with 1 to 80 characters.", min_length=1, max_length=80, name=True)]
_Address = Annotated[str, text("Enter at most 500 characters.", max_length=locations.LONGEST_ADDRESS)]


class NewLocationForm(msgspec.Struct):
    code: Annotated[
        str, text("Use 1 to 32 of a-z, 0-9, and inner hyphens or underscores.", min_length=1, max_length=32)
    ]
    name: _Name
    address: _Address = ""
    priority: Priority = AFTER_DEFAULT


class LocationForm(msgspec.Struct):
    name: _Name
    address: _Address = ""
    priority: Priority = AFTER_DEFAULT


@pages.page("/stores/{handle}/locations", nav="list_stores")
async def store_locations(visit: Visit) -> View:
    found = await locations.list_locations(visit.by, visit.store.handle)
    return View("stores/locations.html", {"locations": found, "after_default": AFTER_DEFAULT})


@pages.form("/stores/{handle}/locations", on=store_locations, in_shard=True)
async def create_location(visit: Visit, form: NewLocationForm) -> Redirect:
    try:
        await add_location(visit.by, visit.store.handle, form.code, form.name, form.address, form.priority)
    except (InvalidLocationCode, LocationTaken) as refusal:
        raise FormError(code=sentence(refusal)) from refusal
    except AccessRefused as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    return _back(visit, f"{form.name} was added.")


@pages.page("/stores/{handle}/locations/{location_code}", nav="list_stores")
async def store_location(visit: Visit) -> View:
    return View("stores/location.html", {"location": await _location(visit)})


@pages.form("/stores/{handle}/locations/{location_code}", on=store_location, in_shard=True)
async def change_location(visit: Visit, form: LocationForm) -> Redirect:
    location = await _location(visit)
    try:
        await update_location(visit.by, visit.store.handle, location.code, form.name, form.address, form.priority)
    except AccessRefused as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    return _back(visit, "Saved. The change takes effect within a second.")


@pages.form("/stores/{handle}/locations/{location_code}/deactivate", on=store_location, in_shard=True)
async def close_location(visit: Visit) -> Redirect:
    location = await _location(visit)
    try:
        await deactivate_location(visit.by, visit.store.handle, location.code)
    except AccessRefused as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    return _back(visit, f"{location.name} is inactive.")


@pages.form("/stores/{handle}/locations/{location_code}/activate", on=store_location, in_shard=True)
async def open_location(visit: Visit) -> Redirect:
    location = await _location(visit)
    await activate_location(visit.by, visit.store.handle, location.code)
    return _back(visit, f"{location.name} is active.")


async def _location(visit: Visit) -> Location:
    for location in await locations.list_locations(visit.by, visit.store.handle):
        if location.code == visit.path_param("location_code"):
            return location
    raise not_found()


def _back(visit: Visit, notice: str) -> Redirect:
    return Redirect(f"{ROOT}/stores/{visit.store.handle}/locations", notice)
