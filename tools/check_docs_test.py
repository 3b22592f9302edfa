#!/usr/bin/env python3
"""Tests of check_docs.py: it lets our own documents pass and has teeth."""

import pathlib
import tempfile
import unittest

import check_docs


class CheckDocs(unittest.TestCase):

    def problems(self, page):
        """Problems of a tree with one test, one file and this README."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src").mkdir()
            (root / "src/a_test.cc").write_text("TEST_P(Suite, Name) {\n}\n")
            (root / "README.md").write_text(page)
            return check_docs.check(root)

    def test_our_documents_pass(self):
        self.assertEqual(check_docs.check(check_docs.ROOT), [])

    def test_what_exists_passes(self):
        self.assertEqual(
            self.problems("`Suite.Name`, [a](src/a_test.cc#top), `mask.h`,"
                          " [b](#here), [c](https://x.org/d)"), [])

    def test_what_does_not_exist_is_named(self):
        self.assertEqual(self.problems("`Suite.Nme` [a](docs/b.md)"),
                         ["README.md: there is no test Suite.Nme",
                          "README.md: there is no file docs/b.md"])


if __name__ == "__main__":
    unittest.main()
