# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel (PEP 517): the package with libtremula.so, libtremula_ofi.so, libtremula_mpi.so, as far as they are
built, and the program tremula in tremula/_native. The tag is linux_<machine>: it runs where the libraries that it is
linked with are those of the machine that has built it, and is no manylinux wheel.

pip shows nothing of the compilation, which takes minutes, without its option -v. The metadata is made without it, so
that pip reports "Building wheel" meanwhile, and not "Preparing metadata".

Setting `build`: a build folder of cmake to take them from (--config-settings build=build/release), in the place of
build/wheel/release, which is made.
"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = ("libtremula.so", "libtremula_ofi.so", "libtremula_mpi.so")  # the last two where they are built
REQUIRES = ["numpy"]
EXTRAS = {"xarray": "xarray", "torch": "torch", "mpi": "mpi4py"}


def version() -> str:
    return re.search(r"project\(tremula VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def tag() -> str:
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=sys.stderr)
    if done.returncode != 0:
        raise SystemExit(f"tremula: expected '{command[0]} {command[1]} ...' to end with 0, found {done.returncode}")


def built() -> Path:
    folder = ROOT / "build" / "wheel" / "release"
    text = f"tremula: compiles the library in {folder}: minutes the first time, then only what has changed"
    print(text, file=sys.stderr, flush=True)
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DTREMULA_BUILD_TESTS=OFF", "-DTREMULA_BUILD_EXAMPLES=OFF",
               "-DTREMULA_WITH_FORTRAN=OFF"]
    launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER")
    _run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *options, "-DCMAKE_UNITY_BUILD=ON",
         *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []))  # fmt: skip
    jobs = os.environ.get("JOBS")
    _run("cmake", "--build", folder, *(["--parallel", jobs] if jobs else []))
    return folder


def native(build: Path, prefix: Path) -> dict[str, Path]:
    """Name in tremula/_native and file; installed first, so that no path of the build folder stays in them."""
    _run("cmake", "--install", build, "--prefix", prefix, "--strip")
    found = {path.name: path.resolve() for path in prefix.glob("lib*/**/libtremula*.so") if path.name in LIBRARIES}
    if "libtremula.so" not in found:
        raise SystemExit(f"tremula: expected {build} to install libtremula.so, found none")
    return {**found, "tremula": prefix / "bin" / "tremula"}


def metadata() -> dict[str, str]:
    lines = ["Metadata-Version: 2.1", "Name: tremula", f"Version: {version()}",
             "Summary: Separately started parallel jobs share distributed arrays", "License: Apache-2.0",
             "Requires-Python: >=3.9", *(f"Requires-Dist: {name}" for name in REQUIRES)]  # fmt: skip
    for extra, name in EXTRAS.items():
        lines += [f"Provides-Extra: {extra}", f'Requires-Dist: {name}; extra == "{extra}"']
    text = (HERE / "README.md").read_text()
    return {
        "METADATA": "\n".join([*lines, "Description-Content-Type: text/markdown", "", text]),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tremula\nRoot-Is-Purelib: false\nTag: {tag()}\n",
        "entry_points.txt": "[console_scripts]\ntremula = tremula.__main__:command\n",
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }


class _Wheel:
    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record: list[str] = []

    def add(self, name: str, content: bytes, is_program: bool = False) -> None:
        self._write(name, content, 0o100755 if is_program else 0o100644)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, record: str) -> None:
        self._write(record, "\n".join([*self._record, f"{record},,", ""]).encode(), 0o100644)
        self._zip.close()

    def _write(self, name: str, content: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same files make the same wheel
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = mode << 16
        self._zip.writestr(entry, content)


def info_folder() -> str:
    return f"tremula-{version()}.dist-info"


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict | None = None) -> str:
    folder = Path(metadata_directory) / info_folder()
    folder.mkdir(exist_ok=True)
    for file, text in metadata().items():
        (folder / file).write_text(text)
    return folder.name


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    given = (config_settings or {}).get("build")
    build = ROOT / given if given else built()
    name = f"tremula-{version()}-{tag()}.whl"
    info = info_folder()
    with tempfile.TemporaryDirectory() as prefix:
        wheel = _Wheel(Path(wheel_directory) / name)
        for path in sorted((HERE / "tremula").rglob("*")):
            if path.suffix == ".py" or path.name == "py.typed":
                wheel.add(path.relative_to(HERE).as_posix(), path.read_bytes())
        for file, path in sorted(native(build, Path(prefix)).items()):
            wheel.add(f"tremula/_native/{file}", path.read_bytes(), is_program=True)
        for file, text in metadata().items():
            wheel.add(f"{info}/{file}", text.encode())
        wheel.close(f"{info}/RECORD")
    return name


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """Archives the files of the tree: those of the last commit, or of an unpacked archive all but what builds make."""
    name = f"tremula-{version()}"
    path = Path(sdist_directory) / f"{name}.tar.gz"
    if (ROOT / ".git").exists():
        _run("git", "archive", "--format=tar.gz", f"--prefix={name}/", "-o", path, "HEAD")
        return path.name
    with tarfile.open(path, "w:gz") as archive:
        for folder, folders, files in os.walk(ROOT):
            made = {"build", "demo"} if Path(folder) == ROOT else set()
            folders[:] = sorted(set(folders) - made - {"__pycache__"})
            for file in sorted(files):
                source = Path(folder) / file
                archive.add(source, f"{name}/{source.relative_to(ROOT).as_posix()}", recursive=False)
    return path.name
