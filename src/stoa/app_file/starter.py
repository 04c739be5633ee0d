"""`stoa app init`: writes a first app file and a small app that receives its events."""

from importlib.metadata import version
from pathlib import Path

from stoa.access.console import WRONG_USAGE, Refused
from stoa.app_file.client import DEPLOY_TOKEN, SERVICE_URL
from stoa.app_file.contract import FILE_NAME, AppFile
from stoa.app_file.writing import write_file
from stoa.webhooks.app_subscriptions import AppSubscription

LANGUAGES = ("python", "typescript")
_EXAMPLES = Path(__file__).parent / "examples"
_IGNORED = ".env\n.venv/\ndist/\nnode_modules/\n"


def write(folder: Path, *, name: str, language: str, port: int, service: str) -> list[Path]:
    """Write the files, none of which may exist; returns their paths."""
    url = f"http://localhost:{port}/stoa"
    file = AppFile(
        name=name,
        scopes={"products:read": "To receive changes of your products."},
        subscriptions=[AppSubscription("products", ["product.*"], url)],
    )
    texts = {
        FILE_NAME: write_file(file),
        ".env": f"{SERVICE_URL}={service}\n{DEPLOY_TOKEN}=\nPORT={port}\n",
        ".gitignore": _IGNORED,
        **{each.name: each.read_text() for each in sorted((_EXAMPLES / language).iterdir()) if each.is_file()},
    }
    if language == "python":
        texts["requirements.txt"] = f"stoa-client=={version('stoa-client')}\n"
    present = [each for each in texts if (folder / each).exists()]
    if present:
        raise Refused(f"{folder / present[0]} exists already; choose an empty folder", WRONG_USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    for each, text in texts.items():
        path = folder / each
        path.touch(mode=0o600 if each == ".env" else 0o644)
        path.write_text(text)
    return [folder / each for each in texts]
