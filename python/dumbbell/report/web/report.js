// Brings a report to life: filters, figures, tables, and the run that the address names.
"use strict";
(async () => {
  const { element } = dumbbell;
  const MOST_BOXES = 200;
  const at = (name) => document.getElementById(name);

  function filters(host) {
    const { model } = report;
    const total = model.seed.length;
    const count = element("output", { class: "note", id: "kept" });
    const reset = element("button", { type: "button", class: "quiet", id: "reset", onclick: () => {
      for (const box of host.querySelectorAll("input[type=checkbox]")) box.checked = true;
      for (const key of report.keys()) report.filter(key.name, null);
      if (model.experiments.unlike.length) choose(model.experiments.unlike[0]);
    } }, "Reset filters");
    const boxes = element("div", { class: "filters" });
    host.append(boxes, element("div", { class: "controls" }, count, reset));
    const titles = new Map();
    const state = () => {
      const kept = report.runs().filter(Boolean).length;
      count.textContent = kept === total ? (total === 1 ? "one run" : `all ${total} runs`) : `${kept} of ${total} runs`;
      for (const [name, { title, texts }] of titles) {
        const allowed = report.filtered(name);
        title.textContent = allowed ? `${name}: ${allowed.size} of ${texts.length}` : name;
        title.classList.toggle("active", Boolean(allowed));
      }
    };
    for (const key of report.keys()) {
      if (key.texts.length < 2 || key.texts.length > MOST_BOXES) continue;
      const flows = report.keys().find((other) => other.name === "flow");
      if (key.name === "class" && flows && String(flows.texts) === String(key.texts)) continue;
      const title = element("summary", {}, key.name);
      titles.set(key.name, { title, texts: key.texts });
      const list = element("div", { class: "boxes" });
      const changed = () => {
        const texts = [...list.querySelectorAll("input")].filter((box) => box.checked).map((box) => box.value);
        report.filter(key.name, texts.length === key.texts.length ? null : texts);
      };
      for (const text of key.texts) list.append(element("label", {}, element("input", { type: "checkbox", checked: true, value: text, onchange: changed }), ` ${text}`));
      const set = (value) => () => {
        for (const box of list.querySelectorAll("input")) box.checked = value;
        changed();
      };
      list.append(element("div", {}, element("button", { type: "button", class: "quiet", onclick: set(true) }, "All"), element("button", { type: "button", class: "quiet", onclick: set(false) }, "None")));
      boxes.append(element("details", { name: "filter", "data-key": key.name }, title, list));
    }
    report.whenFiltered(state);
    const choose = (experiment) => {
      const list = host.querySelector('[data-key="experiment"]');
      for (const box of list?.querySelectorAll("input") ?? []) box.checked = box.value === experiment;
      report.filter("experiment", [experiment]);
    };
    addEventListener("click", (event) => {
      for (const one of boxes.querySelectorAll("details[open]")) if (!one.contains(event.target)) one.open = false;
    });
    addEventListener("keydown", (event) => {
      const one = event.key === "Escape" && boxes.querySelector("details[open]");
      if (one) {
        one.open = false;
        one.querySelector("summary").focus();
      }
    });
    if (model.experiments.unlike.length) choose(model.experiments.unlike[0]);
    state();
  }

  await report.load();
  const { model } = report;
  if (model.alone) at("filters").hidden = true;
  else filters(at("filters"));
  const figures = at("figures");
  if (figures && model.tables.length) {
    if (model.alone) new report.View(at("alone"), model.alone);
    for (const settings of model.figures) {
      const host = element("div", { class: "waits" });
      figures.append(host);
      dumbbell.whenSeen(host, () => {
        host.classList.remove("waits");
        new report.Figure(host, settings);
      });
    }
    const add = element("button", { type: "button", onclick: () => {
      const host = element("div", {});
      add.before(host);
      const one = new report.Figure(host, { ...model.figures[0], kind: "auto" });
      one.controls.querySelector("select").focus();
    } }, "Add a figure");
    if (model.figures.length) figures.append(add);
  }
  if (model.compared.length) dumbbell.whenSeen(at("sides"), () => new report.Sides(at("sides"), model.compared));
  model.published.forEach((one, i) => dumbbell.whenSeen(at(`published-${i}`), () => new report.Published(at(`published-${i}`), one)));
  if (model.tables.length) dumbbell.whenSeen(at("means"), () => new report.Means(at("means")));

  // values of the page as CSV
  function csv(table) {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [["key", ...model.keys.map((key) => key.name), "seed", ...table.axes.map((axis) => axis.name), ...table.measures.map((measure) => measure.name)]];
    table.run.forEach((run, row) => {
      lines.push([
        model.key[run], ...model.keys.map((key) => key.texts[key.codes[run]]), model.seed[run],
        ...table.axes.map((axis) => axis.texts[axis.codes[row]]), ...table.measures.map((measure) => measure.values[row] ?? ""),
      ]);
    });
    return `${lines.map((line) => line.map((cell) => quoted(String(cell))).join(",")).join("\n")}\n`;
  }
  for (const table of model.tables) {
    at("saves").append(element("button", { type: "button", onclick: () => dumbbell.save(`${table.name}.csv`, csv(table), "text/csv") }, `Save ${table.name}.csv`));
  }
  report.csv = csv;

  // a finding leads to a figure of its measure
  for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("button[data-show]"))) {
    if (!report.measure(button.dataset.show)) {
      button.replaceWith(button.textContent);
      continue;
    }
    button.addEventListener("click", () => {
      const known = figures.querySelector(`.figure[data-measure="${button.dataset.show}"]`);
      let target = known;
      if (!known) {
        const host = element("div", {});
        figures.prepend(host);
        target = new report.Figure(host, { measure: button.dataset.show }).host;
      }
      target.scrollIntoView({ block: "start", behavior: "smooth" });
      target.querySelector("select")?.focus({ preventScroll: true });
    });
  }

  // the first chart would wait until the browser has compiled the libraries
  const warm = () => new vega.View(vega.parse(vegaLite.compile({ data: { values: [{ x: 0 }] }, mark: "line", encoding: { x: { field: "x", type: "quantitative" } } }).spec), { renderer: "none" }).runAsync();
  (window.requestIdleCallback ?? setTimeout)(warm);

  const named = location.hash.match(/^#run=(\w+)$/);
  const run = named ? model.key.indexOf(named[1]) : -1;
  if (run >= 0) report.open([run], report.model.keys.map((key) => report.said(key, key.codes[run])).join(", "));
  document.documentElement.dataset.ready = "yes";
})();
