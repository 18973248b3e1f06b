#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""draw.py INPUT OUTPUT DAYS: draws OUTPUT/ocean.png, which shows the temperature of the sea after the last day and
the mean heat into the sea."""
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

NX, NY = 120, 60
folder, out, days = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
is_sea = np.fromfile(folder / "ocean.bin")[: NX * NY].reshape(NY, NX) > 0
fields = np.memmap(out / "ocean.bin", dtype="f8", mode="r").reshape(-1, 4, NY, NX)[:days]

figure, axes = plt.subplots(2, 1, figsize=(9, 9), constrained_layout=True)
for axis, values, title, colours, limits in (
    (axes[0], fields[-1, 3], f"Temperature of the sea after {days} days, °C", "RdYlBu_r", (-2, 30)),
    (axes[1], fields[1:, 0].mean(axis=0), f"Heat into the sea, mean of days 2 to {days}, W/m²", "RdBu_r", (-200, 200)),
):
    shown = axis.imshow(np.ma.masked_where(~is_sea, values), origin="lower", extent=(0, 360, -90, 90), cmap=colours,
                        vmin=limits[0], vmax=limits[1])
    axis.set(title=title, xlabel="longitude", ylabel="latitude", facecolor="0.75", xticks=range(0, 361, 60), yticks=range(-90, 91, 30))
    figure.colorbar(shown, ax=axis, shrink=0.8)
figure.savefig(out / "ocean.png", dpi=110)
