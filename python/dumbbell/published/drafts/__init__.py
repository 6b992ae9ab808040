"""Papers whose tables dumbbell prints: one file a paper, and its line here."""

from dumbbell.published.drafts.model import Draft
from dumbbell.published.drafts.sce import SCE

DRAFTS: dict[str, Draft] = {draft.name: draft for draft in (SCE,)}
