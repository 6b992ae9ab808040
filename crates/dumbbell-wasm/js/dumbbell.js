// dumbbell in a web page, or in Node: configurations in, measures out.
//
//     import { load } from "./dumbbell.js";
//     const dumbbell = await load(fetch("dumbbell.wasm"));
//     const { summary, digest, tables } = dumbbell.run({ bottleneck: { aqm: { name: "codel" } }, flows: [{ cc: { name: "cubic" } }] });
//
// A configuration is an object as crates/dumbbell-sim/README.md has it, or its JSON. A run takes its time: in a page, call it in a worker, or
// let it go on step by step.

/** A configuration that cannot be used: `key`, what was `found`, what is `allowed`. */
export class ConfigError extends Error {
  constructor({ message, key, found, allowed }) {
    super(message);
    Object.assign(this, { name: "ConfigError", key, found, allowed });
  }
}

/**
 * Loads the module: `source` is a WebAssembly.Module, its bytes, or a response that brings them, or the promise of one of these.
 */
export async function load(source) {
  const given = await source;
  const module = given instanceof WebAssembly.Module ? given : await WebAssembly.compile(await bytesOf(given));
  return new Dumbbell(await WebAssembly.instantiate(module, {}));
}

async function bytesOf(given) {
  if (typeof given.arrayBuffer !== "function") return given;
  if (given.ok === false) throw new Error(`${given.url}: ${given.status} ${given.statusText}`);
  return given.arrayBuffer();
}

class Dumbbell {
  #calls;
  #broken = null;

  constructor(instance) {
    this.#calls = instance.exports;
  }

  /** Version of the engine. */
  get version() {
    return this.#call("version").text;
  }

  /** Size of the module's memory, bytes; it does not shrink. */
  get memory() {
    return this.#calls.memory.buffer.byteLength;
  }

  /** Everything that a configuration can hold, described. */
  get registry() {
    return JSON.parse(this.#call("registry").text);
  }

  /** Throws a ConfigError if `config` cannot be used. */
  check(config) {
    this.#ask("check", config);
  }

  /** Runs `config`: `{summary, digest, tables}`. A table is an object of columns, arrays of one length; null is a number that there is not. */
  run(config) {
    return JSON.parse(this.#ask("run", config).text);
  }

  /** A run of `config` that has not begun; one that is `changeable` is slower, and `set` may change it. */
  start(config, { changeable = false } = {}) {
    const { code } = this.#ask(changeable ? "begin_changeable" : "begin", config);
    return this.#run(Run, code);
  }

  /** A run of `config` that has not begun and records its events; `set` may change it. */
  watch(config) {
    const { code } = this.#ask("watch", config);
    return this.#run(WatchedRun, code);
  }

  #run(kind, code) {
    return new kind(code, (name, ...more) => this.#call(name, ...more), (copied) => this.#run(kind, copied));
  }

  #ask(name, config) {
    const text = new TextEncoder().encode(typeof config === "string" ? config : JSON.stringify(config));
    return this.#call(name, { text });
  }

  #call(name, ...given) {
    if (this.#broken) throw new Error(`this module stopped at a bug, load another one: ${this.#broken}`);
    const calls = this.#calls;
    try {
      if (given[0]?.text) {
        const { text } = given.shift();
        const place = calls.input(text.length) >>> 0;
        new Uint8Array(calls.memory.buffer, place, text.length).set(text);
      }
      const code = calls[name](...given);
      if (code !== -1) return new Reply(code, this.#bytes().slice());
      const refused = JSON.parse(this.#output());
      throw refused.key === undefined ? new Error(refused.message) : new ConfigError(refused);
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      calls.message();
      this.#broken = this.#output() || error.message;
      throw new Error(`a bug of dumbbell: ${this.#broken}`, { cause: error });
    }
  }

  #bytes() {
    const { memory, output, output_len } = this.#calls;
    const place = output() >>> 0;
    return new Uint8Array(memory.buffer, place, output_len() >>> 0);
  }

  #output() {
    return new TextDecoder().decode(this.#bytes());
  }
}

/** What a call left. */
class Reply {
  constructor(code, bytes) {
    this.code = code;
    this.bytes = bytes;
  }

  get text() {
    return new TextDecoder().decode(this.bytes);
  }
}

/** A run on its way. It stays in memory until `finish` or `forget`. */
class Run {
  #number;
  #calls;
  #make;

  constructor(number, calls, make) {
    this.#number = number;
    this.#calls = calls;
    this.#make = make;
  }

  /** @protected */
  _call(name, ...more) {
    return this.#calls(name, this.#number, ...more);
  }

  /** A copy, which goes on as this run does. */
  fork() {
    return this.#make(this._call("fork").code);
  }

  /** The present state, to which `restore` returns any number of times; it stays in memory until its `forget`. */
  snapshot() {
    return this.fork();
  }

  /** Returns to the state of a snapshot, or of a copy. */
  restore(snapshot) {
    this._call("restore", snapshot.#number);
  }

  /** Changes what `key` stands for, as in an experiment file, to `value`, canonical: times in ns, rates in bit/s. */
  set(key, value) {
    const text = new TextEncoder().encode(JSON.stringify({ key, value }));
    this.#calls("set", { text }, this.#number);
  }

  /** Goes on for `ms` of simulated time; returns whether the run is over. */
  step(ms) {
    return this._call("step", ms).code === 1;
  }

  /** What there is to see now: time, queue, and `endpoints` with payload, cwnd and so on. */
  view() {
    return JSON.parse(this._call("view").text);
  }

  /** Goes on to the end: `{summary, digest, tables}` as of `Dumbbell.run`. */
  finish() {
    return JSON.parse(this._call("finish").text);
  }

  /** Takes the run out of memory. */
  forget() {
    this._call("forget");
  }
}

/** A run whose events a page takes, to draw its packets. Its measurements are those of any other run. A copy and a snapshot have the events that were not taken yet. */
class WatchedRun extends Run {
  /** The events since the last call: rows of numbers, one after the other, with the columns of `eventNames`. */
  events() {
    return new Float64Array(this._call("events").bytes.buffer);
  }

  /** Names of `columns`, `kinds` and codes, in the order of their numbers; `states` grows as the run goes on. */
  eventNames() {
    return JSON.parse(this._call("event_names").text);
  }
}
