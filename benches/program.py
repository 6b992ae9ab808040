"""The program of `make bench`, built with one profile."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build_program(profile: str) -> Path:
    """Build the program with a profile of Cargo.toml and return its place; flags of the environment do not count."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"}
    }
    command = ["cargo", "build", "--profile", profile, "-p", "dumbbell-sim", "--bench", "packets"]
    done = subprocess.run(
        [*command, "--quiet", "--message-format", "json-render-diagnostics"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(
        Path(one["executable"])
        for one in messages
        if one.get("executable") and one["target"]["name"] == "packets" and "bench" in one["target"]["kind"]
    )


def describe_compiler() -> str:
    """Return version and target of the compiler: `rustc 1.95.0 (59807616e 2026-04-14) x86_64-unknown-linux-gnu`."""
    said = subprocess.run(["rustc", "-Vv"], capture_output=True, text=True, check=True).stdout.splitlines()
    return f"{said[0]} {next(line.removeprefix('host: ') for line in said if line.startswith('host: '))}"
