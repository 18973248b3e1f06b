#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of weights as programs write them, and their results according to the conventions.

conventions.py make FOLDER SEED PRODUCERS CONSUMERS   writes the files, the sources, the expected results, and `cases`
conventions.py check FOLDER CONSUMERS                 compares the results that the consumers have written

Written from the texts of the conventions, as algebra with a sparse matrix W:
  SCRIP User's Guide 1.4, 2.4: links (dst_address, src_address, remap_matrix[:, 0]) from 1; destination = W source.
  ESMF Reference Manual, 12.9: (row, col, S) from 1; "weights only" files contain nothing else.
  OASIS3-MCT User Guide, CONSERV: the integrals are over the points that are not masked. GLOBAL spreads the difference
    evenly over the target grid, GLBPOS in proportion to the field. BASBAL and BASPOS do so as well, after scaling the
    integral of the source by the ratio of the unmasked surfaces of target and source. A target without weights is 0
    at first.
"""
import sys

import numpy as np
from scipy.io import netcdf_file
from scipy.sparse import csr_matrix

N, M, STEPS = 60, 35, 2  # 10 x 6 and 7 x 5, first dimension fastest
UNTOUCHED = -7.0


def write(path, dimensions, variables, **attributes):
    with netcdf_file(path, "w") as f:
        for name, value in attributes.items():
            setattr(f, name, value)
        for name, extent in dimensions.items():
            f.createDimension(name, extent)
        for name, (kind, shape, values) in variables.items():
            f.createVariable(name, kind, shape)[:] = values


def links_of(rng, rows):
    """Returns three links for each of these rows, with weights that sum to 1."""
    row = np.repeat(rows, 3)
    column = np.concatenate([rng.choice(N, 3, replace=False) for _ in rows])
    weight = np.concatenate([w / w.sum() for w in rng.uniform(0.1, 1, (len(rows), 3))])
    return row, column, weight


def product(row, column, weight, source):
    return (csr_matrix((weight, (row, column)), shape=(M, N)) @ source.T).T


def shuffled(rng, *lists):
    order = rng.permutation(len(lists[0]))
    return [np.asarray(values)[order] for values in lists]


class Maker:
    def __init__(self, folder, seed, producers, consumers):
        self.folder, self.rng = folder, np.random.default_rng(seed)
        self.ranks, self.lines = (producers, consumers), []

    def add(self, name, source, expected, options="-", types="f64/f64", mask=None):
        np.asarray(source, "f8").tofile(f"{self.folder}/{name}.values")
        np.save(f"{self.folder}/{name}.expected.npy", expected)
        layouts = []
        for size, ranks, covered in ((N, self.ranks[0], mask), (M, self.ranks[1], None)):
            text = f"points shape={size} seed={self.rng.integers(10**6)}"
            if covered is not None:
                np.asarray(covered, "u1").tofile(f"{self.folder}/{name}.mask")
                text += f" mask={self.folder}/{name}.mask"
            layouts.append(text)
        words = f"{name} {self.folder}/{name}.nc {options.replace(' ', ';')} {types} {STEPS}"
        self.lines.append(" | ".join([words, *layouts]))

    def scrip(self, name, row, column, weight, kind="i", **more):
        row, column, weight = shuffled(self.rng, row, column, weight)
        write(f"{self.folder}/{name}.nc",
              {"num_links": len(row), "num_wgts": 1, "src_grid_size": N, "dst_grid_size": M, "rank": 2},
              {"src_grid_dims": ("i", ("rank",), [10, 6]), "dst_grid_dims": ("i", ("rank",), [7, 5]),
               "dst_address": (kind, ("num_links",), row), "src_address": (kind, ("num_links",), column),
               "remap_matrix": ("d", ("num_links", "num_wgts"), weight[:, None]), **more},
              map_method="Bilinear remapping", normalization="none")

    def padded(self):
        """Links without an address are padding; a row that has no other links has no weights."""
        row, column, weight = links_of(self.rng, np.arange(3, M))
        source = self.rng.uniform(-5, 5, (STEPS, N))
        expected = product(row, column, weight, source)
        expected[:, :3] = UNTOUCHED
        nothing = np.zeros(9, int)
        to = np.concatenate([row + 1, np.arange(1, 10), nothing[:4]])
        at = np.concatenate([column + 1, nothing, [7, 0, 0, 9]])
        self.scrip("padded", to, at, np.concatenate([weight, np.zeros(13)]))
        self.add("padded", source, expected, "{source_shape: [60]}")
        self.scrip("floating", to, at, np.concatenate([weight, np.zeros(13)]), kind="d")
        self.add("floating", source, expected, "{source_shape: [60]}")

    def zero_weights(self):
        """Links of weight 0 come from points that no rank has; row 0 has only such links."""
        row, column, weight = links_of(self.rng, np.arange(1, M))
        wet = np.zeros(N, bool)
        wet[column] = True
        wet[[4, 8]] = False
        keep = wet[column]
        row, column, weight = row[keep], column[keep], weight[keep]
        source = self.rng.uniform(-5, 5, (STEPS, N))
        to, at = np.concatenate([row, [0, 5, 6, 7]]), np.concatenate([column, [4, 8, 4, 8]])
        w = np.concatenate([weight, np.zeros(4)])
        expected = product(to, at, w, source)
        expected[:, np.setdiff1d(np.arange(M), to)] = UNTOUCHED
        self.scrip("zero_weights", to + 1, at + 1, w)
        self.add("zero_weights", source, expected, "{source_shape: [60]}", mask=wet)

    def weights_only(self):
        row, column, weight = links_of(self.rng, np.arange(M))
        source = self.rng.uniform(-5, 5, (STEPS, N))
        write(f"{self.folder}/weights_only.nc", {"n_s": len(row)},
              {"row": ("i", ("n_s",), row + 1), "col": ("i", ("n_s",), column + 1), "S": ("d", ("n_s",), weight)})
        self.add("weights_only", source, product(row, column, weight, source), "{source_shape: [60]}")

    def missing(self, name, value, kind):
        """Elements with this value are omitted; the others are averaged with their weights."""
        row, column, weight = links_of(self.rng, np.arange(M))
        source = self.rng.uniform(-5, 5, (STEPS, N)).astype(kind).astype("f8")
        here = self.rng.random((STEPS, N)) > 0.4
        here[:, column[row == 0]] = False  # a destination without any source
        total = product(row, column, weight, np.where(here, source, 0))
        used = product(row, column, weight, here.astype(float))
        whole = product(row, column, weight, np.ones((STEPS, N)))
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = np.where(used > 0, total * whole / used, -1.0)
        source[~here] = np.array(value, kind)
        self.scrip(name, row + 1, column + 1, weight)
        self.add(name, source, expected, f"{{missing: {value!r}, fill: -1, source_shape: [60]}}", f"f64/{kind}")

    def conserved(self, name, form, fill=0, changes_sign=False):
        """OASIS: some targets have no weights, and some points of either grid are masked. Targets without weights take
        part if `fill` is 0. Any other `fill` marks them as missing, and they keep it. With `changes_sign`, the
        integrals over the two grids have opposite signs."""
        row, column, weight = links_of(self.rng, np.arange(4, M))
        source = self.rng.uniform(1, 5, (STEPS, N))
        area_a, area_b = self.rng.uniform(1, 2, N), self.rng.uniform(1, 2, M)
        mask_a, mask_b = (self.rng.random(N) > 0.2).astype(int), (self.rng.random(M) > 0.2).astype(int)
        mask_b[:3] = [1, 1, 0]
        if changes_sign:  # by four points that no weight needs
            keep = column < N - 4
            row, column, weight = row[keep], column[keep], weight[keep]
            source[:, N - 4:], mask_a[N - 4:] = -1e4, 1
        expected = product(row, column, weight, source)
        takes_part = mask_b * (np.bincount(row, minlength=M) > 0) if fill != 0 else mask_b
        there, here = source @ (area_a * mask_a), expected @ (area_b * takes_part)
        if form.startswith("balanced"):
            there *= (area_b @ takes_part) / (area_a @ mask_a)
        if form in ("global", "balanced"):
            expected += np.outer((there - here) / (area_b @ takes_part), takes_part)
        else:
            expected *= np.where(takes_part == 1, np.outer(there / here, np.ones(M)), 1)
        if fill != 0:
            expected[:, np.bincount(row, minlength=M) == 0] = fill
        self.scrip(name, row + 1, column + 1, weight,
                   src_grid_area=("d", ("src_grid_size",), area_a), dst_grid_area=("d", ("dst_grid_size",), area_b),
                   src_grid_imask=("i", ("src_grid_size",), mask_a), dst_grid_imask=("i", ("dst_grid_size",), mask_b))
        self.add(name, source, expected, f"{{conserve: {form}, fill: {fill!r}, source_shape: [60]}}")


def make(folder, seed, producers, consumers):
    maker = Maker(folder, seed, producers, consumers)
    maker.padded()
    maker.zero_weights()
    maker.weights_only()
    for name, value, kind in (("missing_single", 1e20, "f4"), ("missing_double", 1e20, "f8"),
                              ("missing_cdo", -9e33, "f4"), ("missing_tenth", 0.1, "f4"),
                              ("missing_tiny", 1e-60, "f8"), ("missing_huge", 1e300, "f8")):
        maker.missing(name, value, kind)
    maker.conserved("conserved", "global")
    maker.conserved("positive", "positive")
    maker.conserved("positive_with_other_sign", "positive", changes_sign=True)
    maker.conserved("balanced", "balanced")
    maker.conserved("balanced_positive", "balanced_positive")
    maker.conserved("conserved_beside_marks", "global", 1e20)
    maker.conserved("positive_beside_marks", "positive", -7.5)
    maker.conserved("balanced_beside_marks", "balanced", 1e20)
    with open(f"{folder}/cases", "w") as f:
        f.write("\n".join(maker.lines) + "\n")


def check(folder, consumers):
    names = [line.split()[0] for line in open(f"{folder}/cases")]
    record = np.dtype([("case", "<i4"), ("step", "<i4"), ("number", "<i8"), ("value", "<f8")])
    found = np.concatenate([np.fromfile(f"{folder}/result.{rank}.bin", record) for rank in range(consumers)])
    failures = 0
    for case, name in enumerate(names):
        expected = np.load(f"{folder}/{name}.expected.npy")
        got = np.full((STEPS, M), np.nan)
        mine = found[found["case"] == case]
        got[mine["step"], mine["number"]] = mine["value"]
        bad = ~(np.abs(got - expected) <= 1e-12 * np.maximum(1, np.abs(expected)))
        for step, number in np.argwhere(bad)[:5]:
            print(f"{name}, step {step}: element {number}: expected {expected[step, number]!r}; "
                  f"found {got[step, number]!r}")
        failures += bad.any() or len(mine) != STEPS * M
    print(f"{len(names)} cases")
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(check(sys.argv[2], int(sys.argv[3])))
