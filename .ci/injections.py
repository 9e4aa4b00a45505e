"""The queries of `editors/` for `ptx!` in Rust, over the Rust files that are named: every `ptx!` is found once, and its text is PTX as a whole."""

import pathlib
import sys
import tomllib

import tree_sitter_rust
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
    """The first byte of every text that a query says is PTX as a whole."""
    found = []
    for pattern, captures in QueryCursor(query).matches(root):
        settings = query.pattern_settings(pattern)
        if settings.get("injection.language") == "ptx" and "injection.include-children" in settings:
            found += [node.start_byte for node in captures["injection.content"]]
    return found


editors = pathlib.Path("editors")
for path in editors.glob("**/*.toml"):
    tomllib.loads(path.read_text())
parser = Parser(RUST)
trees = [parser.parse(pathlib.Path(path).read_bytes()) for path in sys.argv[1:]]
queries = sorted(editors.glob("**/injections.scm"))
for path in queries:
    query, count = Query(RUST, path.read_text()), 0
    for tree, name in zip(trees, sys.argv[1:], strict=True):
        expected, found = calls(tree.root_node), injected(query, tree.root_node)
        if sorted(expected) != sorted(found):
            sys.exit(f"{path}: finds {len(found)} of {len(expected)} `ptx!` in {name}")
        count += len(found)
    print(f"{path}: {count} texts of `ptx!` in {len(trees)} files")
if not queries:
    sys.exit("no queries in editors/")
