# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel (PEP 517): the package with libtremula.so, the program tremula and, if they are built,
libtremula_ofi.so and libtremula_mpi.so in tremula/_native, next to the libraries that they need and that a bare system
lacks. The tag is manylinux_2_36_<machine>: the wheel runs wherever glibc is 2.36 or newer, as in Debian 12, and GCC's
libraries are those of GCC 12 or newer. Without patchelf, or if newer libraries are needed, the tag is linux_<machine>:
the wheel then contains only files of Tremula, and needs the libraries of the machine that built it.

Without its option -v, pip shows no output of the compilation, which takes minutes. Making the metadata compiles
nothing, so pip reports "Building wheel", not "Preparing metadata", during the compilation.

Setting `build`: a cmake build folder to take the files from (--config-settings build=build/release). Without it,
build/wheel/release is built.
"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = ("libtremula.so", "libtremula_ofi.so", "libtremula_mpi.so")  # the last two only if they are built
REQUIRES = ["numpy"]
EXTRAS = {"xarray": "xarray", "torch": "torch", "mpi": "mpi4py"}
# The newest versions of symbols that the tag promises (PEP 600): of glibc 2.36 and of GCC 12.
PROMISED = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libutil|libresolv|libgcc_s|libstdc\+\+)\.so\.|ld-linux")
# Libraries of the host, needed for one transport each: its MPI starts the jobs, and its libfabric supports its
# networks.
HOST = re.compile(r"lib(mpi|mpich|fabric)\.so\.")


def version() -> str:
    return re.search(r"project\(tremula VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def tag(is_portable: bool) -> str:
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return "py3-none-" + (platform.replace("linux_", "manylinux_2_36_", 1) if is_portable else platform)


def _run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=sys.stderr)
    if done.returncode != 0:
        raise SystemExit(f"tremula: expected '{command[0]} {command[1]} ...' to end with 0, found {done.returncode}")


def built() -> Path:
    folder = ROOT / "build" / "wheel" / "release"
    text = f"tremula: compiling the library in {folder}; the first build takes minutes, later ones less"
    print(text, file=sys.stderr, flush=True)
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DTREMULA_BUILD_TESTS=OFF", "-DTREMULA_BUILD_EXAMPLES=OFF",
               "-DTREMULA_WITH_FORTRAN=OFF", "-DTREMULA_WITH_CAIRO=OFF"]  # Cairo needs the libraries of X
    launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER")
    _run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *options, "-DCMAKE_UNITY_BUILD=ON",
         *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []))  # fmt: skip
    jobs = os.environ.get("JOBS")
    _run("cmake", "--build", folder, *(["--parallel", jobs] if jobs else []))
    return folder


def native(build: Path, prefix: Path) -> dict[str, Path]:
    """Returns the files for tremula/_native by name. They are installed first, so that they contain no path of the
    build folder."""
    _run("cmake", "--install", build, "--prefix", prefix, "--strip")
    found = {path.name: path.resolve() for path in prefix.glob("lib*/**/libtremula*.so") if path.name in LIBRARIES}
    if "libtremula.so" not in found:
        raise SystemExit(f"tremula: expected {build} to install libtremula.so, found none")
    return {**found, "tremula": prefix / "bin" / "tremula"}


def _output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def needed(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "--dynamic", path))


def too_new(path: Path) -> list[str]:
    """Returns the versions of symbols that the file needs and that the tag does not promise."""
    versions = set(re.findall(r"Name: ([A-Z]+)_([\d.]+)\b", _output("readelf", "--version-info", "--wide", path)))
    newer = [(kind, v) for kind, v in versions if tuple(map(int, v.split("."))) > PROMISED.get(kind, (1 << 30,))]
    return sorted(f"{kind}_{v}" for kind, v in newer)


def lacking(files: list[Path]) -> dict[str, Path]:
    """Returns the libraries that the files need, directly or not, by the names under which they are needed; leaves out
    those that every system has, those of the host (HOST) and Tremula's own."""
    found: dict[str, Path] = {}
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        places = dict(re.findall(r"^\s*(\S+) => (/\S+)", _output("ldd", path), re.MULTILINE))
        for name in needed(path):
            if name in found or SYSTEM.match(name) or HOST.match(name) or name.startswith("libtremula"):
                continue
            if name not in places:
                raise SystemExit(f"tremula: expected to find {name}, which {path} needs, found none: install it")
            found[name] = Path(places[name]).resolve()
            waiting.append(found[name])
    return found


def carry(files: dict[str, Path], libraries: dict[str, Path], folder: Path) -> dict[str, Path]:
    """Copies the libraries into the folder, and makes all files look for them in their own folder. Each name gets part
    of the file's hash: the process may have loaded another library of the original name, from the system or a wheel."""
    names = {}
    for name, path in libraries.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        names[name] = name.replace(".so", f"-{digest}.so", 1)
    copies = {names[name]: Path(shutil.copyfile(path, folder / names[name])) for name, path in libraries.items()}
    for name, path in {**files, **copies}.items():
        path.chmod(0o755)
        changes = [["--replace-needed", old, names[old]] for old in needed(path) if old in names]
        changes += [["--set-soname", name]] if name in copies else []
        for change in [*changes, ["--set-rpath", "$ORIGIN"]]:  # one per call: patchelf 0.14 breaks a file otherwise
            _output("patchelf", *change, path)
    return copies


def licences(libraries: dict[str, Path]) -> dict[str, str]:
    """Returns what Debian states about the licence of each library, by package; empty on other systems."""
    found = {}
    for path in libraries.values() if shutil.which("dpkg-query") else ():
        search = ["dpkg-query", "--search", f"*/{path.name}"]
        package = subprocess.run(search, capture_output=True, text=True).stdout.partition(":")[0]
        text = Path("/usr/share/doc", package, "copyright")
        if package and text.exists():
            found[f"licenses/{package}.txt"] = text.read_text()
    return found


def metadata(wheel_tag: str) -> dict[str, str]:
    lines = ["Metadata-Version: 2.1", "Name: tremula", f"Version: {version()}",
             "Summary: Separately started parallel jobs share distributed arrays", "License: Apache-2.0",
             "Requires-Python: >=3.9", *(f"Requires-Dist: {name}" for name in REQUIRES)]  # fmt: skip
    for extra, name in EXTRAS.items():
        lines += [f"Provides-Extra: {extra}", f'Requires-Dist: {name}; extra == "{extra}"']
    text = (HERE / "README.md").read_text()
    return {
        "METADATA": "\n".join([*lines, "Description-Content-Type: text/markdown", "", text]),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tremula\nRoot-Is-Purelib: false\nTag: {wheel_tag}\n",
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
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # a fixed date, so that equal files make an equal wheel
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = mode << 16
        self._zip.writestr(entry, content)


def info_folder() -> str:
    return f"tremula-{version()}.dist-info"


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict | None = None) -> str:
    folder = Path(metadata_directory) / info_folder()
    folder.mkdir(exist_ok=True)
    for file, text in metadata(tag(is_portable=True)).items():
        (folder / file).write_text(text)
    return folder.name


def build_wheel(
    wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None
) -> str:
    given = (config_settings or {}).get("build")
    build = ROOT / given if given else built()
    info = info_folder()
    with tempfile.TemporaryDirectory() as prefix, tempfile.TemporaryDirectory() as folder:
        files = native(build, Path(prefix))
        libraries = lacking(list(files.values()))
        why = [f"{path.name} needs {v}" for path in [*files.values(), *libraries.values()] for v in too_new(path)]
        if shutil.which("patchelf") is None:
            why.append("there is no patchelf")
        if why:
            print(f"tremula: the wheel is for this machine only: {', '.join(why)}", file=sys.stderr)
            libraries = {}
        else:
            files.update(carry(files, libraries, Path(folder)))
        name = f"tremula-{version()}-{tag(not why)}.whl"
        wheel = _Wheel(Path(wheel_directory) / name)
        for path in sorted((HERE / "tremula").rglob("*")):
            if path.suffix == ".py" or path.name == "py.typed":
                wheel.add(path.relative_to(HERE).as_posix(), path.read_bytes())
        for file, path in sorted(files.items()):
            wheel.add(f"tremula/_native/{file}", path.read_bytes(), is_program=True)
        for file, text in {**metadata(tag(not why)), **licences(libraries)}.items():
            wheel.add(f"{info}/{file}", text.encode())
        wheel.close(f"{info}/RECORD")
    return name


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """Archives the source tree: the files of the last commit or, without git, all files that builds do not make."""
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
