"""Checks whether type checkers know the types of the public names, in the installed package.

`make lint` runs it with the Python of the environment that has basedpyright. It prints unknown
types, with exit code 1 if there are any. lineax has no types: the bases of classes that derive from
its classes are unknown, and only they may be.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import meshsolve

of_lineax = "Type of metaclass unknown", "Type of base class"

# Only the search path decides where it finds packages; next to pyproject.toml it finds sources.
environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
environment["PATH"] = f"{pathlib.Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
command = [sys.executable, "-m", "basedpyright", "--outputjson", "--ignoreexternal"]
with tempfile.TemporaryDirectory() as folder:
    ran = subprocess.run(
        [*command, "--verifytypes", "meshsolve"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
report = json.loads(ran.stdout)["typeCompleteness"]
symbols = [s for s in report["symbols"] if s["isExported"] or s["referenceCount"]]
unknown = []
for symbol in symbols:
    stated = [diagnostic["message"] for diagnostic in symbol["diagnostics"]]
    if symbol["name"].startswith("meshsolve.lineax."):
        stated = [message for message in stated if not message.startswith(of_lineax)]
    elif not (symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]):
        stated = stated or ["its type is not known"]
    unknown += [f"{symbol['name']}: {message}" for message in stated]
exported = {symbol["name"] for symbol in symbols if symbol["isExported"]}
if "py.typed" not in report.get("pyTypedPath", ""):
    unknown.append("the installed package was not found")
unknown += [
    f"{name}: it is not among the symbols"
    for name in meshsolve.__all__
    if name != "__version__" and not any(symbol.split(".")[-1] == name for symbol in exported)
]
print("\n".join(unknown) or f"the types of {len(exported)} public symbols are known")
sys.exit(bool(unknown))
