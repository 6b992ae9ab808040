// The runs behind a cell: what they measured, the command that repeats them, and what happened over time.
"use strict";
(() => {
  const { element } = dumbbell;
  const MOST_RUNS = 4; // that are drawn together
  const MOST_BUTTONS = 60;
  const INK = 3; // the place among the colours of what belongs to no flow
  const AT_ONCE = 2; // charts that do not wait until they are seen
  const chunks = new Map();
  const waiting = new Map(); // of chunks that lie in files of their own
  const TITLES = {
    goodput: "goodput, Mbit/s", throughput: "throughput of the queue, Mbit/s", capacity: "rate of the link, Mbit/s", cwnd: "cwnd, packets",
    ssthresh: "ssthresh, packets", srtt: "smoothed RTT, ms", pings: "round trips of pings and datagrams, ms", retransmissions: "retransmissions, packets", sojourn: "time in queue, ms",
    backlog: "backlog, packets", state: "state of the control", "distribution of sojourn": "share of packets that wait at least so long",
    "distribution of rtt": "share of RTT samples that are at least so long",
  };

  // series

  window.dumbbellChunk = (number, text) => waiting.get(number)?.(text);

  function textOf(number) {
    if (!report.model.chunks.beside) return Promise.resolve(document.getElementById(`chunk-${number}`).textContent);
    return new Promise((done, fail) => {
      waiting.set(number, done);
      const script = element("script", { src: `${report.model.chunks.beside}/runs-${number}.js` });
      script.onerror = () => fail(new Error(`${script.src} cannot be read: keep the folder of this page whole`));
      document.head.append(script);
    });
  }

  async function chunk(number) {
    if (!chunks.has(number)) {
      chunks.set(
        number,
        textOf(number)
          .then((text) => dumbbell.unpacked(text))
          .then((bytes) => {
            const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
            const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
            return { head, body: bytes.subarray(4 + length) };
          }),
      );
    }
    return chunks.get(number);
  }

  // whole numbers as differences, seven bits to a byte; see series.py
  function values(body, start, count, decimals) {
    const found = new Array(count);
    let at = start;
    let last = 0;
    for (let i = 0; i < count; i++) {
      let code = 0;
      let factor = 1;
      let octet;
      do {
        octet = body[at++];
        code += (octet & 127) * factor;
        factor *= 128;
      } while (octet & 128);
      if (code === 0) found[i] = null;
      else {
        code -= 1;
        last += code % 2 ? -(code + 1) / 2 : code / 2;
        found[i] = decimals > 0 ? last / 10 ** decimals : last * 10 ** -decimals;
      }
    }
    return found;
  }

  // the lines of a run: panel, label, times, values
  async function series(run) {
    const number = Math.floor(run / report.model.chunks.runs);
    const { head, body } = await chunk(number);
    const own = head.runs[run] ?? { times: [], lines: [] };
    const times = own.times.map(([start, count, decimals]) => values(body, start, count, decimals));
    const lines = own.lines.map(([panel, label, time, start, count, decimals, texts]) => ({
      panel, label, texts, x: times[time], y: values(body, start, count, decimals),
    }));
    return { lines, command: head.commands[run - head.first], config: head.configs[head.config[run - head.first]], plays: head.plays[run - head.first] };
  }

  // words for a run: what distinguishes it from the others

  function nameOf(run, runs) {
    const { model } = report;
    const words = model.keys.filter((key) => runs.some((other) => key.codes[other] !== key.codes[run])).map((key) => key.texts[key.codes[run]]);
    if (runs.some((other) => model.seed[other] !== model.seed[run]) || !words.length) words.push(`seed ${model.seed[run]}`);
    return words.join(", ");
  }

  // a view of runs in a place of the page

  class View {
    constructor(host, runs, told = (_) => {}) {
      this.host = host;
      this.told = told; // hears which runs are drawn
      this.runs = runs;
      this.charts = [];
      this.time = null;
      this.drawing = Promise.resolve();
      const sides = new Map();
      for (const run of runs) if (!sides.has(report.model.side[run])) sides.set(report.model.side[run], run);
      this.chosen = [...sides.values()].slice(0, MOST_RUNS);
      this.buttons = element("div", { class: "chosen", role: "group", "aria-label": "Runs that are drawn" });
      this.facts = element("div", {});
      this.zoom = element("div", { class: "controls" });
      this.plots = element("div", { class: "plots" });
      this.after = element("div", {});
      host.replaceChildren(this.buttons, this.facts, this.zoom, this.plots, this.after);
      this.ready = this.draw();
    }

    close() {
      this.closed = true;
      for (const chart of this.charts) chart.finalize();
      this.charts = [];
    }

    choose(run) {
      if (this.chosen.includes(run)) {
        if (this.chosen.length > 1) this.chosen = this.chosen.filter((one) => one !== run);
      } else this.chosen = [...this.chosen, run].slice(-MOST_RUNS);
      this.ready = this.draw();
    }

    showButtons() {
      this.buttons.replaceChildren();
      if (this.runs.length < 2) return;
      for (const run of this.runs.slice(0, MOST_BUTTONS)) {
        this.buttons.append(
          element("button", { type: "button", "aria-pressed": String(this.chosen.includes(run)), onclick: () => this.choose(run) }, nameOf(run, this.runs)),
        );
      }
      if (this.runs.length > MOST_BUTTONS) this.buttons.append(element("span", { class: "note" }, `and ${this.runs.length - MOST_BUTTONS} more: filters show fewer`));
    }

    async draw() {
      this.showButtons();
      this.told(this.chosen);
      const at = (this.turn = (this.turn ?? 0) + 1);
      let read;
      try {
        read = await Promise.all(this.chosen.map(series));
      } catch (error) {
        this.plots.replaceChildren(element("p", { class: "empty" }, `Nothing to show: ${error.message}.`));
        return;
      }
      if (this.closed || at !== this.turn) return;
      for (const chart of this.charts) chart.finalize();
      this.charts = [];
      this.showFacts(read);
      this.showPlots(read);
    }

    showFacts(read) {
      const { model } = report;
      const one = this.chosen.length === 1;
      const table = report.table("runs");
      const shown = ["utilisation", "goodput_total_mbit", "jain", "sojourn_mean_ms", "sojourn_p99_ms", "ce_marks", "drops", "retransmissions"];
      const rows = [];
      const head = element("tr", {}, element("td", {}), ...this.chosen.map((run) => element("th", { scope: "col", class: "number" }, nameOf(run, this.runs))));
      for (const measure of shown.map((name) => report.measure(`runs.${name}`)).filter(Boolean)) {
        const cells = this.chosen.map((run) => element("td", { class: "number" }, report.number(measure.values[table.run.indexOf(run)])));
        rows.push(element("tr", {}, element("th", { scope: "row" }, measure.label), ...cells));
      }
      for (const other of ["flows", "classes"]) {
        const parts = report.table(other);
        if (!parts || (other === "classes" && report.table("flows"))) continue;
        for (const name of ["goodput_mbit", "rtt_mean_ms"]) {
          const measure = parts.measures.find((one) => one.name === name);
          if (!measure) continue;
          const labels = new Map();
          this.chosen.forEach((run, i) => {
            parts.run.forEach((of, row) => {
              if (of !== run) return;
              const label = parts.axes.map((axis) => axis.texts[axis.codes[row]]).join(", ");
              if (!labels.has(label)) labels.set(label, this.chosen.map(() => null));
              labels.get(label)[i] = measure.values[row];
            });
          });
          for (const [label, found] of labels) {
            rows.push(element("tr", {}, element("th", { scope: "row" }, `${measure.label}${label ? ` of ${label}` : ""}`), ...found.map((value) => element("td", { class: "number" }, report.number(value)))));
          }
        }
      }
      /** @type {{ link: HTMLAnchorElement, run: number, config: string }[]} */
      this.playLinks = [];
      const commands = read.map((one, i) => {
        const code = element("code", {}, one.command);
        const copy = element("button", { type: "button", class: "quiet", onclick: () => copied(copy, one.command, code) }, "Copy");
        const title = this.chosen.length > 1 ? `${nameOf(this.chosen[i], this.runs)}: repeat it` : "Repeat this run";
        const leads = one.plays ? [this.makePlayLink(this.chosen[i], one)] : [];
        return element("div", { class: "command" }, element("div", { class: "note" }, title, copy), element("pre", { tabindex: "0" }, code), ...leads);
      });
      const more = read.map((one, i) => {
        const run = this.chosen[i];
        return element(
          "details", {}, element("summary", {}, `All settings${this.chosen.length > 1 ? ` of ${nameOf(run, this.runs)}` : ""}`),
          element("p", { class: "note" }, `key ${model.key[run]}, engine ${model.sides[model.side[run]].engine}, seed ${model.seed[run]}, computed in ${report.number(model.wall[run])} s`),
          element("pre", { tabindex: "0" }, JSON.stringify(JSON.parse(one.config), null, 1)),
        );
      });
      const late = this.chosen.filter((run) => model.late.includes(run)).map((run) => element("p", { class: "empty" }, `${nameOf(run, this.runs)} was too late and does not count: its machine did not keep time.`));
      this.facts.replaceChildren(...late, element("div", { class: one ? "" : "scroll" }, element("table", { class: one ? "facts one" : "facts" }, one ? null : head, ...rows)), ...(one ? commands : []));
      this.after.replaceChildren(...(one ? [] : commands), ...more);
      void this.aimPlayLinks();
    }

    /** Returns a link to a run in the playground. */
    makePlayLink(run, read) {
      const link = element("a", { href: report.model.playground, target: "_blank", class: "play" }, "Open in the playground");
      this.playLinks.push({ link, run, config: read.config });
      return link;
    }

    /** Lets the links to the playground begin at the moment at which the charts begin. */
    async aimPlayLinks() {
      const moment = this.time?.[0] ?? 0;
      for (const { link, run, config } of this.playLinks) link.href = `${report.model.playground}#${await formatPlayFragment(run, config, moment)}`;
    }

    // charts of one time: a drag or two numbers choose a part of it

    showPlots(read) {
      const several = this.chosen.length > 1;
      const panels = new Map();
      const names = this.chosen.map((run) => nameOf(run, this.runs));
      read.forEach((one, i) => {
        for (const line of one.lines) {
          const name = ["CE marks", "SCE marks", "drops"].includes(line.panel) ? "marks and drops of the queue, packets" : line.panel === "capacity" ? "throughput" : line.panel;
          const label = ["CE marks", "SCE marks", "drops", "capacity"].includes(line.panel) ? line.panel : line.label;
          if (!panels.has(name)) panels.set(name, []);
          panels.get(name).push({ ...line, label, run: names[i] });
        }
      });
      this.plots.replaceChildren();
      this.zoom.replaceChildren();
      if (!panels.size) {
        this.plots.append(element("p", { class: "empty" }, "Nothing to show: these runs recorded no time series. record.series = true in the experiment does."));
        return;
      }
      const ends = [...panels].filter(([name]) => !name.startsWith("distribution")).flatMap(([, lines]) => lines.map((line) => line.x.at(-1) ?? 0));
      this.end = Math.max(...ends, 0);
      this.time = null;
      this.moments();
      const labels = [...new Set([...panels.values()].flat().map((line) => line.label))].filter(Boolean);
      labels.sort((a, b) => report.hue(a) - report.hue(b));
      if (several) this.plots.append(element("p", { class: "note" }, `Solid: ${names[0]}. ${["Dashed", "Dotted", "Dash-dotted"].slice(0, names.length - 1).map((text, i) => `${text}: ${names[i + 1]}`).join(". ")}.`));
      const order = ["goodput", "throughput", "state", "srtt", "pings", "sojourn", "cwnd", "marks and drops of the queue, packets", "retransmissions", "backlog", "ssthresh"];
      const place = (name) => (order.includes(name) ? order.indexOf(name) : name.startsWith("distribution") ? 99 : 50);
      for (const [name, lines] of [...panels].sort((a, b) => place(a[0]) - place(b[0]))) this.plot(name, lines, labels, names);
    }

    moments() {
      const from = element("input", { type: "number", min: "0", step: "any", value: "0", "aria-label": "From, seconds" });
      const to = element("input", { type: "number", min: "0", step: "any", value: String(this.end), "aria-label": "To, seconds" });
      const change = () => {
        const [a, b] = [Number(from.value), Number(to.value)];
        if (a < b) this.span([a, b]);
      };
      from.addEventListener("change", change);
      to.addEventListener("change", change);
      this.inputs = [from, to];
      this.zoom.append(
        element("label", {}, "From ", from), element("label", {}, "to ", to, " s"),
        element("button", { type: "button", class: "quiet", onclick: () => this.span(null) }, "Whole run"), element("span", { class: "note" }, "or drag across a chart"),
      );
    }

    span(time) {
      this.time = time;
      void this.aimPlayLinks();
      const [from, to] = time ?? [0, this.end];
      this.inputs[0].value = String(Number(from.toPrecision(6)));
      this.inputs[1].value = String(Number(to.toPrecision(6)));
      for (const { timed, chart } of this.charts.map((one) => one)) {
        if (timed) chart?.view?.signal("from", from).signal("to", to).runAsync();
      }
    }

    plot(name, lines, labels, names) {
      const title = TITLES[name] ?? name;
      const host = element("div", { class: "chart", "data-panel": name });
      const own = labels.filter((label) => lines.some((line) => line.label === label));
      const legend = element("div", { class: "legend" });
      if (own.length && name !== "state") {
        own.forEach((label) => {
          const swatch = element("span", { class: "swatch" });
          swatch.innerHTML = `<svg viewBox="0 0 20 16" width="20" height="16" aria-hidden="true"><rect x="0" y="5" width="20" height="5" fill="var(--series-${report.hue(label) % 9})"/></svg>`;
          swatch.append(label);
          legend.append(swatch);
        });
      }
      this.plots.append(element("figure", { class: "plot" }, element("figcaption", {}, title), legend, host));
      const timed = !name.startsWith("distribution");
      const entry = { timed, chart: null, finalize: () => entry.chart?.finalize() };
      this.charts.push(entry);
      const draw = async () => {
        if (this.closed || !host.isConnected) return;
        const spec = name === "state" ? stateSpec(lines) : timed ? timeSpec(lines, names, this.time ?? [0, this.end]) : distributionSpec(lines, names);
        const inner = element("div", {});
        host.append(inner);
        entry.chart = await dumbbell.chart(inner, spec, { label: title, name: name.replace(/\W+/g, "-"), ready: (view) => timed && this.drag(inner, view) });
        host.dataset.drawn = "yes";
      };
      // one after the other, so that the first is there soon
      const next = () => (this.drawing = this.drawing.then(draw));
      if (this.charts.length <= AT_ONCE) next();
      else dumbbell.whenSeen(host, next);
    }

    drag(host, view) {
      const canvas = host.querySelector("canvas");
      if (!canvas) return;
      canvas.style.touchAction = "pan-y";
      let start = null;
      const mark = element("div", { class: "span", hidden: true });
      canvas.parentElement.style.position = "relative";
      canvas.parentElement.append(mark);
      const left = () => view.origin()[0];
      const x = (event) => event.clientX - canvas.getBoundingClientRect().left;
      canvas.addEventListener("pointerdown", (event) => {
        start = x(event);
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (start === null) return;
        mark.hidden = Math.abs(x(event) - start) < 5;
        mark.style.left = `${canvas.offsetLeft + Math.min(start, x(event))}px`;
        mark.style.width = `${Math.abs(x(event) - start)}px`;
      });
      canvas.addEventListener("pointerup", (event) => {
        const end = x(event);
        mark.hidden = true;
        if (start !== null && Math.abs(end - start) >= 5) {
          const scale = view.scale("x");
          const [a, b] = [start, end].map((one) => scale.invert(one - left())).sort((one, other) => one - other);
          this.span([Math.max(0, a), Math.min(this.end, b)]);
        }
        start = null;
      });
      canvas.addEventListener("dblclick", () => this.span(null));
    }
  }

  /** The fragment with which the playground begins with a run, as `make_fragment` in Python makes it, at a moment, s. */
  async function formatPlayFragment(run, config, moment) {
    const { model } = report;
    const text = JSON.stringify({ title: nameOf(run, [run]) || document.title, seed: model.seed[run], ...JSON.parse(config) });
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const packed = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
    return `g=${packed}${moment > 0 ? `&t=${Math.round(moment * 1000)}` : ""}`;
  }

  async function copied(button, text, code) {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: press Ctrl+C";
    }
  }

  // specifications of Vega-Lite

  const rows = (lines) => lines.flatMap((line) => line.x.map((x, i) => ({ x, y: line.y[i], s: line.label, r: line.run, ...report.look(line.label ? report.hue(line.label) : INK) })));
  const dashed = (names) => (names.length > 1 ? { strokeDash: { field: "r", type: "nominal", legend: null, scale: { domain: names, range: report.DASHES } } } : {});

  function timeSpec(lines, names, time) {
    const data = rows(lines);
    const points = data.length / Math.max(1, lines.length) <= 400;
    const x = { field: "x", type: "quantitative", title: "time, s", scale: { domain: [{ expr: "from" }, { expr: "to" }], nice: false, zero: false } };
    const y = { field: "y", type: "quantitative", title: null, scale: { zero: true } };
    const encoding = { x, y, detail: [{ field: "s" }, { field: "r" }], color: report.COLOUR };
    const tooltip = [{ field: "x", title: "time, s", format: ".4~g" }, { field: "s", title: "of" }, { field: "y", title: "value", format: ".4~g" }, ...(names.length > 1 ? [{ field: "r", title: "run" }] : [])];
    /** @type {object[]} */
    const layer = [{ mark: { type: "line", clip: true, strokeWidth: 1.3, tooltip: null }, encoding: { ...encoding, ...dashed(names) } }];
    if (points) layer.push({ mark: { type: "point", clip: true, opacity: 0, size: 60, tooltip: true }, encoding: { ...encoding, tooltip } });
    return { width: "container", height: 110, params: [{ name: "from", value: time[0] }, { name: "to", value: time[1] }], data: { values: data }, layer };
  }

  function distributionSpec(lines, names) {
    const data = rows(lines).filter((row) => row.y > 0);
    const positive = data.filter((row) => row.x > 0);
    const least = Math.min(...positive.map((row) => row.y));
    return {
      width: "container", height: 150, data: { values: data }, mark: { type: "line", interpolate: "step-after", strokeWidth: 1.5, tooltip: null },
      encoding: {
        x: { field: "x", type: "quantitative", title: "ms", scale: { zero: false, nice: false } },
        y: { field: "y", type: "quantitative", title: null, scale: { type: "log", domain: [Math.min(least, 0.01), 1] }, axis: { format: "~g" } },
        detail: [{ field: "s" }, { field: "r" }], color: report.COLOUR, ...dashed(names),
      },
    };
  }

  function stateSpec(lines) {
    const several = new Set(lines.map((line) => line.run)).size > 1;
    const data = lines.flatMap((line) => {
      const r = [line.label, several ? line.run : ""].filter(Boolean).join(", ");
      /** @type {{x: number, x2: number, s: string, r: string}[]} */
      const stays = [];
      line.x.forEach((x, i) => {
        const s = line.texts[line.y[i]] ?? "";
        const x2 = line.x[i + 1] ?? x;
        const last = stays.at(-1);
        if (last?.s === s) last.x2 = x2;
        else stays.push({ x, x2, s, r });
      });
      return stays;
    });
    return {
      width: "container", height: { step: 22 }, params: [{ name: "from", value: 0 }, { name: "to", value: Math.max(...data.map((row) => row.x2)) }], data: { values: data },
      mark: { type: "bar", clip: true, tooltip: { content: "encoding" } },
      encoding: {
        x: { field: "x", type: "quantitative", title: "time, s", scale: { domain: [{ expr: "from" }, { expr: "to" }], nice: false, zero: false } },
        x2: { field: "x2" }, y: { field: "r", type: "nominal", title: null }, color: { field: "s", type: "nominal", title: null, legend: { orient: "bottom", columns: 4 } },
        tooltip: [{ field: "s", title: "state" }, { field: "x", title: "from, s", format: ".4~g" }, { field: "x2", title: "to, s", format: ".4~g" }],
      },
    };
  }

  // the panel at the side

  let shown = null;
  let before = null;

  function open(runs, text) {
    const panel = document.getElementById("panel");
    before ??= document.activeElement;
    shown?.close();
    dumbbell.tip(null);
    const close = element("button", { type: "button", onclick: hide, "aria-label": "Close" }, "Close");
    const heading = element("h2", { tabindex: "-1" }, text);
    const host = element("div", {});
    panel.replaceChildren(element("div", { class: "head" }, heading, close), host);
    panel.hidden = false;
    panel.scrollTop = 0;
    document.body.classList.add("opened");
    const seeds = (chosen) => [...new Set(chosen.map((run) => report.model.seed[run]))].sort((a, b) => a - b);
    const title = (chosen) => [text, `${seeds(chosen).length > 1 ? "seeds" : "seed"} ${seeds(chosen).join(", ")}`].filter(Boolean).join(", ");
    shown = new View(host, runs, (chosen) => (heading.textContent = title(chosen)));
    heading.focus({ preventScroll: true });
    if (runs.length) history.replaceState(null, "", `#run=${report.model.key[runs[0]]}`);
    panel.dataset.runs = runs.join(" ");
    return shown.ready;
  }

  function hide() {
    const panel = document.getElementById("panel");
    shown?.close();
    shown = null;
    panel.hidden = true;
    panel.replaceChildren();
    document.body.classList.remove("opened");
    history.replaceState(null, "", location.pathname + location.search);
    before?.focus?.();
    before = null;
  }

  addEventListener("keydown", (event) => event.key === "Escape" && shown && hide());

  Object.assign(report, { open, hide, View, series, nameOf });
})();
