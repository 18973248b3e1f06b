#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of weights computed from the geometry of the grids, cases of regridding, and their expected results.

oracle.py make FOLDER SEED PRODUCERS CONSUMERS   writes the files and `cases`
oracle.py check FOLDER CONSUMERS                 judges the results that the consumers have written
"""
import math
import random
import struct
import sys
from collections import defaultdict

import numpy as np
from scipy.io import netcdf_file

NX, NY = 24, 16  # longitudes and latitudes of the source; longitude is the file's fastest dimension
MX, MY = 18, 10


def lon(i):
    return 15.0 * i


def lat(j):
    return 10.0 * j - 75.0


def linear(x, y):
    return 3.0 + 0.5 * x + 0.25 * y


def bilinear(folder, rng):
    """SCRIP: points inside the source grid with four weights each, except that some points have none."""
    links, points = [], []
    for row in range(MX * MY):
        x, y = rng.uniform(0, lon(NX - 1)), rng.uniform(lat(0), lat(NY - 1))
        points.append((x, y))
        if row % 11 == 5:
            continue  # this element has no weights
        i, j = min(int(x / 15), NX - 2), min(int((y + 75) / 10), NY - 2)
        s, t = (x - lon(i)) / 15, (y - lat(j)) / 10
        four = [(j * NX + i, (1 - s) * (1 - t)), (j * NX + i + 1, s * (1 - t)),
                ((j + 1) * NX + i, (1 - s) * t), ((j + 1) * NX + i + 1, s * t)]
        rng.shuffle(four)
        links += [(row, column, weight) for column, weight in four]
    rng.shuffle(links)
    with netcdf_file(f"{folder}/bilinear.nc", "w") as f:
        scrip(f, links, [[w] for _, _, w in links], "Bilinear remapping", "fracarea")
    np.save(f"{folder}/points.npy", points)


def scrip(f, links, weights, method, normalization, areas=None):
    f.map_method, f.normalization = method, normalization
    for name, extent in [("num_links", len(links)), ("num_wgts", len(weights[0])), ("src_grid_size", NX * NY),
                         ("dst_grid_size", MX * MY), ("src_grid_rank", 2), ("dst_grid_rank", 2)]:
        f.createDimension(name, extent)

    def put(name, kind, dimensions, values):
        f.createVariable(name, kind, dimensions)[:] = values

    put("src_grid_dims", "i", ("src_grid_rank",), [NX, NY])
    put("dst_grid_dims", "i", ("dst_grid_rank",), [MX, MY])
    put("src_address", "i", ("num_links",), [c + 1 for _, c, _ in links])
    put("dst_address", "i", ("num_links",), [r + 1 for r, _, _ in links])
    put("remap_matrix", "d", ("num_links", "num_wgts"), weights)
    if areas:
        for side, (area, fraction, mask) in zip(("src", "dst"), areas):
            put(f"{side}_grid_area", "d", (f"{side}_grid_size",), area)
            put(f"{side}_grid_frac", "d", (f"{side}_grid_size",), fraction)
            put(f"{side}_grid_imask", "i", (f"{side}_grid_size",), mask)


def esmf(f, links, areas):
    f.normalization, f.map_method = "destarea", "Conservative remapping"
    for name, extent in [("n_s", len(links)), ("n_a", NX * NY), ("n_b", MX * MY), ("two", 2)]:
        f.createDimension(name, extent)

    def put(name, kind, dimension, values):
        f.createVariable(name, kind, (dimension,))[:] = values

    put("src_grid_dims", "i", "two", [NX, NY])
    put("dst_grid_dims", "i", "two", [MX, MY])
    put("row", "i", "n_s", [r + 1 for r, _, _ in links])
    put("col", "i", "n_s", [c + 1 for _, c, _ in links])
    put("S", "d", "n_s", [w for _, _, w in links])
    for side, (area, fraction, mask) in zip("ab", areas):
        put(f"area_{side}", "d", f"n_{side}", area)
        put(f"frac_{side}", "d", f"n_{side}", fraction)
        put(f"mask_{side}", "i", f"n_{side}", mask)


def cells(nx, ny):
    """Yields the west and east bounds of each cell, and the sines of its south and north bounds."""
    for j in range(ny):
        for i in range(nx):
            yield (2 * math.pi * i / nx, 2 * math.pi * (i + 1) / nx,
                   math.sin(math.pi * (j / ny - 0.5)), math.sin(math.pi * ((j + 1) / ny - 0.5)))


def conservative(folder, rng):
    """Overlaps of the cells of two grids on the sphere; the source has land without values."""
    source, destination = list(cells(NX, NY)), list(cells(MX, MY))
    mask = [0 if rng.random() < 0.3 else 1 for _ in source]
    mask[5 * NX: 8 * NX] = [0] * (3 * NX)  # whole destination cells are on land
    area_a = [(e - w) * (n - s) for w, e, s, n in source]
    area_b = [(e - w) * (n - s) for w, e, s, n in destination]
    overlaps = []
    for r, (w, e, s, n) in enumerate(destination):
        for c, (w2, e2, s2, n2) in enumerate(source):
            x, y = min(e, e2) - max(w, w2), min(n, n2) - max(s, s2)
            if x > 1e-12 and y > 1e-12 and mask[c]:
                overlaps.append((r, c, x * y))
    frac_b = [0.0] * len(destination)
    for r, _, a in overlaps:
        frac_b[r] += a / area_b[r]
    mask_b = [1] * len(frac_b)  # as ESMF writes it: elements that no source covers are not masked
    areas = ((area_a, [float(m) for m in mask], mask), (area_b, frac_b, mask_b))
    rng.shuffle(overlaps)
    destarea = [(r, c, a / area_b[r]) for r, c, a in overlaps]
    with netcdf_file(f"{folder}/conservative.nc", "w") as f:
        esmf(f, destarea, areas)
    with netcdf_file(f"{folder}/areas.nc", "w") as f:
        scrip(f, overlaps, [[a, a * 0.1, a * 0.2] for _, _, a in overlaps], "Conservative remapping", "none", areas)
    with open(f"{folder}/ocean", "wb") as f:
        f.write(bytes(mask))


def layout(rng, shape, ranks, allows_points, mask=None):
    if mask or (allows_points and rng.random() < 0.35):
        text = f"points shape={'x'.join(map(str, shape))} seed={rng.randrange(10**6)}"
        return text + (f" mask={mask}" if mask else "")
    grid = [1] * len(shape)
    rest, d = ranks, 0
    for p in (2, 2, 2, 3, 3, 5, 7):
        while rest % p == 0:
            d = rng.randrange(len(shape))
            grid[d] *= p
            rest //= p
    assert rest == 1
    block = [rng.randint(1, max(1, e // 2)) for e in shape]
    text = f"shape={'x'.join(map(str, shape))} grid={'x'.join(map(str, grid))} block={'x'.join(map(str, block))}"
    if len(shape) > 1 and rng.random() < 0.4:
        text += " store=column"
    elif rng.random() < 0.3:
        text += f" ghost={'x'.join(['1'] * len(shape))}"
    return text


def make(folder, seed, producers, consumers):
    rng = random.Random(seed)
    bilinear(folder, rng)
    conservative(folder, rng)
    kinds = [("bitwise", "bilinear", "-", "f64"), ("linear", "bilinear", "-", "f64"),
             ("column", "bilinear", "{order: column}", "f64"), ("flat", "bilinear", "{source_shape: [384]}", "f64"),
             ("single", "bilinear", "-", "f32"), ("filled", "bilinear", "{fill: -99}", "f64"),
             ("missing", "bilinear", "{missing: -300, fill: .nan}", "f64"),
             ("destarea", "conservative", "-", "f64"), ("fracarea", "conservative", "{normalize: fracarea}", "f64"),
             ("global", "conservative", "{conserve: global}", "f64"),
             ("positive", "conservative", "{conserve: positive, normalize: fracarea}", "f64"),
             ("nonefrac", "areas", "{normalize: fracarea}", "f64"), ("nonedest", "areas", "{normalize: destarea}", "f64")]
    with open(f"{folder}/cases", "w") as f:
        for kind, weights, options, kind_of_elements in kinds:
            for n in range(12 if kind == "bitwise" else 3):
                shape_a, shape_b = (NY, NX), (MY, MX)
                if kind == "column":
                    shape_a, shape_b = (NX, NY), (MX, MY)
                if kind == "flat":
                    shape_a, shape_b = (NX * NY,), (MX * MY,)
                is_ocean = weights != "bilinear" and n == 1
                a = layout(rng, shape_a, producers, True, f"{folder}/ocean" if is_ocean else None)
                b = layout(rng, shape_b, consumers, True)
                f.write(f"{kind}{n} {folder}/{weights}.nc {options.replace(' ', ';')} {kind_of_elements} 2 | {a} | {b}\n")


def value(kind, number, step):
    if kind == "linear":
        return linear(lon(number % NX), lat(number // NX)) + step
    if kind == "missing" and number % 3 == 0:
        return -300.0
    return ((number * 7919 + step * 104729) % 1000003) / 1024.0 - 300


def turned(address, nx, ny):
    """Returns the row-major number in shape nx x ny of the element with that address."""
    return address % nx * ny + address // nx


class Judge:
    def __init__(self, folder):
        self.failures = []
        self.points = np.load(f"{folder}/points.npy")
        read = {}
        for name in ("bilinear", "conservative", "areas"):
            with netcdf_file(f"{folder}/{name}.nc", mmap=False) as f:
                v = {k: f.variables[k].data.copy() for k in f.variables}
            if "S" in v:
                links = list(zip(v["row"] - 1, v["col"] - 1, v["S"]))
                self.areas = v["area_a"], v["mask_a"], v["area_b"], v["mask_b"], v["frac_b"]
            else:
                links = list(zip(v["dst_address"] - 1, v["src_address"] - 1, v["remap_matrix"][:, 0]))
            rows = defaultdict(list)
            for r, c, w in links:
                rows[int(r)].append((int(c), float(w)))
            for r in rows:
                rows[r].sort(key=lambda link: link[0])
            read[name] = rows
        self.rows = read
        area_a, mask_a, area_b, mask_b, frac_b = self.areas
        taking_part = [m and i in read["conservative"] for i, m in enumerate(mask_b)]
        if all(taking_part):
            self.fail("expected elements without weights; found none")
        self.areas = area_a, mask_a, area_b, taking_part, frac_b

    def fail(self, text):
        self.failures.append(text)

    def expected(self, kind, weights, step):
        """Returns the expected values by address of the destination; None for an element that does not change."""
        rows, result = self.rows[weights], {}
        number = (lambda a: turned(a, NX, NY)) if kind == "column" else (lambda a: a)
        area_a, mask_a, area_b, mask_b, frac_b = self.areas
        for r in range(MX * MY):
            if r not in rows:
                result[r] = -99.0 if kind == "filled" else math.nan if kind == "missing" else None
                continue
            total, used, whole = 0.0, 0.0, 0.0
            for c, w in rows[r]:
                x = value(kind, number(c), step)
                whole += w
                if kind == "missing" and x == -300:
                    continue
                total += w * x
                used += w
            if kind == "missing" and used != whole:
                total = total * whole / used if used else math.nan
            if kind in ("fracarea", "positive"):
                total /= frac_b[r]
            if kind == "nonefrac":
                total /= area_b[r] * frac_b[r]
            if kind == "nonedest":
                total /= area_b[r]
            result[r] = total
        if kind in ("global", "positive"):
            source = math.fsum(area_a[i] * value(kind, i, step) for i in range(NX * NY) if mask_a[i])
            there = math.fsum(area_b[i] * result[i] for i in range(MX * MY) if mask_b[i])
            whole = math.fsum(area_b[i] for i in range(MX * MY) if mask_b[i])
            for i in range(MX * MY):
                if mask_b[i]:
                    result[i] = result[i] + (source - there) / whole if kind == "global" else result[i] * source / there
        return result

    def check_integral(self, name, values, step):
        area_a, mask_a, area_b, mask_b, _ = self.areas
        source = math.fsum(area_a[i] * value("", i, step) for i in range(NX * NY) if mask_a[i])
        size = math.fsum(area_a[i] * abs(value("", i, step)) for i in range(NX * NY) if mask_a[i])
        there = math.fsum(area_b[i] * values[i] for i in range(MX * MY) if mask_b[i])
        if abs(source - there) > 1e-13 * size:
            self.fail(f"{name}: integrals {source} and {there}, a relative difference of {abs(source - there) / size}")
        return abs(source - there) / size


def check(folder, consumers):
    judge = Judge(folder)
    cases = [line.split() for line in open(f"{folder}/cases")]
    results, owned = defaultdict(dict), defaultdict(set)
    for rank in range(consumers):
        data = open(f"{folder}/result.{rank}.bin", "rb").read()
        for number, step, element, x in struct.iter_unpack("<iiqd", data):
            kind, address = cases[number][0].rstrip("0123456789"), element
            if kind == "column":
                address = turned(element, MY, MX)  # shape MX x MY, the file's fastest dimension first
            if address in results[number, step] and not math.isnan(x) and results[number, step][address] != x:
                judge.fail(f"{cases[number][0]}: element {address} twice, with two values")
            results[number, step][address] = x
            owned[number, rank].add(address)
    first, worst, linear_worst = {}, 0.0, 0.0
    for number, case in enumerate(cases):
        name, weights = case[0], case[1].split("/")[-1][:-3]
        kind = name.rstrip("0123456789")
        for step in range(2):
            found, expected = results[number, step], judge.expected(kind, weights, step)
            if set(found) != set(range(MX * MY)):
                judge.fail(f"{name}, step {step}: expected {MX * MY} elements; found {len(found)}")
                continue
            for address, x in found.items():
                e = expected[address] if expected[address] is not None else -7.0
                if kind == "single":
                    e = float(np.float32(e))
                is_exact = kind in ("bitwise", "linear", "column", "flat", "single", "filled", "destarea")
                same = x == e or (math.isnan(x) and math.isnan(e))
                if not same and (is_exact or not abs(x - e) <= 1e-12 * max(1.0, abs(e))):
                    judge.fail(f"{name}, step {step}: element {address}: expected {e!r}; found {x!r}")
            # The bits are equal in every decomposition of either side.
            bits = [struct.pack("<d", found[a]) for a in range(MX * MY)]
            if first.setdefault((kind, step), bits) != bits:
                judge.fail(f"{name}, step {step}: the bits differ from those of another decomposition")
            if kind in ("destarea", "global", "positive", "nonedest"):
                worst = max(worst, judge.check_integral(name, found, step))
            if kind == "linear":
                for address, (x, y) in enumerate(judge.points):
                    if expected[address] is not None:
                        error = abs(found[address] - step - linear(x, y)) / abs(linear(x, y) if abs(linear(x, y)) > 1 else 1)
                        linear_worst = max(linear_worst, error)
                        if error > 1e-12:
                            judge.fail(f"{name}: a linear field is off by {error} at {address}")
    for rank in range(consumers):
        for line in open(f"{folder}/result.{rank}.txt"):
            number, rows, links, points = map(int, line.split())
            name, weights = cases[number][0], cases[number][1].split("/")[-1][:-3]
            mine = [judge.rows[weights][a] for a in owned[number, rank] if a in judge.rows[weights]]
            needed = {c for row in mine for c, _ in row}
            if name.startswith(("global", "positive")):
                size, mask_a = NX * NY, judge.areas[1]
                begin = size // consumers * rank + min(rank, size % consumers)
                end = begin + size // consumers + (rank < size % consumers)
                needed |= {i for i in range(begin, end) if mask_a[i]}
            expected = len(mine), sum(map(len, mine)), len(needed)
            if (rows, links, points) != expected:
                judge.fail(f"{name}, rank {rank}: expected rows, links, points {expected}; found {(rows, links, points)}")
    for text in judge.failures[:20]:
        print(text)
    print(f"{len(cases)} cases, integrals differ by at most {worst:.1e}, a linear field by {linear_worst:.1e}")
    return 1 if judge.failures else 0


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(check(sys.argv[2], int(sys.argv[3])))
