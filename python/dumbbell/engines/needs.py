"""Requirements of an engine on a machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that an engine needs: what it is, what was found, and what to do unless all is well."""

    what: str
    found: str
    remedy: str = ""
    needed: bool = True
    """Whether the engine cannot run without it."""

    @property
    def state(self) -> str:
        """Return "ok", "missing", or "optional", which is missing, but the engine runs without it."""
        return "ok" if not self.remedy else "missing" if self.needed else "optional"
