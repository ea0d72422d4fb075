"""The part of the build that pyproject.toml cannot describe: the compiled form of the codecs.

It is optional: where it cannot be built, everything is installed without it, and works.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "leveret.amqp_frames.compiled._codec",
            ["amqp_frames/compiled/_codec.c"],
            depends=["amqp_frames/compiled/frames.h", "amqp_frames/compiled/nsq.h"],
            py_limited_api=True,
            optional=True,
        )
    ],
    # The stable ABI of Python 3.11: one wheel for it and for every later version.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
