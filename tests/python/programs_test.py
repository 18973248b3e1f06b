# SPDX-License-Identifier: Apache-2.0
"""Calls the program `tremula` from Python: plans, status, a separate server, the doctor."""
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout


class ProgramsTest(unittest.TestCase):
    def test_plan_lists_every_package(self):
        rows, cyclic = Layout.block((24, 36), (3, 2)), Layout.block_cyclic((24, 36), (2, 2), (3, 5))
        found = tremula.plan(rows, cyclic, all=True, type="float32", validate=True)
        self.assertEqual((found["from"], found["element_bytes"]), (rows.text, 4))
        for rank in found["ranks"]:
            mine = set(support.owned((24, 36), (3, 2), rank["rank"]).ravel())
            for package in rank["packages"]:
                theirs = set(support.owned((24, 36), (2, 2), package["peer"], (3, 5)).ravel())
                self.assertEqual(package["elements"], len(mine & theirs))
            self.assertEqual(sum(p["elements"] for p in rank["packages"]), len(mine))
        self.assertEqual(tremula.plan(rows, cyclic, type="int8")["element_bytes"], 1)
        consumer = tremula.plan(rows.text, cyclic, side="consumer", rank=2)
        self.assertEqual([r["rank"] for r in consumer["ranks"]], [2])

    def test_plan_names_the_mistake(self):
        with self.assertRaisesRegex(tremula.Error, "shape"):
            tremula.plan("shape=4 grid=2", "shape=5 grid=2")
        with self.assertRaisesRegex(tremula.InvalidArgument, "colour"):
            tremula.plan("shape=4 grid=2", "shape=4 grid=2", colour="red")

    def test_output_other_than_json_is_an_internal_error(self):
        done = subprocess.CompletedProcess([], 0, stdout='{"fill_value": 1.e+20}', stderr="")
        with mock.patch("subprocess.run", return_value=done):
            for call in (tremula.status, lambda: tremula.plan("shape=4 grid=2", "shape=4 grid=1")):
                with self.assertRaisesRegex(tremula.InternalError, r"expected JSON, found .*1\.e\+20"):
                    call()

    def test_version_equals_that_of_the_library(self):
        self.assertRegex(tremula.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(tremula.__version__, tremula.version())
        with self.assertRaisesRegex(AttributeError, "module 'tremula' has no attribute 'nothing'"):
            tremula.nothing

    def test_status_shows_the_running_stream(self):
        def produce(session):
            with session.out_stream("shown", wait_for_consumers=0) as out:
                value = out.field("value", "int8", Layout("shape=8 grid=1"))
                out.put(value, np.zeros(8, "int8"))
                return tremula.status(support.server().address), tremula.status(support.server().address, "shown")

        ((whole, one),), = support.run(("shower", 1, produce))
        self.assertIn("shown", json.dumps(whole))
        self.assertIn("shape=8 grid=1", json.dumps(one))
        self.assertIn('"element_type": "int8"', json.dumps(one))
        with self.assertRaises(tremula.NoServer):
            tremula.status("127.0.0.1:9")

    def test_status_shows_attributes_of_any_name(self):
        def produce(session):
            with session.out_stream("attributed", wait_for_consumers=0) as out:
                value = out.field("value", "int8", Layout("shape=8 grid=1"))
                out.attribute("element_type", [1, 2])
                out.attribute("element_type", "i8", of=value)
                out.put(value, np.zeros(8, "int8"))
                return tremula.status(support.server().address, "attributed")

        ((found,),) = support.run(("attributer", 1, produce))
        (stream,) = found["streams"]
        (field,) = stream["fields"]
        self.assertEqual(stream["attributes"], {"element_type": [1, 2]})
        self.assertEqual((field["element_type"], field["attributes"]), ("int8", {"element_type": "i8"}))

    def test_server_ends_with_its_context(self):
        with tremula.Server(heartbeat=0.5) as server:
            self.assertRegex(server.endpoint, r"^127\.0\.0\.1:\d+$")
            folder = os.path.dirname(server.log_file)
            self.assertEqual(os.stat(folder).st_mode & 0o77, 0)
            self.assertEqual(server.status()["groups"], [])
            environment = support.environment(TREMULA_SERVER=server.address)
            code = "import tremula; tremula.Session('g').close(); print('joined')"
            done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
            self.assertEqual((done.stdout, done.returncode), ("joined\n", 0), done.stderr)
            pid = server.pid
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertFalse(os.path.exists(folder))
        server.close()
        with self.assertRaisesRegex(tremula.InternalError, "has ended.*colour"):
            tremula.Server(colour="red")

    def test_server_outlives_a_forked_child(self):
        """A child that closes the server, or that just ends, removes neither its port file nor its key."""
        code = "import os, sys, tremula\nserver = tremula.Server()\nfor closes in (True, False):\n"
        code += "    if os.fork() == 0:\n        if closes: server.close()\n        sys.exit()\n    os.wait()\n"
        code += "tremula.Session('g', server=server.address, timeout=20).close()\nserver.close()\n"
        code += "print(os.path.exists(os.path.dirname(server.log_file)))"
        environment = support.environment()
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.returncode), ("False\n", 0), done.stderr)

    def test_server_needs_its_key(self):
        with tremula.Server() as server:
            environment = support.environment(TREMULA_SERVER=server.endpoint, TREMULA_KEY_FILE="none")
            code = "import tremula\ntry: tremula.Session('g', timeout=5)\n"
            code += "except tremula.Error as e: print(type(e).__name__)"
            done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
            self.assertEqual(done.stdout, "Refused\n", done.stderr)

    def test_missing_program_is_reported(self):
        self.assertTrue(os.access(tremula.program(), os.X_OK))
        with mock.patch.dict(os.environ, {"TREMULA_LIBRARY": "/nowhere/libtremula.so", "PATH": "/nowhere"}):
            with self.assertRaisesRegex(tremula.Unsupported, "the program tremula in .*found none"):
                tremula.program()

    def test_missing_library_is_named(self):
        code = "import tremula\ntry: tremula.Layout('shape=2 grid=1')\nexcept tremula.Unsupported as e: print(e)"
        environment = support.environment(TREMULA_LIBRARY="/nowhere/libtremula.so")
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertRegex(done.stdout, "expected libtremula.so.*found /nowhere/libtremula.so.*TREMULA_LIBRARY=")

    def test_doctor_reports_the_installation(self):
        command = [sys.executable, "-m", "tremula", "doctor"]
        environment = {k: v for k, v in support.environment().items() if k not in ("TREMULA_SERVER",)}
        done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["version"], tremula.version())
        self.assertEqual(found["modules"]["numpy"], np.__version__)
        self.assertEqual(found["transports"]["local"], "yes")
        self.assertRegex(found["stream"], r"^[\d.]+ GB/s in steps of 64 MiB, verified$")
        self.assertEqual((found["stream_path"], found["problems"]), ("lent", []))
        done = subprocess.run([*command, "--quick"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertIn("library  ", done.stdout)
        self.assertNotIn("memcpy", done.stdout)
        environment["TREMULA_LIBRARY"] = "/nowhere/libtremula.so"
        done = subprocess.run([*command, "--quick"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "problem .*expected libtremula.so")

    def test_module_runs_the_command_line(self):
        command = [sys.executable, "-m", "tremula", "version"]
        done = subprocess.run(command, env=support.environment(), capture_output=True, text=True)
        self.assertIn(tremula.version(), done.stdout)

    def test_the_command_line_says_what_the_program_says(self):
        environment = support.environment()
        run = lambda *command: subprocess.run(command, env=environment, capture_output=True, text=True)  # noqa: E731
        for line in ([], ["staus"], ["serve", "--prot", "7"], ["plan", "--help"]):
            expected, found = run(tremula.program(), *line), run(sys.executable, "-m", "tremula", *line)
            of = lambda done: (done.returncode, done.stdout, done.stderr)  # noqa: E731
            self.assertEqual(of(found), of(expected), line)
        for option in ("--help", "-h"):
            found = run(sys.executable, "-m", "tremula", option)
            self.assertEqual((found.returncode, found.stderr), (0, ""))
            self.assertTrue(found.stdout.startswith(run(tremula.program(), "--help").stdout))
            self.assertIn("doctor [--json] [--quick]", found.stdout)


if __name__ == "__main__":
    unittest.main()
