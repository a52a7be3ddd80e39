"""Does a language model's uncertainty match the variability of people?

>>> import aleatoric
>>> aleatoric.__version__ >= "0.1"
True
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("aleatoric")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0.1.0+source"
