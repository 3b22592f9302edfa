#!/usr/bin/env python3
"""Tests of check_includes.py: it lets our own tree pass and has teeth."""

import pathlib
import tempfile
import unittest

import check_includes


class CheckIncludes(unittest.TestCase):

    def problems(self, **files):
        """Problems of a tree with {path with __ for /: include}."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, include in files.items():
                stem, _, suffix = name.replace("__", "/").rpartition("_")
                path = root / f"{stem}.{suffix}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f'// a\n#include "{include}"\n')
            return check_includes.check(root)

    def test_our_tree_passes(self):
        source = pathlib.Path(check_includes.__file__).parent.parent
        self.assertEqual(check_includes.check(source / "src/ringmax"), [])

    def test_downward_passes(self):
        self.assertEqual(
            self.problems(model__llama_cc="ringmax/attention/mask.h",
                          train__loop_cc="ringmax/pjrt/client.h",
                          base__log_cc="ringmax/base/log.h",
                          graph__op_h="fmt/format.h"), [])

    def test_upward_fails_with_file_and_line(self):
        for room in ("graph", "kernel", "attention", "model"):
            found = self.problems(**{f"{room}__a_cc": "ringmax/pjrt/client.h"})
            self.assertEqual(len(found), 1, room)
            self.assertIn(f"{room}/a.cc:2:", found[0])
        self.assertTrue(self.problems(base__a_h="ringmax/mesh/mesh.h"))

    def test_plugin_headers_stay_in_pjrt_and_native_kernels(self):
        self.assertTrue(self.problems(graph__a_cc="pjrt_c_api.h"))
        self.assertTrue(self.problems(train__a_cc="xla/ffi/api/ffi.h"))
        self.assertFalse(self.problems(pjrt__a_cc="pjrt_c_api.h"))
        self.assertFalse(self.problems(attention__cpu__a_cc="xla/ffi/api/ffi.h"))

    def test_config_sees_option_structs_only(self):
        self.assertFalse(self.problems(config__a_h="ringmax/train/options.h"))
        self.assertTrue(self.problems(config__a_h="ringmax/train/loop.h"))

    def test_tests_see_everything_but_nobody_sees_test_helpers(self):
        self.assertFalse(self.problems(base__a_test_cc="ringmax/train/loop.h"))
        self.assertFalse(self.problems(
            base__testing__a_cc="ringmax/train/loop.h"))
        self.assertTrue(self.problems(train__a_cc="ringmax/base/testing/a.h"))

    def test_an_unknown_room_fails(self):
        self.assertTrue(self.problems(misc__a_cc="vector"))
        self.assertTrue(self.problems(train__a_cc="ringmax/misc/a.h"))


if __name__ == "__main__":
    unittest.main()
