"""The queries of `editors/` for `ptx!` in Rust, over the Rust files that are named: every `ptx!` is found once, and its text is PTX as a whole, which the
grammar of PTX reads without an error."""

import pathlib
import sys
import tomllib

import tree_sitter_rust
from grammar import faults, load
from tree_sitter import Language, Parser, Query, QueryCursor

RUST = Language(tree_sitter_rust.language())


def is_call(node):
    """Whether a node is a call of `ptx!`."""
    name = node.child_by_field_name("macro") if node.type == "macro_invocation" else None
    return name is not None and name.text.decode().split("::")[-1] == "ptx"


def calls(node):
    """The first byte of the text of every `ptx!`."""
    found = {child.start_byte for child in node.children if child.type == "token_tree"} if is_call(node) else set()
    return found.union(*map(calls, node.children))


def injected(query, root):
    """Every text that a query says is PTX as a whole."""
    found = []
    for pattern, captures in QueryCursor(query).matches(root):
        settings = query.pattern_settings(pattern)
        if settings.get("injection.language") == "ptx" and "injection.include-children" in settings:
            found += captures["injection.content"]
    return found


editors = pathlib.Path("editors")
for path in editors.glob("**/*.toml"):
    tomllib.loads(path.read_text())
grammar, names = load(sys.argv[1]), sys.argv[2:]
parser, ptx = Parser(RUST), Parser(grammar)
trees = [parser.parse(pathlib.Path(path).read_bytes()) for path in names]
queries = sorted(editors.glob("**/injections.scm"))
for path in queries:
    query, count = Query(RUST, path.read_text()), 0
    for tree, name in zip(trees, names, strict=True):
        expected, found = calls(tree.root_node), injected(query, tree.root_node)
        if sorted(expected) != sorted(node.start_byte for node in found):
            sys.exit(f"{path}: finds {len(found)} of {len(expected)} `ptx!` in {name}")
        for node in found:
            # Neovim's query leaves the brackets out.
            for text in (node.text, node.text[1:-1]):
                if wrong := faults(ptx.parse(text).root_node):
                    sys.exit(f"{name}:{node.start_point.row + wrong[0].start_point.row + 1}: the grammar of PTX finds an error here")
        count += len(found)
    print(f"{path}: {count} texts of `ptx!` in {len(trees)} files")
if not queries:
    sys.exit("no queries in editors/")
