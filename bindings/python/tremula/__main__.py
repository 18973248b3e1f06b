# SPDX-License-Identifier: Apache-2.0
"""python3 -m tremula doctor [--json] [--quick]: reports what is installed, what works and how fast it is. Exit code 0
if all is well. All other commands (serve, status, plan, bench, version) go to the program `tremula` that this package
uses.
"""
from __future__ import annotations

import os
import subprocess
import sys

from .tools.doctor import doctor
from .errors import Error
from .tools.programs import program

DOCTOR = "  doctor [--json] [--quick]   Report what is installed, what works and how fast it is"


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["doctor"]:
        path = program()
        if arguments[:1] in (["-h"], ["--help"]):
            code = subprocess.run([path, "--help"]).returncode
            print(f"\nAdded by the Python package:\n{DOCTOR}")
            return code
        os.execv(path, [path, *arguments])
    unknown = set(arguments[1:]) - {"--json", "--quick"}
    if unknown:
        print(f"doctor: expected --json or --quick, found {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    report = doctor(measure="--quick" not in arguments)
    print(report.json() if "--json" in arguments else report)
    return 0 if report.is_well else 1


def command() -> int:
    """Entry point of the script `tremula` that a wheel installs."""
    try:
        return main(sys.argv[1:])
    except Error as error:
        print(f"tremula: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(command())
