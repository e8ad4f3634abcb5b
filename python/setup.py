"""Builds libstagger with CMake and puts it into the package: one wheel for every Python 3.

STAGGER_LIBRARY=/path/libstagger.so.1 takes a library that is built. CUDA is used if nvcc is found.
CMAKE_ARGS are more arguments of CMake.
"""

import os
import pathlib
import shlex
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

NAME = "libstagger.so.1"
HERE = pathlib.Path(__file__).resolve().parent


def library():
    """The library, built if none is named."""
    named = os.environ.get("STAGGER_LIBRARY")
    if named:
        if not pathlib.Path(named).is_file():
            raise SystemExit(f"STAGGER_LIBRARY is {named}, which is no file")
        return pathlib.Path(named)
    source, build = HERE.parent, HERE.parent / "build" / "python"
    if not (source / "workbench" / "stagger.h").exists():
        raise SystemExit("setup.py stands in a checkout of Stagger, whose sources it builds")
    if not shutil.which("cmake"):
        raise SystemExit("libstagger is built with CMake 3.25 or later, which is not here; "
                         "STAGGER_LIBRARY=/path/libstagger.so.1 takes one that is built")
    subprocess.run(["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                    "-DSTAGGER_SHARED=ON", "-DSTAGGER_BUILD_TESTS=OFF", "-DSTAGGER_INSTALL=OFF",
                    *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "stagger_shared", "--parallel",
                    str(os.cpu_count() or 1)], check=True)
    return build / NAME


class Build(build_py):
    def run(self):
        super().run()
        target = pathlib.Path(self.build_lib) / "stagger" / NAME
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library(), target)


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
