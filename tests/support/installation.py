"""A copy of coachman installed in an environment of its own, to be changed under a daemon."""

import shutil
import site
import sys
import sysconfig
import venv
from pathlib import Path

import sourcetree


class Installation:
    """The four packages and their metadata; dependencies are those of the tests' interpreter."""

    def __init__(self, path: Path) -> None:
        venv.create(path, symlinks=True)
        self.python = str(path / "bin" / "python")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = path / "lib" / version / "site-packages"
        found = dict.fromkeys([sysconfig.get_path("purelib"), *site.getsitepackages()])
        (self.site / "dependencies.pth").write_text("\n".join(found) + "\n")
        self.install("1.0")

    def install(self, version: str) -> None:
        """Install it anew under another version, RECORD last, as installers do."""
        for metadata in self.site.glob("coachman-*.dist-info"):
            shutil.rmtree(metadata)
        for name, package in sourcetree.PACKAGES.items():
            shutil.rmtree(self.site / name, ignore_errors=True)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package, self.site / name, ignore=ignored)
        metadata = self.site / f"coachman-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: coachman\nVersion: {version}\n"
        )
        (metadata / "RECORD").touch()

    def touch(self) -> None:
        """Make its code another build, which does the same."""
        with (self.site / "coachmand" / "build.py").open("a") as file:
            file.write("# another build\n")

    def break_it(self) -> None:
        """Make the daemon of this installation unable to load."""
        with (self.site / "coachmand" / "main.py").open("a") as file:
            file.write("raise RuntimeError('half an installation')\n")
