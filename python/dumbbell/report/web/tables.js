// Tables of a report: sorted by any column, some rows at a time; a row opens its runs.
"use strict";
(() => {
  const { element } = dumbbell;
  const PAGE = 50;

  // columns: { label, number, value(row), text(row) }; rows: anything; open(row) shows what is behind one
  class Sorted {
    constructor(host, { caption, columns, rows, open, name, sort = undefined }) {
      this.host = host;
      this.caption = caption;
      this.columns = columns;
      this.rows = rows;
      this.open = open;
      this.name = name;
      this.by = sort ?? null;
      this.up = sort === undefined;
      this.most = PAGE;
      this.draw();
    }

    draw() {
      const active = /** @type {HTMLElement} */ (document.activeElement);
      const focus = this.host.contains(active) ? active.dataset.column : null;
      const rows = [...this.rows];
      if (this.by !== null) {
        const { value } = this.columns[this.by];
        const sign = this.up ? 1 : -1;
        rows.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === null || x === undefined) return 1; // what has no value comes last
          if (y === null || y === undefined) return -1;
          return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
        });
      }
      const head = element("tr", {});
      this.columns.forEach((column, i) => {
        const sort = this.by === i ? (this.up ? "ascending" : "descending") : "none";
        const arrow = { ascending: " ▲", descending: " ▼", none: "" }[sort];
        const act = () => {
          this.up = this.by === i ? !this.up : !column.number;
          this.by = i;
          this.draw();
        };
        head.append(
          element("th", { scope: "col", "aria-sort": sort, class: column.number ? "number" : null, title: column.title },
            element("button", { type: "button", "data-column": i, onclick: act }, column.label + arrow)),
        );
      });
      const body = element("tbody", {});
      for (const row of rows.slice(0, this.most)) {
        const line = element("tr", {});
        this.columns.forEach((column, i) => {
          const text = column.text(row);
          const cell = element(i ? "td" : "th", { class: column.number ? "number" : null, scope: i ? null : "row" });
          if (!i && this.open) cell.append(element("button", { type: "button", class: "link", onclick: () => this.open(row) }, text || "show"));
          else cell.append(text);
          line.append(cell);
        });
        if (this.open) line.addEventListener("click", (event) => event.target.closest("button") || String(getSelection()) || this.open(row));
        body.append(line);
      }
      const table = element("table", { class: "sorted" }, element("caption", {}, this.caption), element("thead", {}, head), body);
      const parts = [element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": this.caption }, table)];
      const actions = element("div", { class: "controls" });
      if (rows.length > this.most) {
        const more = (count) => () => {
          this.most = count;
          this.draw();
        };
        actions.append(element("span", { class: "note" }, `${this.most} of ${rows.length} rows`), element("button", { type: "button", onclick: more(this.most + 200) }, "More rows"), element("button", { type: "button", onclick: more(rows.length) }, "All rows"));
      }
      actions.append(element("button", { type: "button", class: "quiet", onclick: () => dumbbell.save(`${this.name}.csv`, this.csv(rows), "text/csv") }, "Save as CSV"));
      this.host.replaceChildren(...parts, actions);
      if (focus !== null) this.host.querySelector(`[data-column="${focus}"]`)?.focus();
    }

    csv(rows) {
      const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      const lines = [this.columns.flatMap((column) => (column.half ? [column.label, `${column.label}, half of the 95 % interval, of two runs of the range`] : [column.label]))];
      for (const row of rows) {
        lines.push(this.columns.flatMap((column) => {
          const value = column.number ? column.value(row) : column.text(row);
          return column.half ? [value ?? "", column.half(row) ?? ""] : [value ?? ""];
        }));
      }
      return lines.map((line) => line.map((cell) => quoted(String(cell))).join(",")).join("\n") + "\n";
    }
  }

  // means of all cells: keys down, measures across

  const PREFERRED = {
    runs: ["utilisation", "goodput_total_mbit", "jain", "sojourn_mean_ms", "sojourn_p99_ms", "ce_marks", "drops", "retransmissions"],
    flows: ["goodput_mbit", "share", "rtt_mean_ms", "cwnd_mean", "retransmissions", "ce_marks", "drops"],
    apps: ["loads", "load_p50_s", "load_p95_s", "delay_p99_ms", "late_share", "mos", "frozen_s", "stalled_share", "rpm"],
    classes: ["goodput_mbit", "throughput_mbit", "rtt_mean_ms", "sojourn_mean_ms", "mark_share", "drop_share"],
    slowdowns: ["flows", "finished", "completion_mean_s", "slowdown_mean", "slowdown_p99"],
    hops: ["utilisation", "throughput_mbit", "sojourn_mean_ms", "ce_marks", "drops"],
  };

  class Means {
    constructor(host) {
      this.name = report.model.tables[0]?.name;
      this.controls = element("div", { class: "controls" });
      this.columns = element("details", { class: "choice" });
      this.host = element("div", {});
      this.chosen = new Map();
      host.append(this.controls, this.columns, this.host);
      report.whenFiltered(() => this.later());
      this.control();
      this.draw();
    }

    later() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.draw(), 60);
    }

    get table() {
      return report.table(this.name);
    }

    measures() {
      if (!this.chosen.has(this.name)) {
        const known = this.table.measures.map((one) => one.name);
        const wanted = (PREFERRED[this.name] ?? []).filter((one) => known.includes(one));
        this.chosen.set(this.name, new Set(wanted.length ? wanted : known.slice(0, 6)));
      }
      return this.table.measures.filter((one) => this.chosen.get(this.name).has(one.name));
    }

    control() {
      const box = element("select", {
        onchange: (event) => {
          this.name = event.target.value;
          this.control();
          this.draw();
          this.controls.querySelector("select").focus();
        },
      });
      for (const table of report.model.tables) box.append(element("option", { value: table.name, selected: table.name === this.name }, `of each ${table.of}`));
      this.controls.replaceChildren(element("label", {}, "Means ", box));
      this.measures();
      const boxes = this.table.measures.map((measure) => {
        const check = element("input", {
          type: "checkbox", checked: this.chosen.get(this.name).has(measure.name),
          onchange: (event) => {
            if (event.target.checked) this.chosen.get(this.name).add(measure.name);
            else this.chosen.get(this.name).delete(measure.name);
            this.draw();
          },
        });
        return element("label", { title: measure.doc }, check, ` ${measure.label}`);
      });
      this.columns.replaceChildren(element("summary", {}, "Columns"), element("div", { class: "boxes" }, ...boxes));
    }

    draw() {
      const { table } = this;
      const rows = report.rows(table);
      if (!rows.length) {
        this.host.replaceChildren(element("p", { class: "empty" }, "Nothing to show: the filters keep no run that has these measures."));
        return;
      }
      const axes = report.varying(table, rows);
      const measures = this.measures();
      const groups = report.groups(table, measures, axes, rows);
      const columns = axes.map((axis, i) => ({
        label: axis.name, number: false, text: (group) => axis.texts[group.codes[i]],
        value: (group) => (axis.numbers ? axis.numbers[group.codes[i]] : axis.texts[group.codes[i]]),
      }));
      if (!axes.length) columns.push({ label: "cell", number: false, text: () => "all runs", value: () => 0 });
      measures.forEach((measure, i) =>
        columns.push({
          label: measure.label, title: measure.doc, number: true, text: (group) => report.withHalf(group.values[i]), value: (group) => group.values[i].mean,
          half: groups.some((group) => group.values[i].half !== null) ? (group) => group.values[i].half : null,
        }),
      );
      columns.push({ label: "runs", number: true, text: (group) => String(group.runs.length), value: (group) => group.runs.length });
      const text = (group) => axes.map((axis, i) => report.said(axis, group.codes[i])).join(", ") || "all runs";
      const old = this.sorted;
      this.sorted = new Sorted(this.host, {
        caption: `${report.counted(groups.length, "cell")} of ${report.counted(new Set(rows.map((row) => table.run[row])).size, "run")}`, columns, rows: groups, name: `means-${table.name}`,
        open: (group) => report.open(group.runs, text(group)),
      });
      if (old && old.columns.length === columns.length && old.by !== null) {
        Object.assign(this.sorted, { by: old.by, up: old.up });
        this.sorted.draw();
      }
    }
  }

  // two sides, cell by cell

  class Sides {
    constructor(host, compared) {
      this.compared = compared;
      this.controls = element("div", { class: "controls" });
      this.lines = element("div", {});
      this.plot = element("div", { class: "chart" });
      this.host = element("div", {});
      host.append(this.controls, this.lines, this.plot, this.host);
      this.at = 0;
      this.place = ["flows.goodput_mbit", "runs.goodput_total_mbit", "classes.goodput_mbit"].find((one) => report.measure(one)) ?? `${report.model.tables[0].name}.${report.model.tables[0].measures[0].name}`;
      report.whenFiltered(() => this.draw());
      this.control();
      this.draw();
    }

    control() {
      const { model } = report;
      const sides = element("select", { onchange: (event) => { this.at = Number(event.target.value); this.draw(); } });
      this.compared.forEach((one, i) => sides.append(element("option", { value: i }, `${model.sides[one.a].name} and ${model.sides[one.b].name}`)));
      const measures = element("select", { "data-control": "Measure", onchange: (event) => { this.place = event.target.value; this.draw(); } });
      for (const table of model.tables) {
        const group = element("optgroup", { label: `of each ${table.of}` });
        for (const one of table.measures) group.append(element("option", { value: `${table.name}.${one.name}`, selected: `${table.name}.${one.name}` === this.place }, one.label));
        measures.append(group);
      }
      this.controls.replaceChildren(...(this.compared.length > 1 ? [element("label", {}, "Sides ", sides)] : []), element("label", {}, "Measure ", measures));
    }

    // one row for each cell that both have, and part of it
    rows(one) {
      const [name, column] = this.place.split(".");
      const table = report.table(name);
      const measure = table.measures.find((other) => other.name === column);
      const of = new Map();
      for (const row of report.rows(table)) {
        if (!of.has(table.run[row])) of.set(table.run[row], []);
        of.get(table.run[row]).push(row);
      }
      const found = [];
      for (const [a, b, where] of one.cells) {
        const parts = new Map();
        [a, b].forEach((runs, side) => {
          for (const run of runs) {
            for (const row of of.get(run) ?? []) {
              const part = table.axes.map((axis) => axis.texts[axis.codes[row]]).join(", ");
              if (!parts.has(part)) parts.set(part, [[], []]);
              parts.get(part)[side].push(row);
            }
          }
        });
        for (const [part, rows] of parts) {
          if (!rows[0].length || !rows[1].length) continue;
          const [x, y] = rows.map((own) => report.mean(table, measure, own));
          if (x.mean === null || y.mean === null) continue;
          found.push({ where: where || "the only cell", part: part === "-" ? "" : part, a: x, b: y, runs: [...a, ...b] });
        }
      }
      return { found, measure, of: table.axes };
    }

    async draw() {
      const { model } = report;
      const one = this.compared[this.at];
      const [a, b] = [model.sides[one.a].name, model.sides[one.b].name];
      this.lines.replaceChildren(...one.lines.map((line) => element("p", { class: "note" }, line)));
      const { found, measure, of } = this.rows(one);
      this.chart?.finalize();
      this.chart = null;
      if (!found.length) {
        this.plot.replaceChildren(element("p", { class: "empty" }, `Nothing to show: no cell that the filters keep has ${measure.label} on both sides.`));
        this.host.replaceChildren();
        return;
      }
      const texts = [...new Set(found.map((row) => row.part))];
      const data = found.map((row, i) => ({ i, x: row.a.mean, mean: row.b.mean, c: row.part, w: row.where, ...report.look(of.length === 1 ? report.coloured(of[0], [of[0].texts.indexOf(row.part || "-")])[0].at : texts.indexOf(row.part)) }));
      const ends = [Math.min(...data.flatMap((row) => [row.x, row.mean])), Math.max(...data.flatMap((row) => [row.x, row.mean]))];
      const isLog = ends[0] > 0 && ends[1] / ends[0] > 50;
      const scale = { domain: ends, nice: true, zero: false, type: isLog ? "log" : "linear" };
      const coloured = of.length && texts.length > 1 && texts.length <= 16 ? { color: report.COLOUR, shape: report.SHAPE } : {};
      const spec = {
        width: "container", height: 300, params: [{ name: "cursor", value: -1 }],
        layer: [
          { data: { values: [{ x: ends[0], y: ends[0] }, { x: ends[1], y: ends[1] }] }, mark: { type: "line", color: dumbbell.colour("--soft"), strokeDash: [4, 3], strokeWidth: 1, tooltip: null }, encoding: { x: { field: "x", type: "quantitative", scale }, y: { field: "y", type: "quantitative", scale } } },
          {
            data: { values: data }, mark: { type: "point", filled: true, opacity: 0.8, size: 45, cursor: "pointer" },
            encoding: {
              x: { field: "x", type: "quantitative", scale, title: `${measure.label}: ${a}` }, y: { field: "mean", type: "quantitative", scale, title: b }, ...coloured,
              tooltip: [{ field: "w", title: "cell" }, ...(of.length ? [{ field: "c", title: "of" }] : []), { field: "x", title: a, format: ".4~g" }, { field: "mean", title: b, format: ".4~g" }],
            },
          },
        ],
      };
      const open = (row) => report.open(row.runs, [row.where, row.part].filter(Boolean).join(", "));
      const turn = (this.turn = (this.turn ?? 0) + 1);
      dumbbell.whenSeen(this.plot, async () => {
        if (turn !== this.turn) return;
        const inner = element("div", {});
        this.plot.replaceChildren(inner);
        this.chart = await dumbbell.chart(inner, spec, {
          label: `${measure.label}: ${b} against ${a}`, name: `sides-${measure.name}`,
          ready: (view) => view.addEventListener("click", (_event, item) => item?.datum?.i !== undefined && found[item.datum.i] && open(found[item.datum.i])),
        });
      });
      const change = (row) => (row.a.mean ? (row.b.mean - row.a.mean) / Math.abs(row.a.mean) : null);
      const columns = [
        { label: "cell", number: false, text: (row) => row.where, value: (row) => row.where },
        ...(of.length ? [{ label: "of", number: false, text: (row) => row.part, value: (row) => row.part }] : []),
        { label: a, number: true, text: (row) => report.withHalf(row.a), value: (row) => row.a.mean, half: (row) => row.a.half },
        { label: b, number: true, text: (row) => report.withHalf(row.b), value: (row) => row.b.mean, half: (row) => row.b.half },
        { label: "difference", number: true, text: (row) => report.number(row.b.mean - row.a.mean), value: (row) => row.b.mean - row.a.mean },
        { label: "change, %", number: true, text: (row) => (change(row) === null ? "-" : `${(100 * change(row)).toFixed(1)}`), value: change },
      ];
      this.sorted = new Sorted(this.host, { caption: `${measure.label}: ${found.length} cells`, columns, rows: found, open, name: `sides-${measure.name}` });
    }
  }

  // published numbers

  class Published {
    constructor(host, one) {
      this.one = one;
      this.controls = element("div", { class: "controls" });
      this.plot = element("div", { class: "chart" });
      this.host = element("div", {});
      host.append(this.controls, this.plot, this.host);
      const metrics = [...new Set(one.pairs.map((pair) => pair.metric))];
      [this.metric] = metrics;
      const box = element("select", { "data-control": "Metric", onchange: (event) => { this.metric = event.target.value; this.draw(); } }, ...metrics.map((name) => element("option", { value: name }, name)));
      this.note = element("span", { class: "note" });
      this.controls.append(element("label", {}, "Measure ", box), this.note);
      this.box = box;
      report.whenFiltered(() => this.draw());
      this.draw();
    }

    draw() {
      const keep = report.runs();
      const seen = this.one.pairs.filter((pair) => !pair.runs.length || pair.runs.some((run) => keep[run]));
      // the measure that was chosen, or another of which the filters leave something
      const has = (name) => seen.some((pair) => pair.metric === name);
      if (!has(this.metric)) this.metric = [...this.box.options].map((option) => option.value).find(has) ?? this.metric;
      this.box.value = this.metric;
      const hidden = this.one.pairs.length - seen.length;
      this.note.textContent = hidden ? `The filters hide ${hidden} of ${this.one.pairs.length} figures.` : "";
      const rows = seen.filter((pair) => pair.metric === this.metric);
      this.chart?.finalize();
      this.chart = null;
      if (!rows.length) {
        this.plot.replaceChildren(element("p", { class: "empty" }, "Nothing to show: the filters keep no run that answers a published number."));
        this.host.replaceChildren();
        return;
      }
      const data = rows.map((row, i) => ({ i, x: row.published, y: row.simulated, w: row.where + (row.flow ? `, flow ${row.flow}` : "") }));
      const all = data.flatMap((row) => [row.x, row.y]);
      const ends = [Math.min(...all), Math.max(...all)];
      const scale = { domain: ends, nice: true, zero: false, type: ends[0] > 0 && ends[1] / ends[0] > 50 ? "log" : "linear" };
      const spec = {
        width: "container", height: 300,
        layer: [
          { data: { values: [{ x: ends[0], y: ends[0] }, { x: ends[1], y: ends[1] }] }, mark: { type: "line", color: dumbbell.colour("--soft"), strokeDash: [4, 3], strokeWidth: 1, tooltip: null }, encoding: { x: { field: "x", type: "quantitative", scale }, y: { field: "y", type: "quantitative", scale } } },
          { data: { values: data }, mark: { type: "point", filled: true, opacity: 0.7, size: 40, cursor: "pointer" }, encoding: { x: { field: "x", type: "quantitative", scale, title: `published ${this.metric}` }, y: { field: "y", type: "quantitative", scale, title: "simulated" }, tooltip: [{ field: "w", title: "cell" }, { field: "x", title: "published", format: ".4~g" }, { field: "y", title: "simulated", format: ".4~g" }] } },
        ],
      };
      const open = (row) => row.runs.length && report.open(row.runs, row.where);
      const turn = (this.turn = (this.turn ?? 0) + 1);
      dumbbell.whenSeen(this.plot, async () => {
        if (turn !== this.turn) return;
        const inner = element("div", {});
        this.plot.replaceChildren(inner);
        this.chart = await dumbbell.chart(inner, spec, {
          label: `simulated against published ${this.metric}`, name: `published-${this.one.name}`,
          ready: (view) => view.addEventListener("click", (_event, item) => item?.datum?.i !== undefined && rows[item.datum.i] && open(rows[item.datum.i])),
        });
      });
      const several = rows.some((row) => row.flow);
      const columns = [
        { label: "cell", number: false, text: (row) => row.where, value: (row) => row.where },
        ...(rows.some((row) => row.table) ? [{ label: "table", number: false, text: (row) => row.table, value: (row) => row.table }] : []),
        ...(several ? [{ label: "flow", number: false, text: (row) => String(row.flow ?? ""), value: (row) => row.flow }] : []),
        { label: "published", number: true, text: (row) => report.number(row.published), value: (row) => row.published },
        { label: "simulated", number: true, text: (row) => report.number(row.simulated), value: (row) => row.simulated },
        { label: "error", number: true, title: rows[0].score, text: (row) => report.number(row.error), value: (row) => (row.error === null ? null : Math.abs(row.error)) },
      ];
      this.sorted = new Sorted(this.host, { caption: `${this.metric}: ${rows.length} published figures; error as ${rows[0].score}`, columns, rows, open, name: `published-${this.metric}`, sort: columns.length - 1 });
    }
  }

  Object.assign(report, { Sorted, Means, Sides, Published });
})();
