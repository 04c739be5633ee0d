"""The container file: pinned, not root, one writable folder, and valid commands. `make deploy-check` runs its steps."""

import re
import tomllib
from pathlib import Path

from tests.deploy.containerfile import read
from tests.deploy.declared import API, DEPLOY, METRICS, ROOT, USER, check_settings, parse_command

BUILD, FINAL = read(DEPLOY / "Containerfile")


def test_every_package_is_pinned_by_a_lock_file_with_hashes() -> None:
    steps = " && ".join(each.text for each in BUILD.all("RUN")).split("&&")
    installs = [step for step in steps if " install " in step]
    assert len(installs) == 3
    for step in installs:
        assert "--require-hashes -r requirements" in step or "--no-index --no-deps wheels/" in step, step
    assert all("--no-build-isolation" in step for step in steps if " wheel " in step)
    assert BUILD.image.removesuffix(" AS build") == FINAL.image


def test_the_build_copies_what_the_packages_need_and_the_ignore_file_lets_it_through() -> None:
    sources = {word for each in BUILD.all("COPY") for word in each.text.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert sources >= {*included, project["project"]["readme"], *project["project"]["license-files"]}


def test_the_image_runs_without_root_and_writes_to_one_folder() -> None:
    assert FINAL.one("USER").text == f"{USER}:{USER}"
    assert [each.text for each in FINAL.all("COPY")] == ["--from=build /opt/stoa /opt/stoa"]
    environment = FINAL.environment
    folder = FINAL.one("VOLUME").text
    assert {environment["STOA_DATA_DIR"], environment["TMPDIR"], FINAL.one("WORKDIR").text} == {folder}
    assert f"--owner={USER} --group={USER} --mode=0700 {folder}" in FINAL.one("RUN").text
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    check_settings(environment)


def test_the_image_declares_its_command_health_check_and_stop_signal() -> None:
    name, _ = parse_command(FINAL.one("CMD").words)
    assert (FINAL.one("ENTRYPOINT").words, name) == (["stoa"], "serve")
    assert FINAL.one("STOPSIGNAL").text == "SIGTERM"
    assert FINAL.one("EXPOSE").text == f"{API} {METRICS}"
    python, option, code = FINAL.one("HEALTHCHECK").words
    assert (python, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert (str(API) in code, "'/live'" in code) == (True, True)
    assert FINAL.environment["STOA_METRICS"].endswith(f":{METRICS}")


def test_no_file_names_a_registry_or_a_digest() -> None:
    for file in (each for each in DEPLOY.rglob("*") if each.is_file()):
        text = file.read_text()
        assert "sha256:" not in text, file
        for image in re.findall(r"^(?:FROM|\s*image:) (\S+)", text, re.MULTILINE):
            host, slash, _ = image.partition("/")
            assert not slash or not re.search(r"[.:]", host), f"{_relative(file)}: {image}"


def _relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
