# SPDX-License-Identifier: Apache-2.0
"""Tests tensors that the ranks of a writer publish together: different names, equal copies, tiles, many small
tensors."""
import itertools
import multiprocessing
import os
import time
import unittest
from unittest import mock

import numpy as np
import torch

import tremula
import tremula.torch as tt
import torch_support
from support import run
from tremula.torch.declared import named
from tremula.torch.follow import Follower

torch.set_num_threads(1)


def publishes(tensors_of_rank, readers=1, **options):
    """Returns the work of a trainer that publishes one version of tensors_of_rank(rank) for `readers` groups, and that
    returns the layouts or the error."""
    def work(session):
        try:
            with tt.publish(tensors_of_rank(session.rank), "weights", session=session, wait_for_readers=readers,
                            **options) as out:
                out.version()
                return {name: layout.text for name, layout in out.layouts.items()}
        except (tremula.Error, ValueError) as error:
            return type(error).__name__, str(error)
    return work


def follows(wanted, **options):
    """Returns the work of a reader that fills tensors with -1, follows one version, and returns the tensors by name, or
    the error."""
    def work(session):
        tensors = {name: torch.full(shape, -1.0) for name, shape in wanted.items()}
        try:
            with tt.follow(tensors, "weights", session=session, **options) as reader:
                reader.update()
                return {name: tensor.tolist() for name, tensor in tensors.items()}
        except (tremula.Error, ValueError) as error:
            return type(error).__name__, str(error)
    return work


class Names(unittest.TestCase):
    def test_ranks_with_different_names_give_one_version(self):
        def stage(rank):  # of a pipeline; tied tensors are on the first and the last stage
            tied = {"embed": torch.arange(6.0)} if rank in (0, 2) else {}
            return {**tied, f"layer{rank}": torch.full((2, 3), 1.0 + rank)}

        wanted = {"embed": (6,), **{f"layer{rank}": (2, 3) for rank in range(3)}}
        for hashes in ([], ["own", torch.bfloat16]):
            texts, found = run(("trainer", 3, publishes(stage, hashes=hashes)), ("reader", 1, follows(wanted)))
            expected = {"embed": list(range(6)), **{f"layer{r}": [[1.0 + r] * 3] * 2 for r in range(3)}}
            self.assertEqual(found, [expected])
            self.assertEqual(texts[0], {"embed": "shape=6 mesh=2 members=0/2", "layer0": "shape=2x3 mesh=1 members=0",
                                        "layer1": "shape=2x3 mesh=1 members=1", "layer2": "shape=2x3 mesh=1 members=2"})
            self.assertEqual(texts, [texts[0]] * 3)

    def test_layout_names_the_ranks_of_a_tensor(self):
        def experts(rank):
            return {"all": torch.arange(4.0), f"pair{rank // 2}": torch.full((2,), float(rank))}

        def work(session):
            layouts = {f"pair{session.rank // 2}": f"shape=4 grid=2 members={session.rank // 2 * 2}-{session.rank // 2 * 2 + 1}"}
            return publishes(experts, layouts=layouts)(session)
        _, found = run(("trainer", 4, work), ("reader", 1, follows({"all": (4,), "pair0": (4,), "pair1": (4,)})))
        self.assertEqual(found, [{"all": [0, 1, 2, 3], "pair0": [0, 0, 1, 1], "pair1": [2, 2, 3, 3]}])

    def test_one_name_for_two_tensors_is_refused(self):
        for second, what in ((torch.zeros(2, 3, dtype=torch.float64), "f64 of shape .2, 3. on rank 1"),
                             (torch.zeros(3, 3), "f32 of shape .3, 3. on rank 1")):
            found, = run(("trainer", 2, publishes(lambda rank: {"w": torch.zeros(2, 3) if rank == 0 else second})))
            for kind, text in found:
                self.assertEqual(kind, "ValueError")
                self.assertRegex(text, f"tensor 'w': expected the same type, shape and layout on all ranks, found f32 of "
                                 f"shape .2, 3. on rank 0 and {what}: .*layouts=")

    def test_replicas_need_one_mesh_of_all_ranks(self):
        def of_rank(rank):
            return {"w": torch.arange(4.0).chunk(2)[rank % 2]}

        def work(session):
            first = session.rank // 2 * 2
            return publishes(of_rank, layouts={"w": f"shape=4 grid=2 members={first}-{first + 1}"})(session)
        found, = run(("trainer", 4, work))
        for kind, text in found:
            self.assertEqual(kind, "ValueError")
            self.assertRegex(text, "replicas that each have a mesh, use one mesh of all ranks .2 replicas of 2 ranks: mesh=2x2 axes0=1")
        _, found = run(("trainer", 4, publishes(of_rank, layouts={"w": "shape=4 mesh=2x2 axes0=1"})),
                       ("reader", 1, follows({"w": (4,)})))
        self.assertEqual(found, [{"w": [0, 1, 2, 3]}])

    def test_missing_part_of_a_layout_is_refused(self):
        found, = run(("trainer", 3, lambda session: publishes(
            lambda rank: {"w": torch.zeros(2), "x": torch.zeros(1)} if rank else {"x": torch.zeros(1)},
            layouts={"w": "shape=6 grid=3"} if session.rank else {})(session)))
        for kind, text in found:
            self.assertEqual(kind, "ValueError")
            self.assertRegex(text, "tensor 'w': expected it on every rank to which its layout gives a part.*found none on rank 0")

    def test_rank_without_elements_may_give_no_tensor(self):
        whole = torch.arange(16.0).reshape(2, 8)
        layouts = {"w": "shape=2x8 grid=4x1"}
        for given in ({}, {"w": torch.zeros(0)}, {"w": torch.zeros(0, 0)}, {"w": torch.zeros(0, 8)}):
            def gives(session):
                mine = {"w": whole[session.rank:session.rank + 1].clone()} if session.rank < 2 else given
                return publishes(lambda _: {"x": torch.ones(1), **mine}, 2, layouts=layouts if mine else {})(session)

            def gets(session):
                tensor = torch.full((1, 8), -1.0) if session.rank < 2 else given.get("w", torch.zeros(0)).clone()
                with tt.follow({"w": tensor}, "weights", session=session, layouts=layouts) as reader:
                    reader.update()
                return tensor.tolist()
            _, found, parts = run(("trainer", 4, gives), ("reader", 1, follows({"w": (2, 8)})), ("parts", 4, gets))
            self.assertEqual(found, [{"w": whole.tolist()}])
            self.assertEqual(parts, [[whole[0].tolist()], [whole[1].tolist()], [], []])

    def test_missing_list_of_one_rank_is_refused(self):
        def work(session):
            layouts = {"w": tremula.Layout.of_points((6,), 3, [session.rank * 2, session.rank * 2 + 1])} if session.rank else {}
            return publishes(lambda rank: {"w": torch.zeros(2)} if rank else {"x": torch.zeros(1)}, layouts=layouts)(session)
        found, = run(("trainer", 3, work))
        for kind, text in found:
            self.assertEqual(kind, "ValueError")
            self.assertRegex(text, "tensor 'w': expected every rank to give it, because each.*found it on ranks 1, 2")

    def test_failure_of_one_rank_ends_the_call_on_all(self):
        for tensors, text in ((lambda rank: {"w": torch.zeros(5 if rank == 1 else 2)}, "tensor 'w': expected a part of"),
                              (lambda rank: {"w": torch.zeros(2) if rank != 1 else 3}, "'w': expected a tensor, found int")):
            found, = run(("trainer", 3, publishes(tensors, layouts={"w": "shape=6 grid=3"})))
            self.assertEqual([kind for kind, _ in found], ["PeerLost", "ValueError", "PeerLost"])
            for rank in (0, 2):
                self.assertRegex(found[rank][1], f"group 'trainer' to publish; rank 1 has failed: ValueError: {text}")


class Copies(unittest.TestCase):
    def test_unequal_copies_are_refused_on_all_ranks(self):
        def experts(rank):
            return {"same": torch.ones(3), "experts.0.w": torch.full((4, 4), float(rank == 2)), "b": torch.full((2,), rank)}

        for hashes in ([], ["own"]):
            found, = run(("trainer", 3, publishes(experts, hashes=hashes)))  # fails before it waits for a reader
            for kind, text in found:
                self.assertEqual(kind, "ValueError")
                self.assertRegex(text, r"tensor 'experts.0.w': expected equal copies on all ranks.*found other numbers on "
                                 r"rank 2 than on rank 0 \(and those of 1 other tensors\).*broadcast.*layouts=")

    def test_equal_copies_of_every_type_are_accepted(self):
        types = (torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64, torch.uint8)
        same = {**{str(t): torch.ones(5, dtype=t) for t in types}, "none": torch.zeros(0), "one": torch.tensor(2.0)}
        texts, found = run(("trainer", 2, publishes(lambda _: same)), ("reader", 1, follows({"one": ()})))
        self.assertEqual(found, [{"one": 2.0}])
        self.assertEqual(texts[0]["one"], "shape=1 mesh=2")

    def test_flat_parameter_of_fsdp1_is_refused_by_name(self):
        flat = {"_fsdp_wrapped_module._flat_param": torch.zeros(8)}
        found, = run(("trainer", 2, publishes(lambda _: flat)))
        for kind, text in found:
            self.assertEqual(kind, "ValueError")
            self.assertRegex(text, "flat parameter of FSDP1.*SHARDED_STATE_DICT.*layouts=")
        layouts = {"_fsdp_wrapped_module._flat_param": "shape=16 grid=2"}
        _, found = run(("trainer", 2, publishes(lambda _: flat, layouts=layouts)),
                       ("reader", 1, follows({"_fsdp_wrapped_module._flat_param": (16,)})))
        self.assertEqual(found, [{"_fsdp_wrapped_module._flat_param": [0.0] * 16}])

    def test_at_most_eight_ranks_are_named(self):
        self.assertEqual(named(range(9)), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and more")


WHOLE = torch.arange(20.0).reshape(4, 5)
TILES = [((0, 0), (2, 3)), ((0, 3), (2, 2)), ((2, 0), (2, 3)), ((2, 3), (2, 2))]


class Placement:
    def __init__(self, rank):
        self._rank = rank

    def rank(self):
        return self._rank


class ShardMetadata:
    def __init__(self, k):
        (self.shard_offsets, self.shard_sizes), self.placement = TILES[k], Placement(k)


class Metadata:
    size, shards_metadata = torch.Size([4, 5]), [ShardMetadata(k) for k in range(4)]


class Shard:
    def __init__(self, tensor):
        self.tensor = tensor


class Tiled:
    """A stand-in with the attributes of a ShardedTensor."""
    placements, shape = None, torch.Size([4, 5])

    def __init__(self, rank, whole):
        (r, c), (h, w) = TILES[rank]
        self._shard = Shard(whole[r:r + h, c:c + w].clone())

    def metadata(self):
        return Metadata()

    def local_shards(self):
        return [self._shard]


class Tiles(unittest.TestCase):
    def test_tiles_can_be_published_and_followed(self):
        def reads(session):
            tensor = Tiled(session.rank, torch.full((4, 5), -1.0))
            with tt.follow({"w": tensor}, "weights", session=session, verify="none") as reader:
                reader.update()
            return torch.equal(tensor.local_shards()[0].tensor, Tiled(session.rank, WHOLE).local_shards()[0].tensor)
        texts, found, tiles = run(("trainer", 4, publishes(lambda rank: {"w": Tiled(rank, WHOLE)}, 2)),
                              ("reader", 1, follows({"w": (4, 5)})), ("tiles", 4, reads))
        self.assertEqual(texts, [{"w": "shape=4x5 lists=4"}] * 4)
        self.assertEqual(found, [{"w": WHOLE.tolist()}])
        self.assertEqual(tiles, [True] * 4)


class Padding(unittest.TestCase):
    def test_reader_cuts_a_padded_vocabulary(self):
        embed = torch.arange(40.0).reshape(10, 4)
        cut = {"embed": [tt.Piece("embed", (0, 0), extents=(8, 4))]}
        _, found = run(("trainer", 2, publishes(lambda _: {"embed": embed})), ("reader", 1, follows({"embed": (8, 4)}, fused=cut)))
        self.assertEqual(found, [{"embed": embed[:8].tolist()}])


class Memory(unittest.TestCase):
    def test_views_of_one_memory_in_two_orders_fail(self):
        whole = torch.arange(6.0).reshape(2, 3)
        with self.assertRaisesRegex(ValueError, r"tensor 'turned': expected the memory of 'whole' in the same order, found "
                                    r"strides \(1, 3\) and \(3, 1\)"):
            tt.to_shared_memory({"whole": whole, "turned": whole.t()})
        turned = {"a": torch.arange(6.0).reshape(2, 3).t()}
        turned["b"] = turned["a"][:]
        tt.to_shared_memory(turned)
        self.assertEqual(turned["a"].tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(turned["a"].data_ptr(), turned["b"].data_ptr())

    def test_tensors_that_overlap_in_part_fail(self):
        whole = torch.arange(12.0).reshape(3, 4)
        for part in (whole[1], whole[:, 1], whole.view(12)[5:7].view(torch.int32), whole.view(torch.int32)):
            with self.assertRaisesRegex(ValueError, "expected no memory of '(whole|part)', or all of it in the same"):
                tt.to_shared_memory({"whole": whole, "part": part})
        halves = {"left": whole[:, :2], "right": whole[:, 2:], "other": torch.arange(3.0, dtype=torch.bfloat16)}
        before = {name: tensor.tolist() for name, tensor in halves.items()}
        tt.to_shared_memory(halves)
        self.assertEqual({name: tensor.tolist() for name, tensor in halves.items()}, before)

    def test_shared_tensors_take_one_descriptor(self):
        tensors = {str(k): torch.full((k % 7 + 1,), float(k % 100), dtype=(torch.float32, torch.bfloat16, torch.int8)[k % 3])
                   for k in range(2000)}
        tensors["tied"] = tensors["5"].view(3, 2)
        objects = {name: id(tensor) for name, tensor in tensors.items()}
        before = {name: tensor.tolist() for name, tensor in tensors.items()}
        open_before = len(os.listdir("/proc/self/fd"))
        tt.to_shared_memory(tensors)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")) - open_before, 1)
        self.assertEqual({name: tensor.tolist() for name, tensor in tensors.items()}, before)
        self.assertEqual({name: id(tensor) for name, tensor in tensors.items()}, objects)
        self.assertEqual(tensors["tied"].data_ptr(), tensors["5"].data_ptr())

    def test_reader_swaps_many_lent_tensors(self):
        def trainer(session):
            tensors = {str(k): torch.full((k % 5 + 1, 3), 1.0 + k) for k in range(300)}
            tt.to_shared_memory(tensors)
            with tt.publish(tensors, "weights", session=session, versions="lend", wait_for_readers=1) as out:
                out.version()

        def reader(session):
            tensors = {str(k): torch.zeros(k % 5 + 1, 3) for k in range(300)}
            with tt.follow(tensors, "weights", session=session, buffers="swap") as follower:
                follower.update()
            return all(torch.equal(t, torch.full(t.shape, 1.0 + int(k))) for k, t in tensors.items())
        self.assertEqual(run(("trainer", 1, trainer), ("reader", 1, reader))[1], [True])


def produce(rank, outlives, timeout, is_over):
    """Puts steps until the second consumer has taken its steps, even after the loss of the first one."""
    lost = 0
    with tremula.Session("simulation", 0, 1) as session:
        with session.out_stream("field", keep_steps=2, outlives_consumers=outlives) as out:
            u = out.field("u", "f64", tremula.Layout.parse("shape=4 grid=1"))
            number = 0
            while not is_over.value:
                try:
                    with out.step(timeout) as step:
                        step[u] = np.full(4, float(number))
                    number += 1
                except tremula.PeerLost:
                    lost += 1
                time.sleep(0.01)
    assert lost == (0 if outlives else 1), lost


def consume(rank, name, dies, is_over):
    with tremula.Session(name, 0, 1) as session, session.in_stream("field") as stream:
        u = stream.field("u", "f64", tremula.Layout.parse("shape=4 grid=1"))
        for taken, step in enumerate(stream):
            assert step[u].tolist() == [float(stream.number)] * 4
            if taken == 2 and dies:
                os._exit(9)
            if taken == 5:
                is_over.value = 1


def produce_to_the_end(rank, ranks, outlives, lost, is_closing):
    """Puts two steps. A consumer keeps the first, so that close waits for it. lost: words of the error of close; "" if
    there is no error"""
    with tremula.Session("simulation", rank, ranks) as session:
        out = session.out_stream("field", queue_depth=4, outlives_consumers=outlives)
        u = out.field("u", "f64", tremula.Layout.parse(f"shape=4 grid={ranks}"))
        for number in range(2):
            out.put(u, np.full(4 // ranks, float(number)))
        with is_closing:
            is_closing.value += 1
        found = ""
        try:
            out.close()
        except tremula.PeerLost as error:
            found = str(error)
        assert lost in found and bool(lost) == bool(found) == out.is_open, (found, out.is_open)
        out.give_up()


def produce_for_two(rank, is_first_dead):
    """Puts a step after the loss of the first consumer, while the second consumer occupies the room that the step
    needs."""
    with tremula.Session("simulation", 0, 1, step_timeout=3) as session:
        out = session.out_stream("field", queue_depth=1, wait_for_consumers=2, outlives_consumers=True)
        u = out.field("u", "f64", tremula.Layout.parse("shape=4 grid=1"))
        out.put(u, np.zeros(4))
        torch_support.wait_until(lambda: is_first_dead.value)
        try:
            out.put(u, np.zeros(4))
        except tremula.TimedOut as error:
            assert "waited 3 s for consumer group 'second'" in str(error), error
        else:
            raise AssertionError("expected no room")
        out.give_up()


def keep(rank, name, has_step):
    """Takes a step and never ends it."""
    with tremula.Session(name, 0, 1) as session, session.in_stream("field") as stream:
        stream.field("u", "f64", tremula.Layout.parse("shape=4 grid=1"))
        for _ in stream:
            has_step.value = 1
            time.sleep(600)


class Loss(unittest.TestCase):
    def test_producer_may_outlive_its_consumers(self):
        for outlives, timeout in ((True, None), (True, 30), (False, None), (False, 30)):
            is_over = multiprocessing.Value("b", 0)
            with torch_support.Server(), torch_support.Jobs() as jobs:
                producer = jobs.start(produce, outlives, timeout, is_over)
                jobs.join(jobs.start(consume, "first", True, is_over), expected=9)
                jobs.join(jobs.start(consume, "second", False, is_over))
                jobs.join(producer)

    def test_outliving_close_fails_only_for_own_ranks(self):
        for outlives, ranks, lost in ((True, 1, ""), (True, 2, ""), (False, 1, "rank 0 of group 'training'"),
                                      (False, 2, "rank 0 of group 'training'"), (True, 2, "rank 1 of group 'simulation'")):
            is_closing, has_step = multiprocessing.Value("b", 0), multiprocessing.Value("b", 0)
            with torch_support.Server(), torch_support.Jobs() as jobs:
                producers = jobs.start(produce_to_the_end, ranks, outlives, lost, is_closing, ranks=ranks)
                consumer, = jobs.start(keep, "training", has_step)
                torch_support.wait_until(lambda: is_closing.value == ranks and has_step.value, [*producers, consumer])
                time.sleep(0.3)  # until close waits
                jobs.kill(producers.pop() if "simulation" in lost else consumer)
                jobs.join(producers)
                if consumer.is_alive():
                    jobs.kill(consumer)

    def test_error_after_a_loss_is_raised_unchanged(self):
        is_first_dead = multiprocessing.Value("b", 0)
        have_steps = [multiprocessing.Value("b", 0) for _ in range(2)]
        with torch_support.Server(), torch_support.Jobs() as jobs:
            producer = jobs.start(produce_for_two, is_first_dead)
            first, second = [jobs.start(keep, name, has_step)[0] for name, has_step in zip(("first", "second"), have_steps)]
            torch_support.wait_until(lambda: all(has_step.value for has_step in have_steps), [*producer, first, second])
            jobs.kill(first)
            time.sleep(1)  # until the producer has noticed
            is_first_dead.value = 1
            jobs.join(producer)
            jobs.kill(second)


class Limits(unittest.TestCase):
    def test_limit_of_an_update_is_equal_on_all_ranks(self):
        """A limit from which the time since the call is subtracted would differ between ranks, and with it the number
        of their collective calls."""
        reader, limits = object.__new__(Follower), []
        reader._begin = lambda limit: limits.append(limit) or tremula.StepStatus.NOT_READY
        with mock.patch("time.monotonic", itertools.count(step=0.1).__next__):
            self.assertIsNone(reader.update(0.4))
        self.assertEqual(limits, [0.4])


class Rounding(unittest.TestCase):
    def test_hashes_of_16_bits_round_once(self):
        """The hashes of float64 and int64 values next to ties agree with the conversion by Tremula."""
        rng = np.random.default_rng(38)
        ties = 1 + rng.integers(0, 2 ** 9, 4000) * 2.0 ** -9 + rng.choice([-1, 0, 1], 4000) * 2.0 ** -40
        wide = torch.from_numpy(ties * rng.choice([-1, 1], 4000) * 2.0 ** rng.integers(-30, 14, 4000))
        special = torch.tensor([0.0, -0.0, 1e-300, -1e-300, 1e300, -1e300, float("inf"), 65520.0, 65519.999999, 2 ** -25.0, 6e-8],
                               dtype=torch.float64)
        longs = torch.tensor([0, 257 * 2 ** 45 + 1, -(257 * 2 ** 45) - 1, 257 * 2 ** 45, 2 ** 62 + 2 ** 54 + 1, 2 ** 63 - 1, -2 ** 63,
                              2 ** 53 + 1, 2049, 65520, -65519, 257 * 2 ** 30 - 1], dtype=torch.int64)
        given = {"wide": wide, "special": special, "longs": longs, "ints": (longs % 2 ** 31).to(torch.int32)}
        self.compare(given)

    def test_hashes_of_16_bits_keep_upper_bits_of_nans(self):
        rng = np.random.default_rng(41)

        def nans(bits, exponent, count):
            """Returns bit patterns whose exponent is all ones: of both signs, quiet and signalling, with each bit of
            the payload set in one of them."""
            alone = [sign << (bits - 1) | exponent | 1 << bit for sign in (0, 1)
                     for bit in range(bits - 1) if not exponent >> bit & 1]
            payloads = rng.integers(1, 2 ** 52, count, np.int64).astype(np.uint64) & np.uint64((exponent & -exponent) - 1)
            signs = rng.integers(0, 2, count, np.int64).astype(np.uint64) << np.uint64(bits - 1)
            drawn = np.maximum(payloads, np.uint64(1)) | signs | np.uint64(exponent)
            return np.concatenate([np.array(alone, np.uint64), drawn]).astype(f"u{bits // 8}")

        halves = torch.from_numpy(nans(16, 0x7C00, 100).view(np.float16))
        bfloats = torch.from_numpy(nans(16, 0x7F80, 100).view(np.int16)).view(torch.bfloat16)
        self.compare({"doubles": torch.from_numpy(nans(64, 0x7FF << 52, 100).view(np.float64)),
                      "floats": torch.from_numpy(nans(32, 0x7F800000, 100).view(np.float32)),
                      "mixed": torch.tensor([1.0, float("nan"), -float("nan"), float("inf"), 1 + 2 ** -9]),
                      "alone": torch.tensor(-float("nan")), "halves": halves, "bfloats": bfloats})

    def compare(self, given):
        """Checks that a reader with 16-bit tensors finds the hashes that the writer sends."""
        for dtype in (torch.bfloat16, torch.float16):
            def reader(session):
                tensors = {name: torch.zeros(tensor.shape, dtype=dtype) for name, tensor in given.items()}
                with tt.follow(tensors, "weights", session=session, verify="all") as follower:
                    return follower.update()
            _, found = run(("trainer", 1, publishes(lambda _: given, hashes=["own", dtype])), ("reader", 1, reader))
            self.assertEqual(found, [0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
