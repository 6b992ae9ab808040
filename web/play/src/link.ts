// Links: the fragment of the address contains the experiment's file, compressed, and the moment that the page shows.

import type { Experiment, Setting } from "./experiment";

export interface Link {
  toml: string;
  /** The moment, ms. */
  time: number | null;
  /** A second set-up that is compared with the first. */
  other: string | null;
  /** Settings of both set-ups: no experiment file has them. */
  settings: Setting[][];
}

async function pipe(bytes: Uint8Array, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  const through = new Blob([bytes as BlobPart]).stream().pipeThrough(stream as ReadableWritablePair<Uint8Array, Uint8Array>);
  return new Uint8Array(await new Response(through).arrayBuffer());
}

/** Returns text as deflated bytes in the letters of addresses (RFC 4648 section 5). */
export async function packText(text: string): Promise<string> {
  const bytes = await pipe(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

/** Returns the text that `packText` packed; raises an error if it is damaged. */
export async function unpackText(packed: string): Promise<string> {
  const binary = atob(packed.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = await pipe(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)), new DecompressionStream("deflate-raw"));
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** Returns the fragment of a link, without `#`. */
export async function formatLink({ toml, time, other, settings }: Link): Promise<string> {
  const parts = [`e=${await packText(toml)}`];
  if (other !== null) parts.push(`b=${await packText(other)}`);
  if (settings.some((one) => one.length)) parts.push(`s=${await packText(JSON.stringify(settings))}`);
  if (time !== null && time > 0) parts.push(`t=${Number(time.toFixed(3))}`);
  return parts.join("&");
}

/** Returns the link of a fragment, or null if it holds no experiment. Raises an error if it is damaged. */
export async function readLink(fragment: string): Promise<Link | null> {
  const parts = splitFragment(fragment);
  const [packed, other, set] = [parts.get("e"), parts.get("b"), parts.get("s")];
  if (packed === null) return null;
  return {
    toml: await unpackText(packed),
    other: other === null ? null : await unpackText(other),
    settings: set === null ? [] : (JSON.parse(await unpackText(set)) as Setting[][]),
    time: readTime(parts),
  };
}

/** Returns the run and the moment, ms, that a report or the site links to (`make_fragment` of python/dumbbell/play/play_page.py), or null. Raises an error if the run is damaged. */
export async function readRun(fragment: string): Promise<{ experiment: Experiment; time: number | null } | null> {
  const parts = splitFragment(fragment);
  const packed = parts.get("g");
  return packed === null ? null : { experiment: JSON.parse(await unpackText(packed)) as Experiment, time: readTime(parts) };
}

/** Returns the key of the lesson that a fragment begins with, or null. */
export function readLesson(fragment: string): string | null {
  return splitFragment(fragment).get("lesson");
}

function splitFragment(fragment: string): URLSearchParams {
  return new URLSearchParams(fragment.replace(/^#/, ""));
}

function readTime(parts: URLSearchParams): number | null {
  const time = Number(parts.get("t"));
  return time > 0 ? time : null;
}
