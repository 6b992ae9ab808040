// What the engine's registry says: every algorithm and key of an experiment, with unit, range, default and description.

export interface Param {
  name: string;
  kind: string;
  optional: boolean;
  unit: string;
  default: unknown;
  min: number | null;
  max: number | null;
  choices: string[] | null;
  doc: string;
  source: string;
}

export interface Algorithm {
  name: string;
  title: string;
  source: string;
  params: Param[];
}

export interface Registry {
  aqm: Algorithm[];
  cc: Algorithm[];
  stage: Algorithm[];
  link: Algorithm[];
  app: Algorithm[];
  sections: Record<string, Param[]>;
  states: { name: string; unit: string; doc: string }[];
}

export type AlgorithmKind = "aqm" | "cc" | "stage" | "link" | "app";

export function findAlgorithm(registry: Registry, kind: AlgorithmKind, name: string): Algorithm | undefined {
  return registry[kind].find((one) => one.name === name);
}
