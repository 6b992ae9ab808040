// The engine of make wasm in Node.

import { readFileSync } from "node:fs";
import { load } from "../../../crates/dumbbell-wasm/js/dumbbell.js";
import type { Engine } from "../src/simulation";

const MODULE = new URL("../../wasm/dumbbell.wasm", import.meta.url);

export async function loadEngine(): Promise<Engine> {
  return (await load(new WebAssembly.Module(readFileSync(MODULE)))) as unknown as Engine;
}
