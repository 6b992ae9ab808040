// The controls: everything of an experiment that can be changed.

import { useState } from "preact/hooks";
import type { Experiment, Flow, Hop, SenderTable, Spec, Table } from "../experiment";
import { computeBdp, findQueue, findSetting, listFlows, makeSender, MS, SECOND, setKey } from "../experiment";
import { formatQuantity, parseQuantity } from "../quantities";
import type { Param, Registry } from "../registry";
import { PRESETS } from "../presets";
import type { Session } from "../session";
import { describeSetting, findSettingParam } from "../settings";
import { ParamField, QuantitySlider, SectionFields, SpecFields, TextInput } from "./fields";
import { colourOf, formatNumber } from "./format";
import { Term } from "./tip";

interface Props {
  session: Session;
  experiment: Experiment;
  registry: Registry;
  edit: (experiment: Experiment) => void;
}

const FIRST_PARAMS = ["limit", "target", "ecn", "bandwidth", "interval"];
const RATE = { least: 1e6, most: 200e6 };
const RTT = { least: 1e6, most: 300e6 };

export function Controls({ session, experiment, registry, edit }: Props) {
  const set = (...way: (string | number)[]) => (value: unknown) => edit(addReverse(setKey(experiment, way, value)));
  return (
    <form class="controls" aria-label="set-up" onSubmit={(event) => event.preventDefault()}>
      <PresetChoice experiment={experiment} edit={edit} />
      <ChangeNow session={session} experiment={experiment} registry={registry} edit={edit} />
      <section>
        <h2>
          Bottleneck
        </h2>
        <HopFields hop={experiment.bottleneck} registry={registry} onChange={set("bottleneck")} />
        <p class="about">
          <Term word="BDP">BDP</Term> of the longest RTT: {formatNumber(computeBdp(experiment))} packets
        </p>
        <ReverseFields experiment={experiment} registry={registry} edit={edit} />
      </section>
      <section class="flows">
        <h2>Flows</h2>
        {experiment.flows.map((flow, index) => (
          <FlowFields key={index} index={index} flow={flow} experiment={experiment} registry={registry} onChange={set("flows", index)} />
        ))}
        <div class="adds">
          <button type="button" disabled={experiment.flows.length >= 12} onClick={() => set("flows", experiment.flows.length)(makeSender("flows"))}>
            + flow
          </button>
          <AddSender experiment={experiment} table="udp" words="+ ping" edit={edit} />
          <AddSender experiment={experiment} table="app" words="+ application" edit={edit} />
          <AddSender experiment={experiment} table="web" words="+ short flows" edit={edit} />
        </div>
        {(["udp", "app", "web"] as const).flatMap((table) =>
          (experiment[table] ?? []).map((entry, index) => (
            <OtherFields key={`${table}${index}`} table={table} entry={entry} index={index} experiment={experiment} registry={registry} onChange={set(table, index)} />
          )),
        )}
      </section>
      <section>
        <h2>Run</h2>
        <Quantity label="duration" term="How long is simulated." value={experiment.duration} onChange={(value) => edit({ ...experiment, duration: Math.max(100 * MS, Math.min(value, 3600 * SECOND)) })} />
        <NumberField label="seed" term="seed" value={experiment.seed} onChange={(seed) => edit({ ...experiment, seed })} />
        <SectionFields summary="Hosts" params={registry.sections["hosts"] ?? []} table={experiment.hosts ?? {}} onChange={set("hosts")} />
      </section>
    </form>
  );
}

/** A flow that goes up needs a bottleneck there. */
function addReverse(experiment: Experiment): Experiment {
  const needs = [...experiment.flows, ...(experiment.udp ?? []), ...(experiment.web ?? []), ...(experiment.app ?? [])].some((one) => one["direction"] === "up");
  return needs && !experiment.reverse ? { ...experiment, reverse: REVERSE } : experiment;
}

const REVERSE: Hop = { rate: 5e6, aqm: { name: "pfifo" } };

function PresetChoice({ experiment, edit }: { experiment: Experiment; edit: Props["edit"] }) {
  const index = PRESETS.findIndex((one) => one.title === experiment.title);
  return (
    <div class="field preset">
      <label for="preset">begin with</label>
      <select id="preset" value={String(index)} onChange={(event) => edit(PRESETS[Number(event.currentTarget.value)]!)}>
        {index < 0 && <option value="-1">{experiment.title || "your own"}</option>}
        {PRESETS.map((one, number) => (
          <option key={one.title} value={String(number)}>
            {one.title}
          </option>
        ))}
      </select>
    </div>
  );
}

function Quantity({ label, term, value, onChange }: { label: string; term: string; value: number; onChange: (value: number) => void }) {
  const id = `quantity-${label}`;
  return (
    <div class="field">
      <label for={id}>
        <Term text={term}>{label}</Term>
      </label>
      <TextInput id={id} text={formatQuantity("time", value)} check={(text) => (parseQuantity("time", text), null)} onChange={(text) => onChange(parseQuantity("time", text))} />
    </div>
  );
}

function NumberField({ label, term, value, onChange }: { label: string; term: string; value: number; onChange: (value: number) => void }) {
  const id = `number-${label}`;
  return (
    <div class="field">
      <label for={id}>
        <Term word={term}>{label}</Term>
      </label>
      <input
        id={id}
        type="number"
        min={0}
        step={1}
        value={value}
        onChange={(event) => {
          const number = Number(event.currentTarget.value);
          if (Number.isInteger(number) && number >= 0) onChange(number);
        }}
      />
    </div>
  );
}

function HopFields({ hop, registry, onChange }: { hop: Hop; registry: Registry; onChange: (hop: Hop) => void }) {
  const link = hop["link"] as Spec | undefined;
  return (
    <>
      <QuantitySlider
        label="rate"
        term="Rate of the link. It counts Ethernet frames without FCS."
        kind="rate"
        value={hop.rate}
        {...RATE}
        onChange={(rate) => onChange({ ...hop, rate })}
      />
      <SpecFields label="queue" term="AQM" known={registry.aqm} spec={hop.aqm} shown={FIRST_PARAMS} onChange={(aqm) => onChange({ ...hop, aqm })} />
      <details>
        <summary>
          Link{link && link.name !== "serial" && <span class="badge">{link.name}</span>}
        </summary>
        <SpecFields
          label="link"
          known={registry.link.filter((one) => ["serial", "onoff", "leo", "wifi", "docsis", "cellular"].includes(one.name))}
          spec={link ?? { name: "serial" }}
          onChange={(next) => onChange(setKey(hop, ["link"], next.name === "serial" ? undefined : next))}
        />
      </details>
    </>
  );
}

function ReverseFields({ experiment, registry, edit }: Omit<Props, "session">) {
  const { reverse } = experiment;
  const toggle = (isOn: boolean) => {
    if (isOn) edit({ ...experiment, reverse: REVERSE });
    // no flow goes up any more
    else edit(setKey({ ...experiment, flows: experiment.flows.map((flow) => setKey(flow, ["direction"], undefined)) }, ["reverse"], undefined));
  };
  return (
    <fieldset>
      <legend>
        <label>
          <input type="checkbox" checked={reverse !== undefined} onChange={(event) => toggle(event.currentTarget.checked)} /> a bottleneck on the way back
        </label>
      </legend>
      {reverse && <HopFields hop={reverse} registry={registry} onChange={(hop) => edit({ ...experiment, reverse: hop })} />}
    </fieldset>
  );
}

function AddSender({ experiment, table, words, edit }: { experiment: Experiment; table: Exclude<SenderTable, "flows">; words: string; edit: Props["edit"] }) {
  const entries = experiment[table] ?? [];
  return (
    <button type="button" disabled={entries.length >= 4} onClick={() => edit(setKey(experiment, [table, entries.length], makeSender(table)))}>
      {words}
    </button>
  );
}

interface SenderProps<T> {
  experiment: Experiment;
  registry: Registry;
  index: number;
  onChange: (entry: T | undefined) => void;
}

function findStage(flow: Flow, name: string): Spec | undefined {
  return flow.path?.find((one) => one.name === name && one["from"] === undefined);
}

/** Replaces the stage of this name that lasts for the whole run, or takes it out. */
function setStage(flow: Flow, stage: Spec | null, name: string): Flow {
  const rest = (flow.path ?? []).filter((one) => one !== findStage(flow, name));
  const path = stage ? [...rest, stage] : rest;
  return setKey(flow, ["path"], path.length ? path : undefined);
}

function FlowFields({ flow, index, experiment, registry, onChange }: SenderProps<Flow> & { flow: Flow }) {
  const number = listFlows(experiment).findIndex((one) => one.table === "flows" && one.index === index);
  const params = registry.sections["flows"] ?? [];
  const start = flow.start?.min ?? 0;
  return (
    <fieldset class="sender" style={{ "--flow": colourOf(number) }}>
      <legend>
        <span class="dot" /> flow {number + 1}
        {(flow.count ?? 1) > 1 && `–${number + (flow.count ?? 1)}`}
        <button type="button" class="quiet remove" aria-label={`remove flow ${number + 1}`} disabled={experiment.flows.length + (experiment.udp?.length ?? 0) <= 1} onClick={() => onChange(undefined)}>
          ✕
        </button>
      </legend>
      <SpecFields label="control" known={registry.cc} spec={flow.cc} onChange={(cc) => onChange({ ...flow, cc })} />
      <QuantitySlider label="RTT" term="Propagation of both directions together, without queueing." kind="time" value={flow.base_rtt ?? 20 * MS} {...RTT} onChange={(rtt) => onChange({ ...flow, base_rtt: rtt })} />
      <details>
        <summary>
          Start, direction, loss{" "}
          {start > 0 && <span class="badge">from {formatQuantity("time", start)}</span>}
          {flow.direction === "up" && <span class="badge">up</span>}
          {findStage(flow, "loss") && <span class="badge">loss</span>}
        </summary>
        <div class="field">
          <label for={`start-${index}`}>start</label>
          <TextInput
            id={`start-${index}`}
            text={formatQuantity("time", start)}
            check={(text) => (parseQuantity("time", text), null)}
            onChange={(text) => {
              const time = parseQuantity("time", text);
              onChange(setKey(flow, ["start"], time > 0 ? { min: time, max: time } : undefined));
            }}
          />
        </div>
        <ChoiceField id={`direction-${index}`} label="direction" choices={["down", "up"]} value={flow.direction ?? "down"} onChange={(value) => onChange(setKey(flow, ["direction"], value === "down" ? undefined : value))} />
        <CountField id={`count-${index}`} value={flow.count ?? 1} onChange={(count) => onChange(setKey(flow, ["count"], count === 1 ? undefined : count))} />
        <StageFields flow={flow} name="loss" registry={registry} onChange={onChange} />
        <StageFields flow={flow} name="jitter" registry={registry} onChange={onChange} />
      </details>
      <SectionFields summary="Transport" params={params} table={flow} without={["base_rtt", "loss", "jitter"]} onChange={(table) => onChange(table as Flow)} />
    </fieldset>
  );
}

function CountField({ id, value, onChange }: { id: string; value: number; onChange: (count: number) => void }) {
  return (
    <div class="field">
      <label for={id}>flows like this</label>
      <input id={id} type="number" min={1} max={20} step={1} value={value} onChange={(event) => onChange(Math.max(1, Math.min(20, Math.round(Number(event.currentTarget.value) || 1))))} />
    </div>
  );
}

function ChoiceField({ id, label, choices, value, onChange }: { id: string; label: string; choices: string[]; value: string; onChange: (value: string) => void }) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </div>
  );
}

/** A stage of the path on a switch, with its parameters. */
function StageFields({ flow, name, registry, onChange }: { flow: Flow; name: string; registry: Registry; onChange: (flow: Flow) => void }) {
  const stage = findStage(flow, name);
  const known = registry.stage.find((one) => one.name === name);
  return (
    <>
      <label class="field check">
        <input type="checkbox" checked={stage !== undefined} onChange={(event) => onChange(setStage(flow, event.currentTarget.checked ? { name } : null, name))} /> {known?.title ?? name}
      </label>
      {stage &&
        known?.params
          .filter((param) => param.name !== "from" && param.name !== "to")
          .map((param) => <ParamField key={param.name} param={param} value={stage[param.name]} onChange={(value) => onChange(setStage(flow, setKey(stage, [param.name], value) as Spec, name))} />)}
    </>
  );
}

const UDP_FIRST = ["rate", "size", "echo"];

function OtherFields({ table, entry, index, experiment, registry, onChange }: SenderProps<Table> & { table: Exclude<SenderTable, "flows">; entry: Table }) {
  const number = listFlows(experiment).findIndex((one) => one.table === table && one.index === index);
  const params = registry.sections[table] ?? [];
  const title = { udp: entry["echo"] === true ? "ping" : "UDP", app: "application", web: "short flows" }[table];
  const change = (key: string, value: unknown) => {
    const next = setKey(entry, [key], value);
    // what is not echoed has no round trip
    onChange(key === "echo" ? setKey(next, ["base_rtt"], value === true ? 40 * MS : undefined) : next);
  };
  const field = (param: Param) => <ParamField key={param.name} param={param} value={entry[param.name]} onChange={(value) => change(param.name, value)} />;
  const first = table === "udp" ? params.filter((one) => UDP_FIRST.includes(one.name)) : table === "web" ? params.filter((one) => one.name === "arrivals" || one.name === "size") : [];
  return (
    <fieldset class="sender" style={{ "--flow": number >= 0 ? colourOf(number) : "var(--soft)" }}>
      <legend>
        <span class="dot" /> {title} {number >= 0 ? number + 1 : ""}
        <button type="button" class="quiet remove" aria-label={`remove ${title} ${index + 1}`} onClick={() => onChange(undefined)}>
          ✕
        </button>
      </legend>
      {table === "app" && (
        <SpecFields
          label="kind"
          known={registry.app.filter((one) => one.name !== "autorate")}
          spec={entry["kind"] as Spec}
          onChange={(kind) => onChange({ ...entry, kind, ...(needsControl(kind) ? { cc: entry["cc"] ?? { name: "cubic" } } : { cc: undefined }) })}
        />
      )}
      {entry["cc"] !== undefined && <SpecFields label="control" known={registry.cc} spec={entry["cc"] as Spec} onChange={(cc) => onChange({ ...entry, cc })} />}
      {first.map(field)}
      {(table !== "udp" || entry["echo"] === true) && (
        <QuantitySlider label="RTT" term="Propagation of both directions together, without queueing." kind="time" value={Number(entry["base_rtt"] ?? 20 * MS)} {...RTT} onChange={(rtt) => onChange({ ...entry, base_rtt: rtt })} />
      )}
      <SectionFields summary="More" params={params} table={entry} without={["base_rtt", ...(entry["on"] === undefined ? ["times"] : []), ...first.map((one) => one.name)]} onChange={(next) => onChange(next)} />
    </fieldset>
  );
}

/** Applications whose connections are TCP. */
function needsControl(kind: Spec): boolean {
  return ["pages", "request", "onoff", "backup", "dash", "responsiveness"].includes(kind.name);
}

const JOINING: Flow = { cc: { name: "cubic" }, base_rtt: 40 * MS };

/** A parameter of a queue that changes at this moment: a name, and its new value. */
function SetQueue({ session, experiment, registry }: Omit<Props, "edit">) {
  const [chosen, setChosen] = useState("");
  const at = session.now * MS;
  const queues = HOPS.flatMap((hop) => [[hop, findQueue(experiment, hop, at)] as const]);
  const list = (hop: Way, queue: Spec | undefined) =>
    session.side.changeable.filter((one) => one.startsWith(`${queue?.name}.`)).map((one) => `${hop}.aqm.${one.slice(one.indexOf(".") + 1)}`);
  const keys = queues.flatMap(([hop, queue]) => list(hop, queue));
  const key = keys.includes(chosen) ? chosen : (keys.find((one) => one.endsWith(".target")) ?? keys[0]);
  const param = key && findSettingParam({ key, at }, experiment, registry);
  if (!param) return <p class="about">No parameter of this queue can change while the run goes on.</p>;
  const queue = queues.find(([hop]) => key.startsWith(hop))?.[1];
  const last = findSetting(experiment, key, at) ?? queue?.[param.name];
  return (
    <div class="set-queue">
      <div class="field">
        <label for="set-key">
          <Term text="A parameter of the queue gets another value at this moment. The queue keeps its packets and all that it has measured.">set</Term>
        </label>
        <select id="set-key" value={key} onChange={(event) => setChosen(event.currentTarget.value)}>
          {keys.map((one) => (
            <option key={one} value={one}>
              {one.replace(/^bottleneck\.aqm\./, "").replace(/^reverse\.aqm\./, "way back: ")}
            </option>
          ))}
        </select>
      </div>
      <ParamField key={key} param={param} value={last} label="to" onChange={(value) => session.change({ kind: "set", key, value: value === undefined ? param.default : value })} />
    </div>
  );
}

const HOPS = ["bottleneck", "reverse"] as const;
type Way = (typeof HOPS)[number];

interface ReplaceProps {
  id: string;
  words: string;
  term: string;
  present: string;
  names: string[];
  onChange: (name: string) => void;
}

/** Another algorithm takes the place of the present one at this moment. */
function ReplaceField({ id, words, term, present, names, onChange }: ReplaceProps) {
  return (
    <div class="field">
      <label for={id}>
        <Term text={term}>{words}</Term>
      </label>
      <select id={id} value="" onChange={(event) => event.currentTarget.value && onChange(event.currentTarget.value)}>
        <option value="">{present}</option>
        {names
          .filter((one) => one !== present)
          .map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
      </select>
    </div>
  );
}

const REPLACED_QUEUE = "Another queue takes the place of this one at this moment, as tc qdisc replace does it: its packets are dropped.";
const REPLACED_CONTROL =
  "Another control takes over the connection at this moment, as the socket option TCP_CONGESTION does it: window and threshold stay. A control that needs ECN is refused if the connection has none.";

function ReplaceAlgorithms({ session, experiment, registry }: Omit<Props, "edit">) {
  const at = session.now * MS;
  const flows = listFlows(experiment);
  return (
    <>
      {HOPS.filter((hop) => experiment[hop]).map((hop) => (
        <ReplaceField
          key={hop}
          id={`replace-${hop}`}
          words={hop === "reverse" ? "queue on the way back" : "queue"}
          term={REPLACED_QUEUE}
          present={findQueue(experiment, hop, at)!.name}
          names={registry.aqm.map((one) => one.name)}
          onChange={(name) => session.change({ kind: "set", key: `${hop}.aqm`, value: { name } })}
        />
      ))}
      {experiment.flows.map((flow, index) => {
        const number = flows.findIndex((one) => one.table === "flows" && one.index === index);
        const present = (findSetting(experiment, `flows[${number}].cc`, at) as Spec | undefined) ?? flow.cc;
        return (
          <ReplaceField
            key={index}
            id={`replace-control-${index}`}
            words={`control of flow ${number + 1}`}
            term={REPLACED_CONTROL}
            present={present.name}
            names={registry.cc.map((one) => one.name).filter((one) => one !== "external")}
            onChange={(name) => session.change({ kind: "control", index, cc: { name } })}
          />
        );
      })}
    </>
  );
}

/** Changes from the present moment on, and those that the experiment has. */
function ChangeNow({ session, experiment, registry, edit }: Props) {
  const { rate_changes: changes = [] } = experiment.bottleneck;
  const rate = changes.at(-1)?.rate ?? experiment.bottleneck.rate;
  const flow = experiment.flows[0];
  return (
    <section class="now">
      <h2>From this moment on</h2>
      <div class="adds">
        <button type="button" onClick={() => session.change({ kind: "rate", rate: Math.round(rate / 2) })}>
          rate ÷ 2
        </button>
        <button type="button" onClick={() => session.change({ kind: "rate", rate: rate * 2 })}>
          rate × 2
        </button>
        {flow && (
          <>
            <button type="button" onClick={() => session.change({ kind: "delay", flow: 0, add: 40 * MS })}>
              flow 1: + 40 ms
            </button>
            <button type="button" onClick={() => session.change({ kind: "loss", flow: 0, probability: 0.01 })}>
              flow 1: 1 % loss
            </button>
          </>
        )}
        <button type="button" onClick={() => session.change({ kind: "join", flow: { ...JOINING, ...(flow ? { cc: flow.cc, base_rtt: flow.base_rtt ?? 20 * MS } : {}) } })}>
          a flow joins
        </button>
        {experiment.flows.length > 0 && (
          <button type="button" onClick={() => session.change({ kind: "stop", table: "flows", index: experiment.flows.length - 1 })}>
            the last flow stops
          </button>
        )}
      </div>
      <SetQueue session={session} experiment={experiment} registry={registry} />
      <ReplaceAlgorithms session={session} experiment={experiment} registry={registry} />
      <ChangeList experiment={experiment} registry={registry} edit={edit} />
    </section>
  );
}

interface ListedChange {
  at: number;
  words: string;
  without: Experiment;
}

/** The changes during a run that an experiment has, with the experiment without each. */
export function listChanges(experiment: Experiment, registry: Registry): ListedChange[] {
  const found: ListedChange[] = [];
  const changes = experiment.bottleneck.rate_changes ?? [];
  changes.forEach((one, index) => {
    const rest = changes.filter((_, other) => other !== index);
    const without = setKey(experiment, ["bottleneck", "rate_changes"], rest.length ? rest : undefined);
    found.push({ at: one.at, words: `rate ${formatQuantity("rate", one.rate)}`, without });
  });
  experiment.flows.forEach((flow, number) => {
    const name = `flow ${number + 1}`;
    flow.path?.forEach((stage, index) => {
      if (stage["from"] === undefined) return;
      const rest = flow.path!.filter((_, other) => other !== index);
      const what = stage.name === "delay" ? `+ ${formatQuantity("time", Number(stage["add"]))}` : `${stage.name}${stage["probability"] === undefined ? "" : ` ${Number(stage["probability"]) * 100} %`}`;
      found.push({ at: Number(stage["from"]), words: `${name}: ${what}`, without: setKey(experiment, ["flows", number, "path"], rest.length ? rest : undefined) });
    });
    if (flow.stop !== undefined) found.push({ at: flow.stop, words: `${name} stops`, without: setKey(experiment, ["flows", number, "stop"], undefined) });
  });
  experiment.settings?.forEach((one, index) => {
    const rest = experiment.settings!.filter((_, other) => other !== index);
    const { settings: _, ...without } = experiment;
    found.push({ at: one.at, words: describeSetting(one, experiment, registry), without: (rest.length ? { ...experiment, settings: rest } : without) as Experiment });
  });
  return found.sort((a, b) => a.at - b.at);
}

function ChangeList({ experiment, registry, edit }: { experiment: Experiment; registry: Registry; edit: Props["edit"] }) {
  const changes = listChanges(experiment, registry);
  if (!changes.length) return <p class="about">What you change here becomes part of the experiment file; everything before stays the same, to the bit.</p>;
  return (
    <ul class="changes">
      {changes.map((one) => (
        <li key={one.words + one.at}>
          <span>
            {formatQuantity("time", Math.round(one.at / 1000) * 1000)}: {one.words}
          </span>
          <button type="button" class="quiet" aria-label={`take back: ${one.words}`} onClick={() => edit(one.without)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}
