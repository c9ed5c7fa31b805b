"""Model files: records of arrays and numbers, written and read without executing anything."""

from kexpfam.store.file import ModelFile, read_model_file, write_model_file
from kexpfam.store.records import RECORDS
from kexpfam.store.tree import Tree, decode, encode

__all__ = [
    "RECORDS",
    "ModelFile",
    "Tree",
    "decode",
    "encode",
    "read_model_file",
    "write_model_file",
]
