"""The library: where it is looked for, and what is said of one that is another."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import stagger
from stagger import _lib

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Function:
    """A function as ctypes has it, which fills the struct that it is asked with."""

    def __init__(self, **members):
        self.members = members

    def __call__(self, asked):
        for name, value in self.members.items():
            setattr(asked._obj, name, value)
        return 0


class Older:
    """A library of an earlier version, which has one function."""

    def __init__(self, **members):
        self.stagger_query = Function(**members)


class Loading(unittest.TestCase):
    def said(self, path, *words, folder=ROOT):
        code = "import stagger\ntry:\n print(stagger.info()['version'])\nexcept ImportError as e:\n print(e)"
        run = subprocess.run([sys.executable, *(words or ("-c", code))], cwd=folder, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "STAGGER_LIBRARY": str(path), "PYTHONPATH": str(ROOT)})
        return run.stdout

    def test_a_name_without_a_folder_is_of_this_folder(self):
        library = pathlib.Path(_lib.library()._name)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "mine.so").symlink_to(library)
            for name in ("mine.so", "./mine.so", f"{folder}/mine.so"):
                with self.subTest(name=name):
                    self.assertEqual(self.said(name, folder=folder), f"{stagger.__version__}\n")

    def test_what_is_no_library_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.so"
            text.write_text("no library\n", encoding="utf-8")
            for path in (text, sys.modules["_ctypes"].__file__):
                with self.subTest(path=path):
                    said = self.said(path)
                    self.assertRegex(said, f"^{path} is not the library of stagger {stagger.__version__}: ")
                    self.assertIn("scripts/build", said)
                    said = self.said(path, "-m", "stagger", "doctor")
                    self.assertRegex(said, f"^stagger {stagger.__version__}: {path} is not the library")
                    self.assertNotIn("Traceback", said)

    def test_an_older_one_is_told_by_its_version(self):
        older = Older(abi=1, version=b"0.0.1")
        with mock.patch.object(ctypes, "CDLL", lambda _: older), \
                self.assertRaisesRegex(ImportError, "is version 0.0.1 with interface 1; this package"):
            _lib._load()

    def test_one_that_lacks_functions(self):
        older = Older(abi=_lib.ABI, version=stagger.__version__.encode())
        with mock.patch.object(ctypes, "CDLL", lambda _: older), \
                self.assertRaisesRegex(ImportError, "stagger_plan_create"):
            _lib._load()

    def test_texts_that_are_cut_within_a_letter(self):
        cut = "NVIDIA ä".encode()[:-1]

        class Library:
            stagger_query = staticmethod(Function(why_not=cut))

        with mock.patch.object(_lib, "library", Library):
            self.assertEqual(stagger.info()["why_not"], "NVIDIA \ufffd")


if __name__ == "__main__":
    unittest.main()
