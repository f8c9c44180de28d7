#!/usr/bin/env python3
"""Writes src/sql/parse/grammar/children.rs: for every node kind of PostgreSQL's grammar, all of its child nodes.

Run it again when pg_query is updated:

    scripts/nodes/children.py path/to/pg_query/src/protobuf.rs > src/sql/parse/grammar/children.rs && cargo fmt

The match is exhaustive on purpose: a kind that a new grammar adds does not compile until it is listed here,
so no expression can hide in a field nobody looks at.
"""

import re
import sys


def main() -> None:
    source = open(sys.argv[1], encoding="utf-8").read()
    variants = node_variants(source)
    by_struct = {struct: variant for variant, struct in variants}
    structs = dict(re.findall(r"\npub struct (\w+) \{\n(.*?)\n\}", source, re.S))

    print("//! All children of every node kind. Written by `scripts/nodes/children.py`; do not edit.")
    print()
    print("use pg_query::{Node, NodeRef};")
    print()
    print("/// Calls `visit` for each direct child of `node`, in the order of the grammar's fields.")
    print("pub(super) fn each_child<'a>(node: NodeRef<'a>, visit: &mut dyn FnMut(NodeRef<'a>)) {")
    print("    match node {")
    leaves = []
    for variant, struct in variants:
        lines = children(structs[struct] if struct in structs else "", by_struct)
        if not lines:
            leaves.append(variant)
            continue
        print(f"        NodeRef::{variant}(n) => {{")
        for line in lines:
            print("            " + line)
        print("        }")
    print("        " + "\n        | ".join(f"NodeRef::{leaf}(_)" for leaf in leaves) + " => {}")
    print("    }")
    print("}")
    print(HELPERS)


HELPERS = """
fn list<'a>(nodes: &'a [Node], visit: &mut dyn FnMut(NodeRef<'a>)) {
    for node in nodes {
        one(Some(node), visit);
    }
}

fn one<'a>(node: Option<&'a Node>, visit: &mut dyn FnMut(NodeRef<'a>)) {
    if let Some(node) = node.and_then(|n| n.node.as_ref()) {
        visit(node.to_ref());
    }
}"""


def node_variants(source: str) -> list[tuple[str, str]]:
    body = re.search(r"pub enum Node \{(.*?)\n    \}", source, re.S).group(1)
    body = re.sub(r"\s+", "", body)
    return re.findall(r"(\w+)\((?:::prost::alloc::boxed::Box<)?super::(\w+)", body)


def children(body: str, by_struct: dict[str, str]) -> list[str]:
    body = re.sub(r"\s+", " ", body)
    lines = []
    for name, kind in re.findall(r"pub (r#\w+|\w+): ([^,]+),", body):
        inner = re.search(r"(\w+)>*$", kind.strip()).group(1)
        if "Vec<" in kind:
            if inner == "Node":
                lines.append(f"list(&n.{name}, visit);")
            elif inner in by_struct:
                lines.append(f"n.{name}.iter().for_each(|c| visit(NodeRef::{by_struct[inner]}(c)));")
        elif "Option<" in kind:
            if inner == "Node":
                deref = "as_deref" if "Box<" in kind else "as_ref"
                lines.append(f"one(n.{name}.{deref}(), visit);")
            elif inner in by_struct:
                deref = "as_deref" if "Box<" in kind else "as_ref"
                lines.append(f"n.{name}.{deref}().into_iter().for_each(|c| visit(NodeRef::{by_struct[inner]}(c)));")
    return lines


main()
