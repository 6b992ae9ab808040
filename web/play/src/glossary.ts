// Sentences of docs/glossary.md, which build.mjs puts into the page.

declare const GLOSSARY_TABLE: Record<string, string>;

export const GLOSSARY: Record<string, string> = GLOSSARY_TABLE;
