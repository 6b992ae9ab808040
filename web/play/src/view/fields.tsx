// Fields of the controls: made from the registry's description of a parameter.

import { useEffect, useId, useState } from "preact/hooks";
import { findUnitKind, formatLimits, formatQuantity, formatValue, parseQuantity } from "../quantities";
import type { Algorithm, Param } from "../registry";
import type { Spec, Table } from "../experiment";
import { setKey } from "../experiment";
import { Term } from "./tip";

function explain(param: Param): string {
  const limits = formatLimits(param);
  const parts = [param.doc, limits && `Allowed: ${limits}.`, `Default: ${formatValue(param, param.default)}.`, param.source && `Source: ${param.source}.`];
  return parts.filter(Boolean).join(" ");
}

interface FieldProps {
  param: Param;
  value: unknown;
  /** Receives undefined to go back to the default. */
  onChange: (value: unknown) => void;
  label?: string;
}

/** One parameter: its name, which explains it, and its value. */
export function ParamField({ param, value, onChange, label }: FieldProps) {
  const id = useId();
  const isSet = value !== undefined;
  const given = isSet ? value : param.default;
  return (
    <div class={isSet ? "field set" : "field"}>
      <label for={id}>
        <Term text={explain(param)}>{label ?? param.name}</Term>
      </label>
      <ValueInput id={id} param={param} value={given} onChange={onChange} />
      {isSet && (
        <button type="button" class="quiet" aria-label={`default of ${param.name}`} title="back to the default" onClick={() => onChange(undefined)}>
          ↺
        </button>
      )}
    </div>
  );
}

function ValueInput({ id, param, value, onChange }: { id: string; param: Param; value: unknown; onChange: (value: unknown) => void }) {
  if (param.kind === "bool") return <input id={id} type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  if (param.kind === "choice" && param.choices)
    return (
      <select id={id} value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || undefined)}>
        {param.optional && <option value="">unset</option>}
        {param.choices.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    );
  const unit = findUnitKind(param);
  const text = value === null || value === undefined ? "" : unit ? formatQuantity(unit, Number(value)) : typeof value === "object" ? JSON.stringify(value) : String(value);
  const parse = (written: string): unknown => {
    if (!written.trim()) return undefined;
    if (unit) return parseQuantity(unit, written, param.name);
    if (typeof value === "object" && value !== null) return JSON.parse(written);
    const number = Number(written);
    if (Number.isNaN(number)) throw new Error("a number");
    if (param.kind === "int" && !Number.isInteger(number)) throw new Error("an integer");
    return number;
  };
  return <TextInput id={id} text={text} placeholder="unset" unit={unit ? "" : param.unit} check={(written) => withinLimits(param, parse(written))} onChange={(written) => onChange(parse(written))} />;
}

function withinLimits(param: Param, value: unknown): string | null {
  if (typeof value !== "number") return null;
  const isOutside = (param.min !== null && value < param.min) || (param.max !== null && value > param.max);
  return isOutside ? `allowed: ${formatLimits(param)}` : null;
}

interface TextProps {
  id: string;
  text: string;
  unit?: string;
  placeholder?: string;
  /** Returns what is wrong with a text, or throws. */
  check: (written: string) => string | null;
  onChange: (written: string) => void;
}

/** Text that takes effect when it is finished and right; otherwise it says what is allowed. */
export function TextInput({ id, text, unit = "", placeholder = "", check, onChange }: TextProps) {
  const [written, setWritten] = useState(text);
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    setWritten(text);
    setFault(null);
  }, [text]);
  const finish = (value: string) => {
    if (value === text) return;
    let found: string | null;
    try {
      found = check(value);
    } catch (error) {
      const { allowed, message } = error as { allowed?: string; message: string };
      found = `allowed: ${allowed ?? message}`;
    }
    setFault(found);
    if (found === null) onChange(value);
  };
  return (
    <span class="text">
      <input
        id={id}
        type="text"
        size={9}
        value={written}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={fault !== null}
        aria-describedby={fault ? `${id}-fault` : undefined}
        onInput={(event) => setWritten(event.currentTarget.value)}
        onChange={(event) => finish(event.currentTarget.value)}
      />
      {unit && <span class="unit">{unit}</span>}
      {fault && (
        <span id={`${id}-fault`} class="fault" role="alert">
          {fault}
        </span>
      )}
    </span>
  );
}

/** A quantity on a logarithmic slider, with its text. */
export function QuantitySlider(props: { label: string; term: string; kind: "rate" | "time"; value: number; least: number; most: number; onChange: (value: number) => void }) {
  const { label, term, kind, value, least, most, onChange } = props;
  const id = useId();
  const position = (Math.log(Math.max(value, least) / least) / Math.log(most / least)) * 1000;
  const fromPosition = (at: number) => {
    const exact = least * (most / least) ** (at / 1000);
    const step = 10 ** (Math.floor(Math.log10(exact)) - 1);
    return Math.round(exact / step) * step;
  };
  return (
    <div class="field slider">
      <label for={id}>
        <Term text={term}>{label}</Term>
      </label>
      <input
        type="range"
        min={0}
        max={1000}
        step={1}
        value={position}
        aria-label={label}
        aria-valuetext={formatQuantity(kind, value)}
        onInput={(event) => onChange(fromPosition(Number(event.currentTarget.value)))}
      />
      <TextInput
        id={id}
        text={formatQuantity(kind, value)}
        check={(written) => (parseQuantity(kind, written) < (kind === "rate" ? 1000 : 0) ? "allowed: from 1kbit" : null)}
        onChange={(written) => onChange(parseQuantity(kind, written))}
      />
    </div>
  );
}

/** An algorithm of the registry with all of its parameters. */
export function SpecFields(props: { label: string; term?: string; known: Algorithm[]; spec: Spec; onChange: (spec: Spec) => void; shown?: string[] }) {
  const { label, term, known, spec, onChange, shown = [] } = props;
  const id = useId();
  const algorithm = known.find((one) => one.name === spec.name);
  const params = algorithm?.params ?? [];
  const field = (param: Param) => (
    <ParamField key={param.name} param={param} value={spec[param.name]} onChange={(value) => onChange(setKey(spec, [param.name], value) as Spec)} />
  );
  const first = params.filter((one) => shown.includes(one.name));
  const rest = params.filter((one) => !shown.includes(one.name));
  const changed = rest.filter((one) => spec[one.name] !== undefined).length;
  return (
    <div class="spec">
      <div class="field">
        <label for={id}>{term ? <Term word={term}>{label}</Term> : label}</label>
        <select id={id} value={spec.name} onChange={(event) => onChange({ name: event.currentTarget.value })}>
          {known.map((one) => (
            <option key={one.name} value={one.name} title={one.title}>
              {one.name}
            </option>
          ))}
        </select>
      </div>
      {algorithm && <p class="about">{algorithm.title}</p>}
      {first.map(field)}
      {rest.length > 0 && (
        <details>
          <summary>
            {rest.length === 1 ? "one parameter" : `${rest.length} ${first.length ? "more " : ""}parameters`}
            {changed > 0 && <span class="badge">{changed} set</span>}
          </summary>
          {rest.map(field)}
        </details>
      )}
    </div>
  );
}

/** Parameters of a section of the registry, without those that the page shows elsewhere. */
export function SectionFields(props: { summary: string; params: Param[]; table: Table; without?: string[]; onChange: (table: Table) => void }) {
  const { summary, params, table, without = [], onChange } = props;
  const shown = params.filter((one) => !without.includes(one.name) && one.kind !== "trace");
  const changed = shown.filter((one) => table[one.name] !== undefined).length;
  return (
    <details>
      <summary>
        {summary}
        {changed > 0 && <span class="badge">{changed} set</span>}
      </summary>
      {shown.map((param) => (
        <ParamField key={param.name} param={param} value={table[param.name]} onChange={(value) => onChange(setKey(table, [param.name], value))} />
      ))}
    </details>
  );
}
