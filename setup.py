"""The packages of the wheel; all else stands in pyproject.toml.

The grammar and the standard library lie beside the package in a checkout and inside it in a wheel, which
pyproject.toml can say only with a list of every package.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["tmlang", "tmlang.*"]), "tmlang.grammar", "tmlang.stdlib"],
    package_dir={"tmlang.grammar": "grammar", "tmlang.stdlib": "stdlib"},
)
