"""`dumbbell linux`, on a toy of a kernel tree that the real make(1) builds, and where asked for on a real one."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dumbbell.engines.linux import build as building
from dumbbell.engines.linux import build_tools, changes, configuration, kernels, sources
from dumbbell.engines.linux.build import KernelRequest
from dumbbell.engines.progress import StepProgress
from dumbbell.errors import InputError

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("make", "patch", "gcc", "tar", "xz", "bash")),
    reason="needs make, patch, gcc, tar, xz and bash",
)

MAKEFILE = """\
VERSION = 9
PATCHLEVEL = 9
SUBLEVEL = 1
EXTRAVERSION =
PACE ?= 0
SOURCES := $(sort $(wildcard net/ipv4/*.c net/sched/*.c))
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
$(O)/%.o: %.c
	@mkdir -p $(@D); echo "  CC      $*.o"; sleep $(PACE)
	@if grep -q BROKEN $<; then echo "$<:1:1: error: unknown type name 'BROKEN'"; exit 1; fi
	@cp $< $@
linux: $(SOURCES:%.c=$(O)/%.o)
	@printf '#!/bin/sh\\necho dumbbell-trial {\\\\"release\\\\": \\\\"9.9.1\\\\", ' > $(O)/linux
	@printf '\\\\"controls\\\\": [\\\\"reno\\\\"], \\\\"random\\\\": \\\\"$$UML_SEED\\\\"}\\n' >> $(O)/linux
	@chmod +x $(O)/linux
"""
UTIL_C = """\
#include <stdlib.h>
#include <sys/random.h>

ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
	return getrandom(buf, len, flags);
}
"""
TREE = {
    "Makefile": MAKEFILE,
    "Kconfig": "",
    "arch/um/Kconfig": "config HZ\n\tint\n\tdefault 100\n\nconfig UML\n",
    "arch/um/os-Linux/util.c": UTIL_C,
    "arch/x86/um/user-offsets.c": "\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n",
    "net/ipv4/Kconfig": "config TCP_CONG_ADVANCED\n\tbool\nconfig TCP_CONG_TOY\n\tbool\n",
    "net/ipv4/Makefile": "obj-$(CONFIG_TCP_CONG_TOY) += tcp_toy.o\n",
    "net/ipv4/tcp_toy.c": '\t.name = "toy",\n',
    "net/sched/Kconfig": "config NET_SCH_TOY\n\tbool\n",
    "net/sched/Makefile": "obj-$(CONFIG_NET_SCH_TOY) += sch_toy.o\nsch_toy-y := main.o\n",
    "net/sched/main.c": '\t.id\t=\t"toyq",\n',
    "net/sched/aside.c": "\n",
}
PATCH = """\
--- a/net/ipv4/Kconfig
+++ b/net/ipv4/Kconfig
@@ -2,3 +2,5 @@
 \tbool
 config TCP_CONG_TOY
 \tbool
+config TCP_CONG_MINE
+\tbool
--- a/net/ipv4/Makefile
+++ b/net/ipv4/Makefile
@@ -1 +1,2 @@
 obj-$(CONFIG_TCP_CONG_TOY) += tcp_toy.o
+obj-$(CONFIG_TCP_CONG_MINE) += tcp_mine.o
--- /dev/null
+++ b/net/ipv4/tcp_mine.c
@@ -0,0 +1 @@
+\t.name = "mine",
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with all tools: those that the toy does not use are empty, and apt-get has one source package."""
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        **dict.fromkeys(("flex", "bison", "bc"), ""),
        "dpkg-deb": 'cat "$2"',
        "apt-get": f"""
            case "$*" in
              *--print-uris*linux-source-9.9*) echo "'http://x/l' l_9.9.1-1_all.deb 9999 SHA256:0" ;;
              *--print-uris*) exit 100 ;;
              *) echo "$*" >> {tmp_path}/downloads; sleep ${{PACE:-0}}; cp {tmp_path}/deb l_9.9.1-1_all.deb ;;
            esac""",
        "apt-cache": "echo linux-source-9.9 - a toy",
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DUMBBELL_LINUX", str(tmp_path / "kernels"))
    monkeypatch.setattr(sources, "FREE_BYTES", 1_000_000)
    return tmp_path / "kernels"


@pytest.fixture
def tree(home: Path) -> Path:
    return write(home.parent / "tree", TREE)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def package(home: Path) -> str:
    """The version of what apt-get downloads: an archive with the sources' archive in it, as dpkg-deb prints it."""
    top = home.parent
    write(top / "linux-source-9.9", TREE)
    with tarfile.open(top / "inner.tar.xz", "w:xz") as inner:
        inner.add(top / "linux-source-9.9", "linux-source-9.9")
    with tarfile.open(top / "deb", "w") as outer:
        (top / "link").symlink_to("linux-source-9.9/linux-source-9.9.tar.xz")  # as Ubuntu has it
        outer.add(top / "link", "./usr/src/linux-source-9.9.tar.xz")
        outer.add(top / "inner.tar.xz", "./usr/src/linux-source-9.9/linux-source-9.9.tar.xz")
    return "9.9"


class Heard(StepProgress):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def print_line(self, line: str) -> None:
        self.lines.append(line)

    @property
    def steps(self) -> list[str]:
        return [line.split()[0] for line in self.lines if line.startswith("  ")]


def built(**wanted: object) -> tuple[kernels.Kernel, Heard]:
    heard = Heard()
    return building.build(KernelRequest(**wanted), heard), heard  # type: ignore[arg-type]


def refused(**wanted: object) -> str:
    with pytest.raises(InputError) as error:
        built(**wanted)
    return str(error.value)


def command(*arguments: str, pace: float = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dumbbell", "linux", *arguments],
        env={**os.environ, "PACE": str(pace), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # what starts in the background of a script ignores interrupts, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.01)


def processes_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(process.name) != os.getpid():
            found.append(words)
    return found


def test_a_tree_becomes_a_kernel_which_is_then_there(home: Path, tree: Path) -> None:
    before = {path: path.read_text() for path in tree.rglob("*") if path.is_file()}
    kernel, heard = built(tree=tree)
    assert heard.steps == ["read", "copy", "configure", "compile", "try"]
    assert (kernel.name, kernel.release, kernel.binary) == ("default", "9.9.1", home / "default" / "linux")
    assert kernel.congestion_controls == ("reno", "toy")
    assert set(kernel.qdiscs) >= {"toyq", "pfifo_fast"}
    assert kernel.described["seeded"] is True
    assert {path: path.read_text() for path in tree.rglob("*") if path.is_file()} == before
    assert kernels.load(None) == kernels.load("default") == kernel
    again = command("build", "--tree", str(tree)).communicate()[0]
    assert again == f"default: Linux 9.9.1, {home}/default/linux\n"


def test_an_edit_compiles_what_it_changes_and_a_touch_nothing(tree: Path) -> None:
    first, _ = built(tree=tree)
    (tree / "net/sched/main.c").touch()
    same, heard = built(tree=tree)
    assert (same.digest, heard.steps) == (first.digest, ["read"])
    (tree / "net/sched/main.c").write_text('\t.id = "other",\n')
    (tree / "net/sched/main.c.orig").write_text("")
    os.utime(tree / "net/sched/main.c", (1e9, 1e9))  # older than its object
    second, heard = built(tree=tree)
    assert second.digest != first.digest
    assert "other" in second.qdiscs
    assert any("compile" in line and "1 objects, 3 were there" in line for line in heard.lines), heard.lines
    assert any("replaces the kernel made from" in line for line in heard.lines)


def test_the_digest_is_of_contents_not_of_places(tree: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(tree, moved)
    assert built(tree=tree)[0].digest == built(name="moved", tree=moved)[0].digest


def test_what_a_build_left_in_a_tree_is_not_taken_over(tree: Path) -> None:
    write(
        tree,
        {".config": "", "include/config/x": "", "net/ipv4/tcp_toy.o": "", "net/ipv4/.tcp_toy.o.cmd": "", "linux": ""},
    )
    assert sources.list_sources(tree) == sorted(TREE)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_git_tree_is_what_git_would_keep(tree: Path) -> None:
    write(tree, {".gitignore": "*.o\n", "net/ipv4/tcp_toy.o": "", "new.c": "", "gone.c": ""})
    (tree / "folder").symlink_to("net")
    subprocess.run(["git", "init", "-q", tree], check=True)
    subprocess.run(["git", "-C", tree, "add", "gone.c", "Makefile", "folder"], check=True)
    (tree / "gone.c").unlink()
    assert sources.list_sources(tree) == sorted([*TREE, ".gitignore", "new.c", "folder"])


@pytest.mark.slow
def test_a_patch_adds_a_congestion_control_and_leaves_the_shared_sources_alone(
    home: Path, package: str, tmp_path: Path
) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(PATCH)
    plain, _ = built(version=package)
    patched, heard = built(name="mine", version=package, patches=(patch,))
    assert patched.congestion_controls == ("mine", "reno", "toy")
    assert "download" not in heard.steps
    assert len((tmp_path / "downloads").read_text().splitlines()) == 1
    assert plain.congestion_controls == ("reno", "toy")
    shared = home / ".sources" / "linux-source-9.9_9.9.1-1"
    assert {name: (shared / name).read_text() for name in TREE} == TREE
    assert building.describe_origin(patched.described) == "linux-source-9.9 9.9.1-1 + mine.patch"
    without, _ = built(name="mine", version=package)
    assert (without.congestion_controls, without.digest) == (plain.congestion_controls, plain.digest)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PATCH.replace(" \tbool", " \tint"), "net/ipv4/Kconfig: hunk 1 does not apply at line 2"),
        (PATCH.replace("net/ipv4/Makefile", "net/Makefile"), "no such file in this kernel"),
        ("--- nothing\n", "garbage"),
        (PATCH.replace("@@ -1 +1,2 @@", "@@ -1 +1,9 @@"), "malformed patch at line"),
    ],
)
def test_a_patch_that_does_not_apply_says_where(tree: Path, tmp_path: Path, text: str, said: str) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(text)
    message = refused(tree=tree, patches=(patch,))
    assert message.startswith(f"{patch}: ")
    assert said in message
    assert "a patch for Linux 9.9.1" in message
    patch.write_text(PATCH)
    assert "mine" in built(tree=tree, patches=(patch,))[0].congestion_controls


def test_a_patch_that_applies_with_fuzz_says_so(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(PATCH.replace(" config TCP_CONG_TOY", " config TCP_CONG_GONE"))
    assert any("fuzz" in line for line in built(tree=tree, patches=(patch,))[1].lines)


def test_a_patch_twice(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(PATCH)
    assert "applied already" in refused(tree=tree, patches=(patch, patch))


def test_a_failed_compile_says_the_first_error_and_the_log(home: Path, tree: Path) -> None:
    (tree / "net/sched/main.c").write_text("BROKEN\n")
    message = refused(tree=tree)
    assert "net/sched/main.c:1:1: error: unknown type name" in message
    assert f"log: {home}/.build/default/log" in message
    write(tree, TREE)
    assert built(tree=tree)[0].release == "9.9.1"


def test_a_fragment_is_taken_or_refused(tree: Path, tmp_path: Path) -> None:
    fragment = tmp_path / "mine.config"
    fragment.write_text("# CONFIG_NET_SCH_TOY is not set\nCONFIG_TUN=m\n")
    kernel, _ = built(tree=tree, fragment=fragment)
    assert "toyq" not in kernel.qdiscs
    assert "CONFIG_TUN=y" in kernel.config.read_text()
    fragment.write_text("TCP_CONG_TOY\n")
    assert "line 1" in refused(tree=tree, fragment=fragment)
    with pytest.raises(InputError, match="CONFIG_NO_SUCH: y was asked for, and the kernel sets n"):
        configuration.check_taken("CONFIG_TUN=y\n", "CONFIG_TUN=y\nCONFIG_NO_SUCH=y\n", "f")


def test_the_version_of_bbr_is_read_from_the_tree(tree: Path) -> None:
    file = tree / "net/ipv4/tcp_bbr.c"
    assert built(tree=tree)[0].described["bbr"] == configuration.read_bbr_version(tree) == 1
    file.write_text("/* #define BBR_VERSION 9 */\n#define BBR_VERSION\t\t3\n")
    assert built(tree=tree)[0].described["bbr"] == 3


def test_a_tree_without_a_random_source_says_so(tree: Path) -> None:
    (tree / "arch/um/os-Linux/util.c").write_text("\n")
    kernel, heard = built(tree=tree)
    assert kernel.described["seeded"] is False
    assert any("cannot be seeded" in line for line in heard.lines)


def test_a_private_function_is_shared_with_a_patch_that_calls_it(tmp_path: Path) -> None:
    _, name, arguments = changes.PRIVATE[0]
    private = f"static void {name}({arguments})\n{{\n}}\n"
    caller = f"#include <a.h>\n#include <b.h>\n\nvoid f(void)\n{{\n\t{name}(sk, 2);\n}}\n"
    tree = write(tmp_path, TREE | {"net/ipv4/tcp_input.c": private})
    changes.apply(tree)
    assert (tree / "net/ipv4/tcp_input.c").read_text() == private
    write(tree, {"net/ipv4/tcp_mine.c": caller})
    changes.apply(tree)
    assert (tree / "net/ipv4/tcp_input.c").read_text() == private.removeprefix("static ")
    declared = f"#include <b.h>\n\nvoid {name}({arguments});\n\n"
    assert (tree / "net/ipv4/tcp_mine.c").read_text() == caller.replace("#include <b.h>\n\n", declared)


def test_the_seeded_source_repeats_and_differs_by_seed(tmp_path: Path) -> None:
    """SplitMix64 from seed 1234567: the first outputs as its authors' code gives them."""
    tree = write(tmp_path, TREE)
    assert changes.apply(tree) == {"seed": True, "ticks": True, "registers": True}
    assert "HOST_FP_SIZE, 12288)" in (tree / "arch/x86/um/user-offsets.c").read_text()
    assert "default 1000" in (tree / "arch/um/Kconfig").read_text()
    main = tmp_path / "main.c"
    main.write_text(
        "#include <stdio.h>\n"
        + (tree / "arch/um/os-Linux/util.c").read_text()
        + "int main(void) { unsigned long long x[3];"
        ' os_getrandom(x, sizeof(x), 0); printf("%llu %llu %llu\\n", x[0], x[1], x[2]); return 0; }'
    )
    subprocess.run(["gcc", "-o", tmp_path / "main", main], check=True)

    def drawn(seed: str | None) -> list[int]:
        environment = {**os.environ, **({changes.SEED_VARIABLE: seed} if seed else {})}
        return [int(x) for x in subprocess.check_output([tmp_path / "main"], env=environment).split()]

    assert drawn("1234567") == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert drawn("2") != drawn("3")
    assert drawn(None) != drawn(None)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["download", "unpack", "compile"])
def test_a_killed_build_leaves_no_process_and_goes_on(home: Path, package: str, tmp_path: Path, moment: str) -> None:
    objects = home / ".build" / "default" / "objects"
    build = ("build", "--version", package, "--jobs", "1")
    if moment == "unpack":  # the toy's unpacks in no time
        slow = tmp_path / "bin" / "dpkg-deb"
        slow.write_text('#!/bin/sh\nsleep ${PACE:-0}\ncat "$2"\n')
    at = {
        "download": lambda: (tmp_path / "downloads").exists(),
        "unpack": lambda: any((home / ".sources").glob("*.part")),
        "compile": lambda: any(objects.rglob("*.o")),
    }[moment]
    child = command(*build, pace=0.5)
    wait_for(at)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    wait_for(lambda: not processes_in(home), 20)
    there = {path: path.stat().st_mtime_ns for path in objects.rglob("*.o")}
    output = command(*build).communicate()[0]
    assert "default: Linux 9.9.1" in output, output
    assert ("unpack" in output) == (moment != "compile")
    assert {path: path.stat().st_mtime_ns for path in there} == there


def test_an_interrupt_ends_the_compilers_and_says_so(home: Path, tree: Path) -> None:
    child = command("build", "--tree", str(tree), pace=60)
    wait_for(lambda: bool(processes_in(home / ".build" / "default" / "objects")))
    wait_for(lambda: "CC" in (home / ".build/default/log").read_text())
    child.send_signal(signal.SIGINT)
    output = child.communicate(timeout=30)[0]
    assert child.returncode == 130
    assert "interrupted; the same command resumes here" in output
    assert not processes_in(home)


def test_one_build_of_a_name_at_a_time(home: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dumbbell.engines.linux.work.LOCK_WAIT_S", 0.2)
    (home / ".build").mkdir(parents=True)
    with (home / ".build" / ".default.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another build of this kernel is using it" in refused(tree=tree)
        assert built(name="other", tree=tree)[0].name == "other"


def test_missing_tools_are_named_with_the_command_that_installs_them(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin" / "flex").unlink()
    for name in ("gcc", "make", "patch", "xz", "tar"):
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refused(tree=tree) == ("linux build needs flex: sudo apt-get install flex (or --install)")
    with pytest.raises(InputError, match="--install needs root"):
        build_tools.install(["flex"])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"version": "9.8"}, "version: unknown package linux-source-9.8; the only one is 9.9"),
        ({"version": "../x"}, "version"),
        ({"name": "../x", "version": "9.9"}, "letters, digits"),
        ({"tree": Path("/nowhere")}, "/nowhere has no Makefile"),
        ({"version": "9.9", "tree": Path("/nowhere")}, "--tree and --version"),
        ({"version": "9.9", "patches": (Path("/nowhere"),)}, "patch: /nowhere: no such file"),
    ],
)
@pytest.mark.usefixtures("package")
def test_bad_input_is_one_line(wanted: dict[str, object], said: str) -> None:
    message = refused(**wanted)
    assert said in message
    assert "\n" not in message


def test_list_remove_and_dry_run(home: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dumbbell.cli.linux import list_, remove

    assert "compile    about" in "\n".join(building.describe_plan(KernelRequest(name="a", tree=tree)))
    assert not home.exists()
    built(name="a", tree=tree)
    built(name="b", tree=tree)
    assert "nothing to do" in building.describe_plan(KernelRequest(name="a", tree=tree))[0]
    list_()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["a", "9.9.1"], ["b", "9.9.1"]]
    with pytest.raises(InputError, match="hoose from a, b"):
        remove(["c"])
    (home / "runs").mkdir()
    with pytest.raises(InputError, match="is not a kernel"):
        remove(["runs"])
    assert "is not a kernel" in refused(name="runs", tree=tree)
    remove(["a"])
    assert [kernel.name for kernel in kernels.list_installed()] == ["b"]
    assert not (home / ".build" / "a").exists()
    with pytest.raises(InputError, match=r"linux: unknown kernel a; choose from b, or build it with .*--name a"):
        kernels.load("a")
    (home / "b" / "linux").unlink()
    with pytest.raises(InputError, match="remove b"):
        kernels.load("b")


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not os.environ.get("DUMBBELL_BUILD_KERNEL"), reason="builds a kernel: DUMBBELL_BUILD_KERNEL=6.12")
def test_a_real_kernel_is_built_and_its_seed_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUMBBELL_LINUX", str(tmp_path))
    version = os.environ["DUMBBELL_BUILD_KERNEL"]
    kernel, _ = built(version=version)
    assert kernel.release.startswith(f"{version}.")
    assert kernel.described["seeded"]
    assert kernel.described["ticks_1ms"]
    assert set(kernel.congestion_controls) >= {"reno", "cubic", "dctcp", "bbr"}
    assert set(kernel.qdiscs) >= {"cake", "codel", "fq", "fq_codel", "fq_pie", "htb", "netem", "pfifo", "pie", "red"}
    text = json.loads((tmp_path / "default" / "kernel.json").read_text())
    assert text["digest"] == kernel.digest
