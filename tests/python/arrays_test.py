# SPDX-License-Identifier: Apache-2.0
"""Checks which arrays are accepted, where their buffers begin, and the errors for all others."""
import array
import gc
import importlib.util
import os
import unittest

import numpy as np
import tremula
from tremula import Layout, _c
from tremula.arrays import Target
from tremula.values.dtypes import element_type, type_of_code


def target(layout, dtype="f64", rank=0):
    return Target("put", element_type(dtype), layout, rank)


def mapped_bytes():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum(
            int(line.split("-")[1].split()[0], 16) - int(line.split("-")[0], 16) for line in maps if "tremula" in line
        )


class OnDevice:
    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        raise AssertionError("device memory is refused before it is exported")


class Exported:
    """An array of another library that supports only DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__()


class ArraysTest(unittest.TestCase):
    rows = Layout.block((6, 4), (2, 1))
    columns = Layout.block((6, 4), (2, 1), store="column")
    ghosts = Layout.block((6, 4), (2, 1), ghost=(1, 1))

    def taken(self, layout, a, dtype="f64", is_written=False):
        pointer, size, _ = target(layout, dtype).locate(a, is_written)
        return pointer, size

    def test_owned_part_and_whole_buffer_are_accepted(self):
        a = np.zeros((3, 4))
        self.assertEqual(self.taken(self.rows, a), (a.ctypes.data, 96))
        flat = np.zeros(12)
        self.assertEqual(self.taken(self.rows, flat), (flat.ctypes.data, 96))
        f = np.zeros((3, 4), order="F")
        self.assertEqual(self.taken(self.columns, f), (f.ctypes.data, 96))

    def test_buffer_of_a_view_is_found(self):
        whole = np.zeros((5, 6))
        self.assertEqual(self.taken(self.ghosts, whole), (whole.ctypes.data, 240))
        self.assertEqual(self.taken(self.ghosts, whole[1:4, 1:5]), (whole.ctypes.data, 240))
        self.assertEqual(self.taken(self.ghosts, whole.reshape(-1)), (whole.ctypes.data, 240))
        owned = tremula.empty(self.ghosts, 0)
        self.assertEqual(owned.shape, (3, 4))
        self.assertEqual(self.taken(self.ghosts, owned)[0], owned.ctypes.data - 7 * 8)
        self.assertEqual(tremula.empty(self.ghosts, 0, ghost=True).shape, (5, 6))

    def test_array_of_a_stale_box_is_refused(self):
        box = Layout.of_boxes((8, 8), 1, [[0, 0]], [[6, 6]], is_partial=True)
        self.taken(box, np.zeros((6, 6)))
        box._list_shape = (4, 4)  # the shape of a box that the rank listed earlier
        with self.assertRaisesRegex(tremula.InvalidArgument, r"found shape \(4, 4\)"):
            self.taken(box, np.zeros((4, 4)))

    def test_view_whose_buffer_ends_early_is_refused(self):
        short = np.zeros(240 // 8 - 1)
        view = np.lib.stride_tricks.as_strided(short[7:], (3, 4), (48, 8))
        with self.assertRaisesRegex(tremula.InvalidArgument, "a buffer that ends before that"):
            self.taken(self.ghosts, view)

    def test_unsuitable_arrays_are_refused(self):
        for layout, a, words in [
            (self.rows, np.zeros((4, 3)), r"shape \(3, 4\).*found shape \(4, 3\)"),
            (self.rows, np.zeros((3, 4), order="F"), r"strides \(32, 8\) bytes.*found shape \(3, 4\) with strides \(8, 24\)"),
            (self.columns, np.zeros((3, 4)), r"found shape \(3, 4\) with strides \(32, 8\)"),
            (self.rows, np.zeros((6, 8))[::2, ::2], "not contiguous: numpy.ascontiguousarray"),
            (self.rows, np.zeros(24)[::2], "not contiguous"),
            (self.rows, np.zeros(11), "12 elements"),
            (self.rows, np.zeros((3, 4), np.float32), "expected elements of type f64, found float32"),
            (self.rows, np.zeros((3, 4), ">f8"), "expected elements of type f64, found >f8"),
            (self.rows, [[1.0] * 4] * 3, "expected a NumPy array, or an object with.*found builtins.list"),
            (self.rows, OnDevice(), r"in CPU memory, found one on DLPack device \(2, 0\)"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                self.taken(layout, a)
        frozen = np.zeros((3, 4))
        frozen.flags.writeable = False
        self.taken(self.rows, frozen)
        with self.assertRaisesRegex(tremula.InvalidArgument, "read-only"):
            self.taken(self.rows, frozen, is_written=True)
        with self.assertRaisesRegex(tremula.InvalidArgument, "read-only"):
            self.taken(Layout.block((8,), (1,)), b"8 bytes.", "uint8", is_written=True)

    def test_order_mismatch_error_offers_two_remedies(self):
        for layout, a, words in [
            (self.rows, np.zeros((3, 4), order="F"), r'with store="column", or copy the array with numpy\.ascontiguousarray$'),
            (self.columns, np.zeros((3, 4)), r"without store, or copy the array with numpy\.asfortranarray$"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                self.taken(layout, a)
            other = self.columns if layout is self.rows else self.rows
            self.assertEqual(self.taken(other, a), (a.ctypes.data, 96))

    def test_masked_array_is_refused(self):
        masked = np.ma.masked_array(np.arange(12.0).reshape(3, 4), mask=np.eye(3, 4))
        for is_written in (False, True):
            with self.assertRaisesRegex(tremula.InvalidArgument, r"without a mask.*put array\.filled\(value\)"):
                self.taken(self.rows, masked, is_written=is_written)
        self.taken(self.rows, masked.filled(-1))
        self.taken(self.rows, masked.data, is_written=True)

    def test_refusal_names_the_call_that_makes_an_array(self):
        class Frame:
            def __array__(self, dtype=None):
                raise AssertionError("nothing is copied")

        for given in ([[1.0] * 4] * 3, (1.0,) * 12, Frame()):
            with self.assertRaisesRegex(tremula.InvalidArgument, "numpy.asarray makes an array of it"):
                self.taken(self.rows, given)
        with self.assertRaisesRegex(tremula.InvalidArgument, r"found builtins\.object$"):
            self.taken(self.rows, object())

    def test_one_box_or_point_list_takes_its_own_shape(self):
        box = Layout.of_boxes((6, 4), 2, [[1, 1]], [[2, 3]], is_partial=True)
        two = Layout.of_boxes((6, 4), 2, [[1, 1], [4, 0]], [[1, 3], [1, 3]], is_partial=True)
        points = Layout.of_points((6, 4), 2, np.arange(6).reshape(2, 3), is_partial=True)
        a = np.zeros((2, 3))
        for layout in (box, points):
            self.assertEqual(self.taken(layout, a, is_written=True), (a.ctypes.data, 48))
            self.assertEqual(self.taken(layout, a.ravel()), (a.ctypes.data, 48))
            for wrong in (np.zeros((3, 2)), np.zeros((2, 3), order="F"), np.zeros((2, 6))[:, ::2], np.zeros((2, 4))):
                with self.assertRaisesRegex(tremula.InvalidArgument, r"expected an array of shape.*\(2, 3\)"):
                    self.taken(layout, wrong)
        with self.assertRaisesRegex(tremula.InvalidArgument, "found shape"):
            self.taken(two, a)  # the shape does not show which rows belong to which box
        self.taken(two, a.ravel())

    def test_changing_extent_takes_any_number_of_rows(self):
        layout = Layout.parse("shape=*x3 grid=2x1")
        a = np.zeros((7, 3))
        self.assertEqual(self.taken(layout, a), (a.ctypes.data, 168))
        self.assertEqual(self.taken(layout, np.zeros((0, 3)))[1], 0)
        self.assertEqual(self.taken(layout, np.zeros(6))[1], 48)
        for wrong in (np.zeros((7, 4)), np.zeros(7), np.zeros((7, 6))[:, ::2]):
            with self.assertRaisesRegex(tremula.InvalidArgument, r"shape \*x3"):
                self.taken(layout, wrong)

    def test_buffer_protocol_is_accepted(self):
        a = array.array("d", range(12))
        self.assertEqual(self.taken(self.rows, a), (a.buffer_info()[0], 96))
        m = memoryview(bytearray(96)).cast("d")
        self.assertEqual(self.taken(self.rows, m, is_written=True)[1], 96)

    def test_dlpack_is_accepted(self):
        a = np.arange(12.0).reshape(3, 4)
        self.assertEqual(self.taken(self.rows, Exported(a)), (a.ctypes.data, 96))
        self.assertEqual(self.taken(self.rows, Exported(a), is_written=True), (a.ctypes.data, 96))
        with self.assertRaisesRegex(tremula.InvalidArgument, "found float32"):
            self.taken(self.rows, Exported(a.astype(np.float32)))
        with self.assertRaisesRegex(tremula.InvalidArgument, "not contiguous"):
            self.taken(self.rows, Exported(np.zeros((6, 8))[::2, ::2]))

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not installed")
    def test_suitable_pytorch_tensors_are_accepted(self):
        import torch

        a = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
        self.assertEqual(self.taken(self.rows, a, is_written=True), (a.data_ptr(), 96))
        turned = a.T.contiguous().T
        self.assertEqual(self.taken(self.columns, turned), (turned.data_ptr(), 96))
        learned = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
        self.assertEqual(self.taken(self.rows, learned, is_written=True)[0], learned.data_ptr())
        half = torch.zeros(3, 4, dtype=torch.bfloat16)
        self.assertEqual(self.taken(self.rows, half, "bf16", is_written=True), (half.data_ptr(), 24))
        self.assertEqual(self.taken(self.rows, torch.zeros(3, 4, dtype=torch.bool), "bool")[1], 12)
        whole = torch.zeros(5, 6, dtype=torch.float64)
        self.assertEqual(self.taken(self.ghosts, whole[1:4, 1:5]), (whole.data_ptr(), 240))
        for wrong, words in [
            (torch.zeros(3, 4), "expected elements of type f64, found float32"),
            (half, "found bf16"),
            (torch.zeros(3, 8, dtype=torch.float64)[:, ::2], "not contiguous"),
            (torch.zeros(3, 4, dtype=torch.float64, device="meta"), "in CPU memory, found one on meta"),
            (torch.zeros(3, 4, dtype=torch.float64).to_sparse(), "expected a dense tensor"),
            (torch.zeros(3, 4, dtype=torch.complex128).conj(), r"call resolve_conj\(\) first"),
            (torch.zeros(3, 4, dtype=torch.complex128).conj().imag, r"call resolve_neg\(\) first"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                self.taken(self.rows, wrong)

    def test_element_types_have_equivalent_names(self):
        for name in ("int8", "i16", "i32", "i64", "uint8", "u16", "u32", "u64", "f32", "f64", "c64", "c128", "float16", "bool"):
            kind = element_type(name)
            self.assertEqual(kind.name, name)
            self.assertEqual(kind, element_type(kind.dtype))
            self.assertEqual(kind, element_type(kind.dtype.name))
            self.assertEqual(kind, element_type("=" + kind.dtype.str[1:]))
            self.assertEqual(kind, type_of_code(kind.code))
        self.assertEqual(element_type("bf16").dtype, np.uint16)
        struct = np.dtype([("id", "i8"), ("x", "f4", 3)])
        kind = element_type(struct)
        self.assertEqual((kind.code - 0x10000, kind.dtype), (20, struct))
        self.assertTrue(kind.holds(np.dtype("V20")))
        for wrong in ("f128", object, np.dtype("M8[s]"), np.dtype(">i4"), [("a", object)], np.dtype("V16385"), None, (float, 3)):
            with self.assertRaises(tremula.InvalidArgument):
                element_type(wrong)

    def test_type_name_agrees_with_numpy_or_is_refused(self):
        """A name that Tremula and NumPy share means the same type in both, or causes an error that names both types."""
        for name in (*_c.TYPE_NAMES, "i1", "i2", "i4", "u1", "u2", "u4", "f2", "f4", "f8", "c8", "c16", "int", "float"):
            try:
                theirs = np.dtype(name)
            except TypeError:
                theirs = None
            with self.subTest(name=name):
                if name in ("i8", "u8", "f16"):
                    with self.assertRaisesRegex(tremula.InvalidArgument, f"found '{name}'.*in NumPy and .* write '[a-z]+(8|16)'"):
                        element_type(name)
                elif theirs is not None:
                    self.assertEqual(element_type(name).dtype, theirs)

    def test_structs_are_accepted_with_members_or_as_bytes(self):
        layout, struct = Layout.block((4,), (1,)), np.dtype([("id", "i4"), ("x", "f4")])
        self.taken(layout, np.zeros(4, struct), struct)
        self.taken(layout, np.rec.array(np.zeros(4, struct)), struct)
        self.taken(layout, np.zeros(4, "V8"), struct)
        self.taken(layout, np.zeros(4, struct), "V8")
        for other in ([("x", "f4"), ("id", "i4")], [("id", "i4"), ("y", "f4")], [("id", "i8")], "V12"):
            with self.assertRaisesRegex(tremula.InvalidArgument, "expected elements of type opaque of 8 bytes"):
                self.taken(layout, np.zeros(4, other), struct)

    def test_shared_memory_is_zeroed_and_later_freed(self):
        before, files = mapped_bytes(), len(os.listdir("/proc/self/fd"))
        a = tremula.empty(Layout.block((1 << 20,), (1,)), 0, "f64")
        self.assertFalse(a.any())
        self.assertEqual(a.ctypes.data % 4096, 0)
        a[:] = 1
        part = a[10:20]
        del a
        gc.collect()
        self.assertEqual(part.sum(), 10)
        self.assertGreater(len(os.listdir("/proc/self/fd")), files)
        del part
        gc.collect()
        self.assertEqual((mapped_bytes(), len(os.listdir("/proc/self/fd"))), (before, files))

    def test_empty_parts_are_accepted(self):
        layout = Layout.block((2, 3), (4, 1))
        a = tremula.empty(layout, 3)
        self.assertEqual(a.shape, layout.local(3).extents)
        self.assertEqual(self.taken(layout, np.zeros((1, 3)))[1], 24)
        self.assertEqual(target(layout, rank=3).locate(a, True)[1], 0)


if __name__ == "__main__":
    unittest.main()
