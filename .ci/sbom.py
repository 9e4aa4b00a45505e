"""Writes the packages of `cargo metadata` as CycloneDX 1.6. Only what the libraries and programs contain: no tests, and not the tools of the build."""

import json
import sys
import tomllib


def main() -> None:
    name, lock = sys.argv[1:]
    metadata = json.load(sys.stdin)
    with open(lock, "rb") as file:
        checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.load(file)["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    published = [id for id in metadata["workspace_members"] if packages[id]["publish"] != [] or name == "ptx-python"]
    used = reachable(nodes, published)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": name, "bom-ref": name}},
        "components": [component(packages[id], checksums) for id in used],
        "dependencies": [{"ref": name, "dependsOn": [purl(packages[id]) for id in published]}]
        + [{"ref": purl(packages[id]), "dependsOn": sorted(purl(packages[d]) for d in normal(nodes[id]))} for id in used],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


def normal(node: dict) -> list[str]:
    """The packages that a package needs when it runs."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def reachable(nodes: dict, roots: list[str]) -> list[str]:
    found, pending = set(), list(roots)
    while pending:
        id = pending.pop()
        if id not in found:
            found.add(id)
            pending += normal(nodes[id])
    return sorted(found)


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, checksums: dict) -> dict:
    found = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


main()
