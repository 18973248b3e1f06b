# SPDX-License-Identifier: Apache-2.0
"""Installs the wheel into a new environment without the source tree, and exchanges arrays through the libraries in the
wheel. Also checks that the wheel needs only libraries that its tag allows."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE, BUILD = Path(os.environ["TREMULA_TEST_SOURCE"]), Path(os.environ["TREMULA_TEST_BUILD"])
HERE = Path(__file__).resolve().parent
EXCHANGE = """
import multiprocessing, os, sys
import numpy as np, tremula
from tremula import _library

def produce(address):
    with tremula.Session("producer", 0, 1, server=address) as session, session.out_stream("s") as out:
        layout = tremula.Layout.block((40, 30), (1, 1))
        value = out.field("value", "f64", layout)
        for number in range(3):
            out.put(value, np.arange(1200.0).reshape(40, 30) + number)

if __name__ == "__main__":
    with tremula.Server() as server:
        child = multiprocessing.get_context("spawn").Process(target=produce, args=(server.address,))
        child.start()
        with tremula.Session("consumer", 0, 1, server=server.address) as session, session.in_stream("s") as stream:
            value = stream.field("value", "f32", tremula.Layout.block((40, 30), (1, 1), store="column"))
            for step in stream:
                np.testing.assert_array_equal(step[value], np.arange(1200.0).reshape(40, 30) + step.number)
        child.join()
        assert child.exitcode == 0 and step.number == 2
    print(_library.lib.path, tremula.program(), tremula.__file__)
    brought = ("libtremula", "libprotobuf", "libyaml-cpp", "libspdlog", "libfmt", "libxxhash")
    mapped = {line.split()[-1] for line in open("/proc/self/maps")}
    loaded = [path for path in mapped if os.path.basename(path).startswith(brought)]
    assert len(loaded) >= len(brought), loaded
    print(*loaded)
"""
SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+)\.so\.\d+$|ld-linux[\w-]*\.so\.\d$")
HOST = re.compile(r"lib(mpi|fabric)\.so\.\d+$")
GLIBC, LIBSTDCXX = (2, 36), (3, 4, 30)


def run(*command, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TREMULA_") and k != "PYTHONPATH"}
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=environment, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class WheelTest(unittest.TestCase):
    def test_installed_wheel_works_without_the_source(self):
        with tempfile.TemporaryDirectory() as folder:
            made, *commands = self.commands()
            self.assertEqual(made, "./dev wheel")
            run("/usr/bin/python3", "-m", "pip", "wheel", SOURCE, "--no-build-isolation", "--no-deps", "--no-index", "-w",
                Path(folder) / "build" / "wheel", "--config-settings", f"build={BUILD}")  # fmt: skip
            (wheel,) = Path(folder).glob("build/wheel/*.whl")
            self.assertRegex(wheel.name, r"^tremula-[\d.]+-py3-none-manylinux_2_36_[a-z]\w+\.whl$")
            self.judge_contents(wheel)
            output = run("env", f"HOME={folder}", "PIP_NO_INDEX=1", "bash", "-ec", "\n".join(commands), cwd=folder)
            self.assertIn("_native/libtremula.so", output)
            environment = Path(folder) / "tremula_python"
            script = Path(folder) / "exchange.py"
            script.write_text(EXCHANGE)
            paths = run(environment / "bin" / "python", script, cwd=folder).split()
            for path in paths:
                self.assertTrue(Path(path).resolve().is_relative_to(environment.resolve()), path)
            self.assertIn("tremula ", run(environment / "bin" / "tremula", "version", cwd=folder))
            output = run(environment / "bin" / "tremula", "doctor", "--quick", cwd=folder)
            self.assertIn("_native/libtremula.so", output)
            self.assertRegex(output, "ofi (yes|no)")
            run(environment / "bin" / "pip", "uninstall", "--yes", "tremula")

    def test_pip_knows_what_it_installs_before_it_compiles(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            nothing = ["--config-settings", f"build={Path(folder) / 'no_build'}"]  # making a wheel from that would fail
            run("/usr/bin/python3", "-m", "pip", "install", SOURCE, "--dry-run", "--report", report, "--target",
                Path(folder) / "target", "--no-build-isolation", "--no-deps", "--no-index", *nothing)  # fmt: skip
            (found,) = json.loads(report.read_text())["install"]
            self.assertEqual(found["metadata"]["name"], "tremula")
            self.assertEqual(found["metadata"]["requires_dist"][0], "numpy")

    def commands(self):
        """Returns the commands of the quick start in the manual: wheel, environment, the package in it, and a check."""
        page = SOURCE / "docs" / "start" / "quick_start.md"
        code = run(sys.executable, SOURCE / "docs" / "site" / "blocks.py", page, "python.wheel")
        return code.splitlines()

    def judge_contents(self, wheel):
        with zipfile.ZipFile(wheel) as files:
            names = files.namelist()
            for name in ("tremula/__init__.py", "tremula/py.typed", "tremula/_native/libtremula.so", "tremula/_native/tremula"):
                self.assertIn(name, names)
            packaged = sorted(n for n in names if n.endswith(".py"))
            package = SOURCE / "bindings" / "python"
            self.assertEqual(packaged, sorted(str(p.relative_to(package)) for p in (package / "tremula").rglob("*.py")))
            self.assertEqual(files.getinfo("tremula/_native/tremula").external_attr >> 16 & 0o777, 0o755)
            tag = files.read(next(n for n in names if n.endswith(".dist-info/WHEEL"))).decode()
            self.assertIn("Tag: " + "-".join(wheel.stem.split("-")[2:]) + "\n", tag)
            native = [n.rpartition("/")[2] for n in names if "/_native/" in n]
            self.assertGreater(len(native), 10)
            with tempfile.TemporaryDirectory() as folder:
                for name in native:
                    self.judge_library(files.extract(f"tremula/_native/{name}", folder), native)
            licences = [n for n in names if ".dist-info/licenses/" in n]
            for package in ("libprotobuf", "libyaml-cpp", "libssl", "libspdlog", "libfmt", "libxxhash"):
                self.assertTrue(any(package in n and files.getinfo(n).file_size > 100 for n in licences), licences)

    def judge_library(self, file, native):
        """Checks that a file of the wheel needs only other files of the wheel and libraries that every system of its
        tag has."""
        output = run("readelf", "--dynamic", file)
        self.assertNotIn(str(BUILD), output)
        self.assertEqual(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", output), ["$ORIGIN"], file)
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output):
            is_here = name in native or name.startswith("libtremula.so.")  # Python has loaded it before
            self.assertTrue(is_here or SYSTEM.match(name) or HOST.match(name), f"{file} needs {name}")
        versions = run("readelf", "--version-info", "--wide", file)
        for kind, most in (("GLIBC", GLIBC), ("GLIBCXX", LIBSTDCXX)):
            for version in re.findall(rf"Name: {kind}_([\d.]+)\b", versions):
                self.assertLessEqual(tuple(map(int, version.split("."))), most, f"{file} needs {kind}_{version}")


if __name__ == "__main__":
    unittest.main()
