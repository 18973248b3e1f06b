# SPDX-License-Identifier: Apache-2.0
"""Converts keywords to the YAML mapping that the C interface takes, and finds the time limits that apply to waits."""
from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._library import c_text
from ..errors import InvalidArgument


def yaml_text(options: Mapping[str, Any], what: str) -> bytes:
    """Returns options as a YAML flow mapping. The library refuses keys that it does not know.

    >>> yaml_text({"server": "localhost:7423", "timeout": float("inf"), "queue_depth": np.int64(2)}, "session")
    b'{server: "localhost:7423", timeout: none, queue_depth: 2}'
    """
    return c_text("{" + ", ".join(f"{key}: {_value(key, value, what)}" for key, value in options.items()) + "}", what)


def _value(key: str, value: Any, what: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        number = float(value)
        if math.isinf(number) and number > 0:
            return "none"
        return str(value) if isinstance(value, int) else repr(number)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    raise InvalidArgument(f"{what}, key '{key}': expected a number, a text or a bool; found {type(value).__name__}")


DEFAULTS = {"timeout": 60.0, "step_timeout": 3600.0}


def seconds_of(key: str, options: Mapping[str, Any]) -> float:
    """Returns how long a wait may last, looked up where the library looks: the option, else the environment, else the
    file, else the default. Infinite for "none"."""
    value = options.get(key, os.environ.get("TREMULA_" + key.upper()))
    if key not in options and value in (None, ""):
        value = _in_file(key)
        if value is None:
            return DEFAULTS[key]
    if value is None or str(value) == "none":
        return math.inf
    try:
        return float(value)
    except (TypeError, ValueError):
        return DEFAULTS[key]  # the library reports what is wrong with it


def _in_file(key: str) -> str | None:
    """Returns the value of a line `key: value` in the file that TREMULA_CONFIG names; None if there is no such line."""
    try:
        with open(os.environ.get("TREMULA_CONFIG", ""), encoding="utf-8") as file:
            found = re.search(rf"^\s*[\"']?{key}[\"']?\s*:\s*[\"']?([^\s\"'#,}}]+)", file.read(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1) if found else None
