"""How commands of `python -m stagger` end that cannot do what they are asked for: by a line on
standard error and a status, not by a traceback."""

import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import stagger
from stagger.__main__ import main

PACKAGE = pathlib.Path(__file__).resolve().parent.parent
HAS_TORCH = importlib.util.find_spec("torch") is not None


def ended(*words):
    """The status of a command and what it says on standard error."""
    with contextlib.redirect_stderr(io.StringIO()) as said, \
            contextlib.redirect_stdout(io.StringIO()):
        try:
            status = main(list(words))
        except SystemExit as exit_of_argparse:
            status = exit_of_argparse.code
    return status, said.getvalue()


def child(*words, **streams):
    return subprocess.Popen([sys.executable, "-B", "-m", "stagger", *words], cwd=PACKAGE, text=True,
                            stderr=subprocess.PIPE, **streams)


class Endings(unittest.TestCase):
    def test_files_that_are_not_what_they_should_be(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text"
            text.write_text("no JSON\n", encoding="utf-8")
            absent = str(text) + "s"
            for words, said in (
                    (("compare-runs", absent, absent), f"stagger: {absent}: No such file"),
                    (("compare-runs", str(text), str(text)), "text is no stagger.digests/1\n"),
                    (("bench", "--table", absent), f"stagger: {absent}: No such file"),
                    (("bench", "--table", folder), f"stagger: {folder}: Is a directory"),
                    (("bench", "--table", str(text)), "text is no JSON: ")):
                with self.subTest(words=words):
                    status, heard = ended(*words)
                    self.assertEqual((status, heard.count("\n")), (3, 1), heard)
                    self.assertIn(said, heard)

    def test_usage(self):
        for words, said in ((("bench", "--opponents", "fa9"), "no opponent fa9"),
                            (("bench", "--only", "7 x 7"), "no case is called so: 7 x 7"),
                            (("bench", "--rounds", "0"), "0 is not above 0"),
                            (("bench", "--steady-ms", "nan"), "nan is not above 0"),
                            (("demo", "train", "--steps", "x"), "invalid int value: 'x'"),
                            (("demo",), "required: what"), (("nonsense",), "invalid choice"),
                            ((), "required: command")):
            with self.subTest(words=words):
                status, heard = ended(*words)
                self.assertEqual(status, 2)
                self.assertIn(said, heard)

    @unittest.skipIf(stagger.info()["usable"], "there is a GPU")
    def test_no_gpu(self):
        commands = [("calibrate",)]
        if HAS_TORCH:
            commands += [("bench",), ("demo", "train")]
        for words in commands:
            with self.subTest(words=words):
                status, heard = ended(*words)
                self.assertEqual((status, heard.count("\n")), (77, 1), heard)
                self.assertRegex(heard, "^stagger: .")

    def test_a_status_for_every_error(self):
        expected = {stagger.UsageError: 2, stagger.InputError: 3, stagger.Unsupported: 2,
                    stagger.LimitError: 2, stagger.FileError: 3, stagger.NoDevice: 77,
                    stagger.Timeout: 1, stagger.Deadlock: 4, stagger.InternalError: 70,
                    stagger.DigestMismatch: 1, KeyboardInterrupt: 130, ImportError: 2}
        for error, status in expected.items():
            with self.subTest(error=error), \
                    mock.patch("stagger.debug.compare", side_effect=error("why")):
                words = "interrupted" if error is KeyboardInterrupt else "why"
                self.assertEqual(ended("compare-runs", "a", "b"), (status, f"stagger: {words}\n"))

    def test_a_fault_of_our_own_is_no_message(self):
        with mock.patch("stagger.debug.compare", side_effect=ZeroDivisionError), \
                self.assertRaises(ZeroDivisionError):
            ended("compare-runs", "a", "b")

    def test_who_reads_has_enough(self):
        with child("doctor", stdout=subprocess.PIPE) as process:
            process.stdout.close()
            said = process.stderr.read()
        self.assertEqual((process.returncode, said), (141, ""))

    def test_a_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full, \
                child("doctor", stdout=full) as process:
            said = process.stderr.read()
        self.assertEqual(process.returncode, 3)
        self.assertRegex(said, r"^stagger: .*No space left on device\n$")


if __name__ == "__main__":
    unittest.main()
