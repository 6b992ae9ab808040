"""Papers whose tables dumbbell prints: one file a paper, and its line here."""

from dumbbell.drafts.model import Draft
from dumbbell.drafts.sce import SCE

DRAFTS: dict[str, Draft] = {draft.name: draft for draft in (SCE,)}
