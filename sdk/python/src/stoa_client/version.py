"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("stoa-client")
except PackageNotFoundError:  # the package is not installed, but its folder was copied
    __version__ = "0"
