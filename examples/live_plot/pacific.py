# SPDX-License-Identifier: Apache-2.0
"""The grid of the tsunami's producer, the sea floor below it, and hashes of its steps, as in agreement.hpp, relief.hpp
and step_hash.hpp of examples/tsunami."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import Any

import numpy as np

STREAM, FIELD = "tsunami", "elevation"  # metres above still water; shape [rows][columns], south to north; 0 on land
STEPS = 300
MINUTES_PER_STEP = 2
WEST, SOUTH = 120.0, -50.0  # position of the first point of the relief, in degrees
DEGREES = (112, 170)  # extents in latitude and longitude
POINTS_PER_DEGREE = 12  # ETOPO5
SHALLOWEST = 10.0  # metres; the producer makes the sea at least this deep
RELIEF = os.environ.get("TSUNAMI_RELIEF", "/usr/share/ferret-vis/data/etopo5.cdf")


def shape(cell_minutes: int) -> tuple[int, int]:
    """Returns the numbers of rows and columns of the grid."""
    return DEGREES[0] * 60 // cell_minutes, DEGREES[1] * 60 // cell_minutes


def minutes_at(step: int) -> int:
    """Returns the model time from the earthquake to a step, in minutes."""
    return (step + 1) * MINUTES_PER_STEP


def clock(step: int) -> str:
    hours, minutes = divmod(minutes_at(step), 60)
    return f"{hours} h {minutes:02d} min"


def edges() -> tuple[float, float, float, float]:
    """Returns west, east, south, north in degrees, in the order of the extent of matplotlib's imshow. A point of the
    relief is in the middle of a square of 5'."""
    half = 0.5 / POINTS_PER_DEGREE
    return WEST - half, WEST + DEGREES[1] - half, SOUTH - half, SOUTH + DEGREES[0] - half


def latitudes(cell_minutes: int) -> Any:
    """Returns the latitudes of the centres of the rows of cells, in degrees."""
    south, north = edges()[2:]
    rows = shape(cell_minutes)[0]
    return south + (np.arange(rows) + 0.5) * (north - south) / rows


def depth(cell_minutes: int) -> Any:
    """Returns the depth of still water in metres, 0 on land; shape [rows][columns]. The height of a cell is the mean
    of its points."""
    nodes = cell_minutes // 5
    rows, columns = (n * POINTS_PER_DEGREE for n in DEGREES)
    start = round((SOUTH + 90) * POINTS_PER_DEGREE), round(WEST * POINTS_PER_DEGREE)
    heights = _read(RELIEF, "ROSE", start, (rows, columns))
    heights = heights.reshape(rows // nodes, nodes, columns // nodes, nodes).mean(axis=(1, 3))
    return np.where(heights >= 0, 0, np.maximum(-heights, SHALLOWEST)).astype(np.float32)


def _read(path: str, variable: str, start: tuple[int, int], count: tuple[int, int]) -> Any:
    """Returns a part of a variable of a NetCDF file, read with the C library that the producer also uses."""
    name = ctypes.util.find_library("netcdf")
    if name is None:
        raise SystemExit("expected the library NetCDF, found none: install libnetcdf-dev")
    netcdf = ctypes.CDLL(name)
    netcdf.nc_strerror.restype = ctypes.c_char_p
    file, number = ctypes.c_int(), ctypes.c_int()
    found = np.empty(count, np.float32)
    sizes = ctypes.c_size_t * 2

    def check(status: int) -> None:
        if status != 0:
            raise SystemExit(f"{path}: expected ETOPO5 with the variable {variable}: "
                             f"{netcdf.nc_strerror(status).decode()}: install ferret-datasets, or name the file in "
                             "TSUNAMI_RELIEF")

    check(netcdf.nc_open(path.encode(), 0, ctypes.byref(file)))
    check(netcdf.nc_inq_varid(file, variable.encode(), ctypes.byref(number)))
    check(netcdf.nc_get_vara_float(file, number, sizes(*start), sizes(*count), ctypes.c_void_p(found.ctypes.data)))
    check(netcdf.nc_close(file))
    return found


def label_map(axes: Any) -> None:
    """Labels the axes with degrees, as on a chart."""
    longitudes, latitudes = range(120, 290, 30), range(-40, 61, 20)
    east = ["180°" if x == 180 else f"{x}°E" if x < 180 else f"{360 - x}°W" for x in longitudes]
    axes.set_xticks(longitudes, east)
    axes.set_yticks(latitudes, ["0°" if y == 0 else f"{y}°N" if y > 0 else f"{-y}°S" for y in latitudes])
    axes.tick_params(labelsize=8)


def step_hash(values: Any, step: int, first: int = 0) -> int:
    """Returns the hash of elements with the global numbers `first`, first + 1, ... of a step, as defined in
    examples/tsunami/step_hash.hpp. The sum over all elements, modulo 2^64, is what the producer writes into its
    summary."""
    bits = np.ascontiguousarray(values).ravel().view(np.uint32)
    places = np.arange(first, first + bits.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return int(_mixed(_mixed(np.array([step + 1], np.uint64)) + places + bits).sum(dtype=np.uint64))


def _mixed(x: Any) -> Any:
    """Returns x mixed by splitmix64 (S. Vigna, public domain); integers are modulo 2^64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
