"""Steps of an agent in ns3-gym, next to those of `python -m benches.simulate`: the figures of docs/how-to/learn.md.

python -m benches.ns3_gym CLONE PYTHON

CLONE is a clone of https://github.com/tkn-tub/ns3-gym, whose example rl-tcp runs unchanged: one flow over a link of
10 Mbit/s with a base RTT of 20 ms, whose window of 20 segments an agent sets every 10 ms. PYTHON is that of an
environment with `pip install --no-deps ns3==3.44.post0` and `pip install gymnasium pyzmq protobuf==3.20.3`. Needs a C++
compiler, protoc 3.21 and the headers of protobuf and cppzmq (Debian: protobuf-compiler libprotobuf-dev cppzmq-dev).

Prints the CPU time of a step, that of both processes: what else the machine does makes it longer, and never shorter.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from benches import program

FOLDER = program.ROOT / "target" / "peers" / "ns3-gym"
MODULES = (
    *("core", "network", "internet", "applications", "point-to-point"),
    *("point-to-point-layout", "traffic-control", "flow-monitor"),
)
HEADERS = ("container.h", "spaces.h", "opengym_env.h", "opengym_interface.h", "opengym-helper.h")
SOURCES = ("model/*.cc", "model/*.h", "model/messages.proto", "helper/*", "examples/rl-tcp/*.cc", "examples/rl-tcp/*.h")
TURNS = 3

# runs in PYTHON, with the folder of ns3gym on its path; gymnasium stands in for gym, of which ns3gym needs the spaces
DRIVER = """
import resource, subprocess, sys, time, types
import gymnasium, numpy
import gymnasium.envs.registration
for name in ("gym", "gym.spaces", "gym.utils", "gym.envs", "gym.envs.registration"):
    sys.modules[name] = sys.modules[name.replace("gym", "gymnasium")]
numpy.float = float
from ns3gym import ns3env
binary, port = sys.argv[1:]
arguments = {
    "transport_prot": "TcpRlTimeBased", "openGymPort": port, "simSeed": 1, "envTimeStep": 0.01, "duration": 60,
    "bottleneck_bandwidth": "10Mbps", "bottleneck_delay": "0.01ms", "mtu": 1500,
    "access_bandwidth": "1Gbps", "access_delay": "4.995ms",
}
simulation = subprocess.Popen([binary, *(f"--{name}={value}" for name, value in arguments.items())],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
env = ns3env.Ns3Env(port=int(port), stepTime=0.01, startSim=False)
env.reset()
steps, over, began = 0, False, time.process_time()
while not over:
    over = env.step([2**30, 20 * 1428])[2]  # slow start threshold and window, bytes
    steps += 1
own = time.process_time() - began
env.close()
simulation.wait(timeout=10)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(steps, (own + used.ru_utime + used.ru_stime) / steps)
"""


def _run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def build_example(clone: Path, python: Path) -> Path:
    """Compile the example rl-tcp with the parts of ns3-gym; return the program, which lies next to package ns3gym."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "include" / "ns3").mkdir(parents=True)
    for pattern in SOURCES:
        for path in clone.glob(pattern):
            if path.is_file():
                shutil.copy(path, FOLDER)
    module = "".join(f'#include "{name}"\n' for name in HEADERS)
    (FOLDER / "include" / "ns3" / "opengym-module.h").write_text(module, encoding="utf-8")
    shutil.copytree(clone / "model" / "ns3gym" / "ns3gym", FOLDER / "ns3gym")
    _run("protoc", "--cpp_out=.", "--python_out=ns3gym", "messages.proto", folder=FOLDER)
    home = Path(_run(python, "-c", "import ns3; print(ns3.__path__[0])").strip().splitlines()[-1])
    core = next(path for path in home.glob("lib*/libns3*-core*.so"))
    before, after = core.name.removeprefix("lib").removesuffix(".so").split("core")
    _run(
        *("c++", "-O2", "-std=c++20", "-w", f"-I{FOLDER / 'include'}", f"-I{FOLDER}", f"-I{home / 'include'}"),
        *sorted(FOLDER.glob("*.cc")),
        *("-o", FOLDER / "rl-tcp", f"-L{core.parent}", f"-Wl,-rpath,{core.parent}"),
        *(f"-l{before}{name}{after}" for name in MODULES),
        *("-lzmq", "-lprotobuf", "-Wl,--allow-shlib-undefined"),
    )
    return FOLDER / "rl-tcp"


def main() -> None:
    """Build, run in turns, and print the least CPU time of a step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("python", type=Path)
    given = parser.parse_args()
    binary = build_example(given.clone.resolve(), given.python)
    found = []
    for turn in range(TURNS):
        steps, seconds = _run(given.python, "-c", DRIVER, binary, str(5600 + turn), folder=FOLDER).split()[-2:]
        found.append(float(seconds))
        print(f"{steps} steps, {1e6 * found[-1]:.0f} us of CPU each", file=sys.stderr)
    print(f"ns3-gym: {1e6 * min(found):.0f} us of CPU a step")


if __name__ == "__main__":
    main()
