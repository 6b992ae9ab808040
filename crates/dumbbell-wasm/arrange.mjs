// Puts similar functions of a WebAssembly module next to each other, so that a compressor that looks back 32 kB, as gzip does, finds what they share.
//
//     node arrange.mjs MODULE
//
// Rust compiles generic code for each type that uses it. The copies are alike, and the linker puts them far apart.

import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";

/** Bytes in a row that two functions share. */
const RUN = 4;
/** Runs that more functions than this have say little. */
const COMMON = 200;
/** Functions that share less than this part of their runs do not follow each other. */
const LEAST_SHARE = 0.15;

/** Kinds of sections. */
const [CUSTOM, IMPORT, FUNCTION, EXPORT, START, ELEMENT, CODE] = [0, 2, 3, 7, 8, 9, 10];
const [CONST, END] = [0x41, 0x0b];

/** Reads a module from a place on. */
class Reader {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  byte() {
    return this.bytes[this.at++];
  }

  /** An unsigned number, LEB128. */
  number() {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  take(length) {
    return this.bytes.subarray(this.at, (this.at += length));
  }

  /** Calls `read` as often as the number in front says. */
  list(read) {
    return Array.from({ length: this.number() }, read);
  }
}

/** A number as LEB128. */
function encode(value) {
  const bytes = [];
  do {
    bytes.push((value & 127) | (value > 127 ? 128 : 0));
    value = Math.floor(value / 128);
  } while (value);
  return bytes;
}

/** Instructions with one number behind them: blocks, branches, variables, sizes of memory, integers, types of references. */
const ONE_NUMBER = [[0x02, 0x04], [0x0c, 0x0d], [0x20, 0x26], [0x3f, 0x42], [0xd0, 0xd0]];
/** With two: indirect calls, and memory with its alignment. */
const TWO_NUMBERS = [[0x11, 0x11], [0x13, 0x13], [0x28, 0x3e]];
/** With nothing behind them. */
const ALONE = [[0x00, 0x01], [0x05, 0x05], [0x0b, 0x0b], [0x0f, 0x0f], [0x1a, 0x1b], [0x45, 0xc4], [0xd1, 0xd1]];
/** Behind the prefix: conversions, and numbers behind copies and fills of memories and tables. */
const PREFIX = 0xfc;
const BEHIND_PREFIX = [0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1];
/** Calls, and references to functions. */
const NAMES_FUNCTION = [0x10, 0x12, 0xd2];

const isAmong = (opcode, ranges) => ranges.some(([first, last]) => first <= opcode && opcode <= last);

/** Reads what is behind an instruction that names no function. */
function skipImmediates(reader, opcode) {
  let numbers = isAmong(opcode, ONE_NUMBER) ? 1 : isAmong(opcode, TWO_NUMBERS) ? 2 : isAmong(opcode, ALONE) ? 0 : undefined;
  if (opcode === PREFIX) numbers = BEHIND_PREFIX[reader.number()];
  // a table of branches, and a choice with its types
  else if (opcode === 0x0e) numbers = reader.number() + 1;
  else if (opcode === 0x1c) numbers = reader.number();
  // a float
  else if (opcode === 0x43 || opcode === 0x44) {
    reader.take(opcode === 0x43 ? 4 : 8);
    return;
  }
  if (numbers === undefined) throw new Error(`an instruction that is not known: 0x${opcode.toString(16)}`);
  for (let one = 0; one < numbers; one++) reader.number();
}

/** The places in the code of a function at which another function is named: `[from, to, index]`. */
function findReferences(code) {
  const reader = new Reader(code);
  const found = [];
  // locals: how many, and their type
  reader.list(() => [reader.number(), reader.number()]);
  while (reader.at < code.length) {
    const opcode = reader.byte();
    if (NAMES_FUNCTION.includes(opcode)) {
      const from = reader.at;
      const index = reader.number();
      found.push([from, reader.at, index]);
    } else skipImmediates(reader, opcode);
  }
  return found;
}

/** The code with other names for the functions that it names. */
function rename(code, references, names) {
  const parts = [];
  let at = 0;
  for (const [from, to, index] of references) {
    parts.push(code.subarray(at, from), Uint8Array.from(encode(names[index])));
    at = to;
  }
  return Buffer.concat([...parts, code.subarray(at)]);
}

/** The order of the functions: after each the one that shares most with it, if it shares enough. */
function chooseOrder(codes) {
  const having = new Map();
  const runs = codes.map((code, index) => {
    const own = new Set();
    for (let at = 0; at + RUN <= code.length; at++) own.add(code[at] | (code[at + 1] << 8) | (code[at + 2] << 16) | (code[at + 3] << 24));
    for (const run of own) {
      const functions = having.get(run);
      if (functions) functions.push(index);
      else having.set(run, [index]);
    }
    return own;
  });
  const isPlaced = new Uint8Array(codes.length);
  const order = [];
  const shared = new Uint32Array(codes.length);
  const findNext = (current) => {
    const seen = [];
    for (const run of runs[current]) {
      const functions = having.get(run);
      if (functions.length > COMMON) continue;
      for (const other of functions) {
        if (isPlaced[other]) continue;
        if (!shared[other]++) seen.push(other);
      }
    }
    let [best, most] = [-1, LEAST_SHARE];
    for (const other of seen) {
      const share = shared[other] / (runs[current].size + runs[other].size - shared[other]);
      if (share > most) [best, most] = [other, share];
      shared[other] = 0;
    }
    return best;
  };
  for (let first = 0; first < codes.length; first++) {
    for (let current = first; current >= 0 && !isPlaced[current]; current = findNext(current)) {
      isPlaced[current] = 1;
      order.push(current);
    }
  }
  return order;
}

/** The sections of a module: `[kind, content]`. */
function splitSections(module) {
  const reader = new Reader(module, 8);
  const sections = [];
  while (reader.at < module.length) {
    const kind = reader.byte();
    sections.push([kind, reader.take(reader.number())]);
  }
  return sections;
}

/** The module with its functions in another order, and without sections for debuggers. */
function arrange(module) {
  const sections = splitSections(module).filter(([kind]) => kind !== CUSTOM);
  // imported functions would have the first numbers
  if (sections.some(([kind]) => kind === IMPORT)) throw new Error("the module imports something");
  const readList = (wanted, readOne) => {
    const reader = new Reader(sections.find(([kind]) => kind === wanted)[1]);
    return reader.list(() => readOne(reader));
  };
  const types = readList(FUNCTION, (reader) => reader.number());
  const codes = readList(CODE, (reader) => reader.take(reader.number()));
  const order = chooseOrder(codes);
  const names = new Uint32Array(order.length);
  order.forEach((old, place) => (names[old] = place));
  const write = {
    [FUNCTION]: () => [encode(types.length), ...order.map((old) => encode(types[old]))],
    [EXPORT]: (reader) => {
      const all = reader.list(() => {
        const from = reader.at;
        reader.take(reader.number());
        const kind = reader.byte();
        const head = reader.bytes.subarray(from, reader.at);
        const index = reader.number();
        return [head, encode(kind === 0 ? names[index] : index)];
      });
      return [encode(all.length), ...all.flat()];
    },
    [START]: (reader) => [encode(names[reader.number()])],
    [ELEMENT]: (reader) => {
      const all = reader.list(() => {
        // functions of the only table from a constant place on, as linkers write them
        const from = reader.at;
        const isPlain = reader.number() === 0 && reader.byte() === CONST && reader.number() >= 0 && reader.byte() === END;
        if (!isPlain) throw new Error("a table of functions that is not known");
        const head = reader.bytes.subarray(from, reader.at);
        const functions = reader.list(() => encode(names[reader.number()]));
        return [head, encode(functions.length), ...functions];
      });
      return [encode(all.length), ...all.flat()];
    },
    [CODE]: () => [
      encode(order.length),
      ...order.flatMap((old) => {
        const code = rename(codes[old], findReferences(codes[old]), names);
        return [encode(code.length), code];
      }),
    ],
  };
  const parts = [module.subarray(0, 8)];
  for (const [kind, content] of sections) {
    const written = kind in write ? Buffer.concat(write[kind](new Reader(content)).map((one) => Uint8Array.from(one))) : content;
    parts.push(Uint8Array.from([kind, ...encode(written.length)]), written);
  }
  const arranged = Buffer.concat(parts);
  if (!WebAssembly.validate(arranged)) throw new Error("the arranged module is damaged");
  return arranged;
}

const [, , path] = argv;
writeFileSync(path, arrange(readFileSync(path)));
