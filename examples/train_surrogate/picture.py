# SPDX-License-Identifier: Apache-2.0
"""A picture of the forecast next to the truth, and of how the network learned."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pacific


def draw(path: Path, sea: Any, truth: Any, said: Any, now: Any, losses: list[float], step: int, minutes: int,
         learned: int) -> None:
    """Draws the picture.

    :param sea: which cells are sea; truth, said, now: the state of `step`, the network's forecast of it, and the state
        `minutes` before, all in metres; learned: number of steps from which the network learned
    """
    figure = plt.figure(figsize=(13, 10.6), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)
    axes = figure.subplot_mosaic("AB;CD;EE", height_ratios=[1, 1, 0.45])
    limit = 100 * float(np.quantile(np.abs(truth[sea & (np.abs(truth) > 1e-3)]), 0.98))  # ends of the colours, cm
    colours = plt.get_cmap("RdBu_r").copy()
    colours.set_bad("0.72")

    def size(error: Any) -> str:
        return f"{100 * float(np.sqrt(np.mean(error[sea] ** 2))):.2f} cm"

    panels = {"A": ("simulation", truth), "B": ("network", said),
              "C": (f"network - simulation, root mean square {size(said - truth)}", said - truth),
              "D": (f"persistence - simulation, root mean square {size(now - truth)}", now - truth)}
    for name, (title, values) in panels.items():
        shown = axes[name].imshow(np.ma.masked_where(~sea, 100 * values), cmap=colours, vmin=-limit, vmax=limit,
                                  origin="lower", extent=pacific.edges(), interpolation="nearest")
        pacific.label_map(axes[name])
        axes[name].set_title(f"{name.lower()}  {title}", fontsize=11, loc="left")
    figure.colorbar(shown, ax=[axes[n] for n in panels], label="height of the sea surface, cm", extend="both",
                    shrink=0.7, aspect=40, pad=0.015)
    figure.suptitle(f"The tsunami of 11 March 2011, {pacific.clock(step)} after the earthquake: forecast from its "
                    f"state {minutes} minutes before\nThe network learned only from the first "
                    f"{pacific.clock(learned - 1)}", fontsize=12)

    curve = axes["E"]
    updates, width = np.arange(1, len(losses) + 1), 9
    curve.semilogy(updates, losses, color="0.75", linewidth=0.8, label="each update")
    if len(losses) >= width:
        middle = np.median(np.lib.stride_tricks.sliding_window_view(losses, width), axis=1)
        curve.semilogy(updates[width // 2 : width // 2 + len(middle)], middle, color="C0",
                       label=f"network, median of {width}")
    curve.axhline(1, color="C3", linestyle="--", label="persistence")
    curve.set(xlabel="updates of the weights", ylabel="squared error", xlim=(1, max(len(losses), 2)))
    curve.set_title("e  next state, relative to the error of persistence", fontsize=11, loc="left")
    curve.grid(alpha=0.3)
    curve.legend(loc="upper right", bbox_to_anchor=(1, 0.93), ncol=3, fontsize=9)
    figure.savefig(path, dpi=110)
