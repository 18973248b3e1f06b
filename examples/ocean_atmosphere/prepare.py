#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prepare.py FOLDER: makes the input data of the two models from the climatology COADS and the relief ETOPO.

CDO (https://code.mpimet.mpg.de/projects/cdo) makes the weights, which are conservative and in the format of SCRIP. The
files in FOLDER are:
  o2a.nc, a2o.nc         weights from ocean to atmosphere and back; o2a.bin, a2o.bin: the same for the serial program
  atmosphere.bin         5 fields of 12 months: air temperature, humidity, wind speed, wind to the east, to the north
  sea_at_atmosphere.bin  1 where the atmosphere receives a sea temperature
  ocean.bin              1 where there is sea; January temperature; annual mean, towards which the sea relaxes
  sst.nc, flux.nc        restart files of the first run: January temperature, zero fluxes
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.io import netcdf_file

DATA = Path("/usr/share/ferret-vis/data")
NX, NY = 120, 60  # grid of the ocean, 3 degrees
OCEAN = f"gridtype=lonlat\nxsize={NX}\nysize={NY}\nxfirst=1.5\nxinc=3\nyfirst=-88.5\nyinc=3\n"


def cdo(*words):
    try:
        subprocess.run(["cdo", "-s", "-O", "-f", "nc", *map(str, words)], check=True)
    except FileNotFoundError:
        sys.exit("prepare.py: expected the program cdo, found none; install cdo")
    except subprocess.CalledProcessError:
        sys.exit(f"prepare.py: cdo {' '.join(map(str, words))} failed")


def field(path, name):
    with netcdf_file(path, mmap=False) as f:
        return np.array(f.variables[name].data, dtype="f8")


def links(weights, out):
    """Writes the weights for the serial program: their number, then all rows, columns (both from 0) and weights.

    :return: the rows
    """
    with netcdf_file(weights, mmap=False) as f:
        rows = f.variables["dst_address"].data.astype("i4") - 1
        columns = f.variables["src_address"].data.astype("i4") - 1
        values = f.variables["remap_matrix"].data[:, 0].astype("f8")
    with open(out, "wb") as f:
        for part in (np.array([len(rows)], "i4"), rows, columns, values):
            f.write(part.astype(part.dtype.newbyteorder("<")).tobytes())
    return rows


def restart(path, nx, ny, **fields):
    with netcdf_file(path, "w") as f:
        f.createDimension("nx", nx)
        f.createDimension("ny", ny)
        for name, values in fields.items():
            f.createVariable(name, "d", ("ny", "nx"))[:] = values


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    coads, relief = DATA / "coads_climatology.cdf", DATA / "etopo60.cdf"
    for path in (coads, relief):
        if not path.exists():
            sys.exit(f"prepare.py: expected {path}, found no file; install ferret-datasets")
    grid = folder / "ocean.grid"
    grid.write_text(OCEAN)
    full, sea, depth = folder / "coads.nc", folder / "sea.nc", folder / "depth.nc"
    cdo("setmisstonn", coads, full)  # land, and sea without observations, take their nearest neighbour's value
    cdo(f"remapcon,{grid}", relief, depth)
    cdo("setrtomiss,-100,20000", depth, sea)  # sea less than 100 m deep counts as land
    cdo(f"gencon,{full}", sea, folder / "o2a.nc")
    cdo(f"gencon,{grid}", "-selname,SST", "-seltimestep,1", full, folder / "a2o.nc")
    cdo(f"remapcon,{grid}", "-selname,SST", full, folder / "sst_of_ocean.nc")

    rows = links(folder / "o2a.nc", folder / "o2a.bin")
    links(folder / "a2o.nc", folder / "a2o.bin")
    months = np.array([field(full, name) for name in ("AIRT", "SPEH", "WSPD", "UWND", "VWND")])  # [field][month][y][x]
    months.transpose(1, 0, 2, 3).astype("<f8").tofile(folder / "atmosphere.bin")
    has_sea = np.zeros(months[0, 0].size)
    has_sea[rows] = 1
    has_sea.astype("<f8").tofile(folder / "sea_at_atmosphere.bin")
    is_sea = (field(sea, "ROSE").ravel() < -100) & (field(sea, "ROSE").ravel() > -20000)
    sst = field(folder / "sst_of_ocean.nc", "SST").reshape(12, -1)
    np.array([is_sea, sst[0], sst.mean(axis=0)], dtype="<f8").tofile(folder / "ocean.bin")
    january = np.where(is_sea, sst[0], 0).reshape(NY, NX)
    restart(folder / "sst.nc", NX, NY, OSST=january)
    zero = np.zeros(months[0, 0].shape)
    restart(folder / "flux.nc", zero.shape[1], zero.shape[0], AHEAT=zero, ATAUX=zero, ATAUY=zero)
    print(f"prepared     {int(is_sea.sum())} of the ocean's {NX}x{NY} elements are sea, "
          f"{int(has_sea.sum())} of the atmosphere's {zero.shape[1]}x{zero.shape[0]} are over it")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: prepare.py FOLDER")
    main(Path(sys.argv[1]))
