"""The grammar of PTX for tree-sitter, over the `.ptx` files of folders: no error in any that is not in a folder `refused`."""

import ctypes
import pathlib
import sys
import time

from tree_sitter import Language, Parser, Query


def load(path):
    """The language of a compiled grammar."""
    create = ctypes.CDLL(str(pathlib.Path(path).resolve())).tree_sitter_ptx
    create.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return Language(capsule(create(), b"tree_sitter.Language", None))


def faults(root):
    """The nodes that stand for text which the grammar does not have, or lacks."""
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(node)
        elif node.has_error:
            stack += node.children
    return found


def main():
    """Reads the files, and compiles the queries."""
    language = load(sys.argv[1])
    for path in sorted(pathlib.Path("editors/tree-sitter-ptx/queries").glob("*.scm")):
        Query(language, path.read_text())
    parser = Parser(language)
    paths = sorted(path for folder in sys.argv[2:] for path in pathlib.Path(folder).glob("**/*.ptx"))
    count = size = seconds = 0
    for path in paths:
        text = path.read_bytes()
        start = time.perf_counter()
        tree = parser.parse(text)
        seconds += time.perf_counter() - start
        wrong = faults(tree.root_node)
        if "refused" in path.parts:
            continue
        if wrong:
            sys.exit(f"{path}:{wrong[0].start_point.row + 1}: the grammar finds an error here")
        count, size = count + 1, size + len(text)
    if not count:
        sys.exit("no file of PTX")
    print(f"{count} files of PTX, {size / 1e6:.1f} MB, have no error in the grammar of tree-sitter; {size / seconds / 1e6:.1f} MB/s")


if __name__ == "__main__":
    main()
