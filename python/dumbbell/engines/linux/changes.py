"""Our changes to every kernel tree: runs repeat byte for byte, and ticks are those of distributions' kernels."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

SEED_VARIABLE = "UML_SEED"

# SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with the constants of
# its reference code (prng.di.unimi.it)
_GENERATOR = f"""
/*
 * The host's random numbers, or with {SEED_VARIABLE} in the environment a stream that repeats.
 * SplitMix64 (Steele, Lea, Flood 2014), eight bytes a step; what is left of a step is dropped.
 */
ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{{
	static unsigned long long state;
	static int seeded = -1;
	unsigned char *out = buf;
	size_t done, byte;

	if (seeded < 0) {{
		const char *seed = getenv("{SEED_VARIABLE}");

		seeded = seed != NULL;
		state = seeded ? strtoull(seed, NULL, 10) : 0;
	}}
	if (!seeded)
		return host_getrandom(buf, len, flags);
	for (done = 0; done < len; done += 8) {{
		unsigned long long word = state += 0x9e3779b97f4a7c15ULL;

		word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
		word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
		word ^= word >> 31;
		for (byte = 0; byte < 8 && done + byte < len; byte++)
			out[done + byte] = word >> (8 * byte);
	}}
	return len;
}}
"""


@dataclass(frozen=True)
class KernelChange:
    """A change of one place in one file."""

    name: str
    file: str
    pattern: str
    replacement: str
    appended: str = ""


CHANGES = (
    # UML has no other source of random numbers than this function, but for CONFIG_UML_RANDOM, which is off
    KernelChange(
        "seed", "arch/um/os-Linux/util.c", r"^ssize_t os_getrandom\(", "static ssize_t host_getrandom(", _GENERATOR
    ),
    # fixed at 10 ms; where it is a choice, kernel.config chooses
    KernelChange("ticks", "arch/um/Kconfig", r"^(config HZ\n\s+int\n\s+default) 100$", r"\1 1000"),
    # room for a program's extended registers: 2696 bytes are too few on processors with AMX, which have 8192 in tiles
    # alone, and ptrace(2) then refuses to set them.
    KernelChange(
        "registers",
        "arch/x86/um/user-offsets.c",
        r"DEFINE_LONGS\(HOST_FP_SIZE, 2696\)",
        "DEFINE_LONGS(HOST_FP_SIZE, 12288)",
    ),
)


# Functions that were shared once and are private now, which patches for older trees call from other files: file,
# name, arguments. BBRv2 for 6.1 calls this one.
PRIVATE = (("net/ipv4/tcp_input.c", "tcp_enter_quickack_mode", "struct sock *sk, unsigned int max_quickacks"),)


def compute_digest() -> str:
    """Return a hash of the changes."""
    return hashlib.sha256(repr((CHANGES, PRIVATE)).encode()).hexdigest()


def apply(tree: Path) -> dict[str, bool]:
    """Change a patched `tree`, and return by name which of `CHANGES` could be made."""
    for home, name, arguments in PRIVATE:
        _share_function(tree / home, name, arguments)
    made = {}
    for change in CHANGES:
        path = tree / change.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        changed, count = re.subn(change.pattern, change.replacement, text, flags=re.MULTILINE)
        made[change.name] = count == 1
        if count == 1:
            replace(path, changed + change.appended)
    return made


def _share_function(home: Path, name: str, arguments: str) -> None:
    """Let the other files of a folder that call the private function `name` of the file `home` do so."""
    private = f"static void {name}({arguments})\n{{"
    if not home.exists() or private not in (text := home.read_text(encoding="utf-8")):
        return
    callers = [path for path in home.parent.glob("*.c") if path != home and re.search(rf"\b{name}\(", _read_text(path))]
    for path in callers:
        includes, _, rest = _read_text(path).rpartition("\n#include")
        line, _, rest = rest.partition("\n")
        replace(path, f"{includes}\n#include{line}\n\nvoid {name}({arguments});\n{rest}")
    if callers:
        replace(home, text.replace(private, private.removeprefix("static ")))


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def replace(path: Path, text: str) -> None:
    """Replace a file, so that hard links to the old one keep what they had."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8", errors="surrogateescape")
    new.chmod(path.stat().st_mode)
    os.replace(new, path)  # noqa: PTH105
