"""The project's Python sources as data: modules, what each imports, and where."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE_ROOTS = {"parlora": ROOT, "parlora_actors": ROOT / "actors"}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, by full name, and where the import stands."""

    target: str
    path: Path
    line: int
    name: str
    """What is taken from the module; empty where it is imported whole."""
    is_lazy: bool
    """Inside a function, so it happens when the function is called."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target} {self.name}".rstrip()


@cache
def modules() -> dict[str, Path]:
    """Every module of both packages by its full name."""
    found = {}
    for package, root in PACKAGE_ROOTS.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(module: str) -> tuple[Import, ...]:
    """What a module imports at run time; imports for the type checker alone are left out."""
    path = modules()[module]
    tree = ast.parse(path.read_text(), str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_walk(tree, path, package, is_lazy=False))


def _walk(node: ast.AST, path: Path, package: str, *, is_lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _walk(other, path, package, is_lazy=is_lazy)
        elif isinstance(child, ast.Import):
            yield from (Import(alias.name, path, child.lineno, "", is_lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from _import_from(child, path, package, is_lazy=is_lazy)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, path, package, is_lazy=is_lazy or inside)


def _import_from(node: ast.ImportFrom, path: Path, package: str, *, is_lazy: bool) -> Iterator[Import]:
    base = node.module or ""
    if node.level:
        parents = package.split(".")
        kept = parents[: len(parents) - node.level + 1]
        base = ".".join([*kept, base] if base else kept)
    for alias in node.names:
        submodule = f"{base}.{alias.name}"
        known = submodule in modules() or (base == "parlora" and alias.name == "_native")
        yield Import(submodule if known else base, path, node.lineno, "" if known else alias.name, is_lazy)


def closure(module: str, *, with_packages: bool = False) -> list[str]:
    """The module and every module of ours that importing it brings in, lazy imports left out.

    With packages also the `__init__` of every package on the way, which importing a module runs first.
    """
    seen: list[str] = []
    pending = [module]
    while pending:
        name = pending.pop()
        if name in seen or name not in modules():
            continue
        seen.append(name)
        pending += [found.target for found in imports_of(name) if not found.is_lazy]
        if with_packages and "." in name:
            pending.append(name.rpartition(".")[0])
    return seen
