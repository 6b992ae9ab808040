// Prints the file and the digest of random experiments, one a line: node digests.mjs FIRST COUNT.

import { dropDefaults, makeConfig } from "../src/experiment";
import { formatToml, readToml } from "../src/toml";
import { drawExperiment } from "./draw";
import { loadEngine } from "./engine";

const engine = await loadEngine();
const { registry } = engine;
const [first = 0, count = 1] = process.argv.slice(2).map(Number);
for (let seed = first; seed < first + count; seed++) {
  const experiment = dropDefaults(drawExperiment(registry, seed), registry);
  const toml = formatToml(experiment, registry);
  let digest: string | null = null;
  let refused: string | null = null;
  try {
    digest = engine.run(makeConfig(experiment)).digest;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "ConfigError") throw error;
    refused = error.message;
  }
  // the text is the experiment: reading it gives the same file again
  const again = formatToml(readToml(toml, registry), registry);
  console.log(JSON.stringify({ seed, toml, again, digest, refused }));
}
