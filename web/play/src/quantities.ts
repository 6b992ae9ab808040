// Quantities with units as experiment files write them, and as the engine takes them: ns, bit/s and bytes.

import type { Param } from "./registry";

export type QuantityKind = "time" | "rate" | "size";

const UNITS: Record<QuantityKind, Record<string, number>> = {
  time: { ns: 1, us: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 },
  rate: { bit: 1, kbit: 1e3, Mbit: 1e6, Gbit: 1e9, Tbit: 1e12 },
  size: { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 },
};
const EXAMPLES: Record<QuantityKind, string> = {
  time: 'a time such as "20ms", "1.5s" or "100us"',
  rate: 'a rate such as "10Mbit", "500kbit" or "1Gbit"',
  size: 'a size such as "4MB", "64KiB" or "1514B"',
};

/** A value of an experiment that cannot be used, with its key, as the engine and dumbbell report it. */
export class ValueError extends Error {
  constructor(
    readonly key: string,
    readonly found: string,
    readonly allowed: string,
  ) {
    super(`${key}: found ${found}, allowed: ${allowed}`);
    this.name = "ValueError";
  }
}

/** The kind of unit that values of a parameter need, if they need one. */
export function findUnitKind(param: Pick<Param, "kind" | "unit">): QuantityKind | null {
  if (param.kind === "time" || param.kind === "rate") return param.kind;
  return param.kind === "int" && param.unit === "bytes" ? "size" : null;
}

/** Returns a quantity in ns, bit/s or bytes. The number 0 needs no unit. */
export function parseQuantity(kind: QuantityKind, value: unknown, key = kind as string): number {
  if (value === 0 || value === 0n) return 0;
  const match = typeof value === "string" ? /^\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-zµ]{1,10})(\/s)?\s*$/.exec(value) : null;
  const word = match?.[2] === "µs" ? "us" : match?.[2];
  const units = UNITS[kind];
  const name = Object.keys(units).find((unit) => unit === word || (kind === "rate" && unit.toLowerCase() === word?.toLowerCase()));
  if (!match || name === undefined || (match[3] && kind !== "rate")) throw new ValueError(key, JSON.stringify(value), EXAMPLES[kind]);
  const exact = scaleDecimal(match[1]!, units[name]!);
  if (exact === null) throw new ValueError(key, JSON.stringify(value), `a multiple of 1${Object.keys(units)[0]}`);
  return exact;
}

/** Returns a decimal number times a whole one if the product is whole, else null. Floats would round 0.1 times 1e6. */
function scaleDecimal(text: string, factor: number): number | null {
  const [whole = "0", fraction = ""] = text.split(".");
  const product = BigInt(whole + fraction) * BigInt(factor);
  const divisor = 10n ** BigInt(fraction.length);
  return product % divisor === 0n ? Number(product / divisor) : null;
}

/** Returns a quantity in the largest unit in which it has few digits: 20000000 ns are "20ms". */
export function formatQuantity(kind: QuantityKind, value: number): string {
  if (kind === "time" && value === 0) return "0s";
  const units = Object.entries(UNITS[kind]).filter(([unit]) => unit !== "min" && unit !== "h");
  for (const [unit, size] of units.sort((a, b) => b[1] - a[1])) {
    const digits = unit.endsWith("iB") ? 0 : kind === "size" ? 1 : 3;
    if (value >= size && Number.isInteger((value * 10 ** digits) / size)) return `${value / size}${unit}`;
  }
  return `${value}${Object.keys(UNITS[kind])[0]}`;
}

/** Returns a value of a parameter as the page shows it, with its unit. */
export function formatValue(param: Pick<Param, "kind" | "unit">, value: unknown): string {
  if (value === null || value === undefined) return "unset";
  const kind = findUnitKind(param);
  if (kind && typeof value === "number") return formatQuantity(kind, value).replace(/(?<=\d)(?=[A-Za-z])/, " ");
  return param.unit && typeof value === "number" ? `${value} ${param.unit}` : String(value);
}

/** Returns the bounds of a parameter in words, empty if it has none. */
export function formatLimits(param: Param): string {
  const bound = (value: number | null) => (value === null ? null : formatValue(param, value));
  const [low, high] = [bound(param.min), bound(param.max)];
  return [low && `from ${low}`, high && `to ${high}`].filter(Boolean).join(" ");
}
