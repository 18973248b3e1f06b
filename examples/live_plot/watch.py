# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# A notebook that watches the running tsunami. Each cell begins with `# %%`; Jupyter (with Jupytext), VS Code and
# PyCharm run the cells one by one, and `python3 watch.py` runs them all. TREMULA_SERVER names the server, OUTPUT the
# folder for the pictures, and SUMMARY the producer's summary, with which the last cell compares the steps.

# %% We want the newest step whenever we are ready for one. The simulation never waits for us.
import json
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import pacific
import tremula

output = Path(os.environ.get("OUTPUT", "."))
(output / "frames").mkdir(parents=True, exist_ok=True)

session = tremula.Session("watcher")
found = session.describe(pacific.STREAM)  # waits until the producer has opened the stream
shape = found.fields[pacific.FIELD].layout.shape
stream = session.in_stream(pacific.STREAM, steps="latest")
elevation = stream.field(pacific.FIELD, "f32", tremula.Layout.block(shape, (1, 1)))  # the whole field, on one rank
print(f"{pacific.STREAM}: {pacific.FIELD}, {shape[0]} x {shape[1]} cells")

# %% A map in which the picture of the sea is replaced step by step.
cell_minutes = pacific.DEGREES[0] * 60 // shape[0]
land = pacific.depth(cell_minutes) == 0
colours = plt.get_cmap("RdBu_r").copy()
colours.set_bad("0.72")
LIMIT = 20  # centimetres, at both ends of the colours


def draw(axes, heights):
    pacific.label_map(axes)
    return axes.imshow(np.ma.masked_where(land, 100 * heights), cmap=colours, vmin=-LIMIT, vmax=LIMIT, origin="lower",
                       extent=pacific.edges())


frame, axes = plt.subplots(figsize=(9, 5.4), layout="constrained")
sea = draw(axes, np.zeros(shape, np.float32))
frame.colorbar(sea, label="height of the sea surface, cm", extend="both", shrink=0.8)

# %% Watch. live.png is always the newest picture; frames/ has all pictures.
hours = [1, 2, 4, 6, 8, 10]  # one panel each in the final picture: the first step seen at or after that hour
kept = {}
steps, hashes = [], []
start = time.monotonic()
for step in stream:
    heights = step[elevation]
    step.end()
    number = step.number
    steps.append(number)
    hashes.append(pacific.step_hash(heights, number))
    for hour in hours:
        if hour not in kept and pacific.minutes_at(number) >= 60 * hour:
            kept[hour] = (number, heights)
            break
    sea.set_data(np.ma.masked_where(land, 100 * heights))
    axes.set_title(f"The tsunami of 11 March 2011, {pacific.clock(number)} after the earthquake")
    path = output / "frames" / f"step_{number:03}.png"
    frame.savefig(path, dpi=80)
    (output / "live.part").write_bytes(path.read_bytes())
    (output / "live.part").rename(output / "live.png")  # so that live.png is never half a picture
stream.close()
session.close()
print(f"saw {len(steps)} of {pacific.STEPS} steps in {time.monotonic() - start:.1f} s, the last one {steps[-1]}")

# %% The whole crossing in one picture.
panels = sorted(kept.values(), key=lambda found: found[0])
figure, grid = plt.subplots(3, 2, figsize=(12, 12), layout="constrained")
figure.get_layout_engine().set(h_pad=0.1)
for letter, axes, (number, heights) in zip("abcdef", grid.flat, panels):
    sea = draw(axes, heights)
    axes.set_title(f"{letter}  {pacific.clock(number)}", loc="left", fontsize=11)
for axes in grid.flat[len(panels):]:
    axes.set_axis_off()
figure.colorbar(sea, ax=grid, label="height of the sea surface, cm", extend="both", shrink=0.6, aspect=45, pad=0.015)
figure.suptitle(f"The tsunami of 11 March 2011, time since the earthquake\n{len(steps)} of {pacific.STEPS} steps seen "
                "while it was computed")
figure.savefig(output / "tsunami.png", dpi=100)
print(f"pictures: {output / 'tsunami.png'}, {output / 'live.png'}, {len(steps)} in {output / 'frames'}")
figure

# %% Was it right? The steps arrived in order, the last one among them, and each is what the producer put.
if "SUMMARY" in os.environ:
    summary = Path(os.environ["SUMMARY"])
    end = time.monotonic() + 60
    while not summary.exists() and time.monotonic() < end:  # the producer writes it at the end
        time.sleep(0.1)
    theirs = [int(text, 16) for text in json.loads(summary.read_text())["hash_per_step"]]
    equal = sum(theirs[number] == found for number, found in zip(steps, hashes))
    print(f"verified: {equal} of {len(steps)} steps have the hash that the producer wrote")
    if equal != len(steps) or steps != sorted(set(steps)) or steps[-1] != len(theirs) - 1:
        raise SystemExit(f"NOT VERIFIED: expected ascending steps up to {len(theirs) - 1} with equal hashes, found "
                         f"{equal} such hashes and the steps {steps}")
