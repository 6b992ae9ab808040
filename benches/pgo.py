"""Learns from short runs which way the engine's branches go, and prints the flags with which a build uses that.

`make pgo`, `make wheel` and `make bench-pgo` take the flags. Where llvm-profdata of the compiler's LLVM cannot be had,
it says so and prints none. Results are the same bits; only the order and the inlining of the code differ.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benches.program import ROOT

FOLDER = ROOT / "target" / "pgo"
PROFILE = FOLDER / "train.profdata"


def _read_version(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def find_profdata() -> str | None:
    """Return the program that gathers profiles: the toolchain's, added if need be, or the system's of the same LLVM."""
    version = _read_version("rustc", "-vV")
    host = re.findall(r"^host: (.+)$", version, re.MULTILINE)[0]
    major = re.findall(r"^LLVM version: (\d+)", version, re.MULTILINE)[0]
    own = (
        Path(_read_version("rustc", "--print", "sysroot").strip()) / "lib" / "rustlib" / host / "bin" / "llvm-profdata"
    )
    if not own.exists() and shutil.which("rustup"):
        subprocess.run(["rustup", "component", "add", "llvm-tools"], capture_output=True, check=False)
    places = [str(own), f"llvm-profdata-{major}", f"/usr/lib/llvm-{major}/bin/llvm-profdata"]
    found = next((place for place in places if shutil.which(place)), None)
    if found is None:
        print(
            "built without a profile: llvm-profdata is not there. "
            f"`rustup component add llvm-tools` brings it, or a package llvm-{major} of the system",
            file=sys.stderr,
        )
    return found


def learn(gather: str, target: str) -> None:
    """Build the training program so that it counts, run it, and gather what it counted."""
    raw = FOLDER / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    environment = os.environ | {"RUSTFLAGS": f"-Cprofile-generate={raw}"}
    build = ["cargo", "build", "--release", "--quiet", "-p", "dumbbell-sim", "--example", "train"]
    subprocess.run(
        [*build, "--target", target, "--target-dir", str(FOLDER)],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=sys.stderr,
    )
    # what the environment says of profiles does not count
    trained = {name: value for name, value in os.environ.items() if name != "LLVM_PROFILE_FILE"}
    subprocess.run([FOLDER / target / "release" / "examples" / "train"], check=True, stdout=sys.stderr, env=trained)
    subprocess.run([gather, "merge", "-o", str(PROFILE), str(raw)], check=True, stdout=sys.stderr)


def main(target: str) -> None:
    """Learn, and print the flags."""
    if gather := find_profdata():
        learn(gather, target)
        print(f"-Cprofile-use={PROFILE}")


if __name__ == "__main__":
    main(sys.argv[1])
