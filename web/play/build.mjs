// Builds the playground: one page with its program, its worker, its style and the engine's module.
//
//     node build.mjs MODULE PAGE     the page, with the module of make wasm; --small behind it compresses the module for half a minute
//     node build.mjs --tests FOLDER  the unit tests as programs for node --test

import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../..");
const WEB = join(ROOT, "python/dumbbell/figures/web");

const read = (...parts) => readFileSync(join(...parts), "utf8");

/** The sentences of docs/glossary.md by their words. */
function readGlossary() {
  const rows = [...read(ROOT, "docs/glossary.md").matchAll(/^\| (?!word \||---)(.+?) \| (.+?) \|$/gm)];
  if (rows.length < 20) throw new Error("docs/glossary.md: no table of words");
  return Object.fromEntries(rows.map(([, word, meaning]) => [word, meaning.replace(/[*`]|\[|\]\([^)]*\)/g, "")]));
}

const COMMON = {
  bundle: true,
  write: false,
  minify: true,
  legalComments: "none",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { GLOSSARY_TABLE: JSON.stringify(readGlossary()) },
  logLevel: "warning",
};

async function bundle(entry) {
  const { outputFiles } = await build({ ...COMMON, entryPoints: [join(HERE, "src", entry)], format: "iife" });
  return outputFiles[0].text;
}

/** The licences of the packages whose code is in the page. */
function readLicences() {
  const { dependencies } = JSON.parse(read(HERE, "package.json"));
  return Object.entries(dependencies).map(([name, version]) => `${name} ${version}\n\n${read(HERE, "node_modules", name, "LICENSE").trim()}`);
}

/** The module as gzip has it, which every browser unpacks. zopfli searches longer for the same format, and saves 5 %. */
async function packModule(path, isSmall) {
  const module = readFileSync(path);
  if (!isSmall) return gzipSync(module, { level: 9 });
  const { default: zopfli } = await import("@gfx/zopfli");
  return Buffer.from(await zopfli.gzipAsync(module, { numiterations: 5 }));
}

async function buildPage(modulePath, output, isSmall) {
  const [program, worker, start] = await Promise.all([bundle("main.tsx"), bundle("worker.ts"), bundle("start.ts")]);
  const style = [read(WEB, "page.css"), read(HERE, "node_modules/uplot/dist/uPlot.min.css"), read(HERE, "src/play.css")].join("\n");
  const licences = `/*!\n${readLicences().join("\n\n").replaceAll("*/", "* /")}\n*/\n`;
  const parts = {
    STYLE: style,
    THEME: read(WEB, "theme.js"),
    WORKER: worker,
    MODULE: (await packModule(modulePath, isSmall)).toString("base64"),
    START: start,
    PROGRAM: licences + program,
  };
  let page = read(HERE, "src/page.html");
  for (const [name, text] of Object.entries(parts)) {
    if (name !== "STYLE" && /<\/script/i.test(text)) throw new Error(`${name}: contains the end of a script`);
    page = page.replace(`/*${name}*/`, () => text);
  }
  mkdirSync(dirname(output), { recursive: true });
  writeFileSync(output, page);
}

async function buildTests(folder) {
  const tests = readdirSync(join(HERE, "test")).filter((name) => name.endsWith(".test.ts") || name === "digests.ts");
  await build({
    ...COMMON,
    write: true,
    minify: false,
    entryPoints: tests.map((name) => join(HERE, "test", name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    format: "esm",
    platform: "node",
  });
}

const [first, second, third] = process.argv.slice(2);
if (first === "--tests") await buildTests(second);
else if (first && second && (third === undefined || third === "--small")) await buildPage(first, second, third !== undefined);
else throw new Error("node build.mjs MODULE PAGE [--small], or node build.mjs --tests FOLDER");
