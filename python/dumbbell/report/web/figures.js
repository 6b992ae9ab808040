// Figures of a report: maps, lines, dots and points, each of a measure, with panels for what its axes do not show.
"use strict";
(() => {
  const { element } = dumbbell;
  const FEW_PANELS = 12;
  const SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left"];
  const PATHS = {
    circle: "M10 3a5 5 0 1 0 .01 0z", square: "M5 3h10v10H5z", "triangle-up": "M10 2l6 11H4z", diamond: "M10 1l6 7-6 7-6-7z",
    "triangle-down": "M10 14l6-11H4z", cross: "M8 2h4v4h4v4h-4v4H8v-4H4V6h4z", "triangle-right": "M16 8L5 2v12z", "triangle-left": "M4 8l11-6v12z",
  };
  const DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [10, 3], [4, 2, 1, 2, 1, 2], [3, 4], [12, 2, 3, 2]];
  const KINDS = { map: "map", lines: "lines", dots: "dots with intervals", points: "one measure against another" };
  const SIDES = /^(results|engine_version|kernel)$/;
  let count = 0;

  // colours

  function ramp(share) {
    return vega.scheme("viridis")(Math.max(0, Math.min(1, share)));
  }

  function ink(colour) {
    const [r, g, b] = colour.startsWith("#")
      ? [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16))
      : colour.match(/[\d.]+/g).map(Number);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 128 ? "#000" : "#fff";
  }

  // what suits

  const isNumeric = (axis) => axis.numbers !== null;

  // axes by what a figure would do with them: numbers before words, many values before few
  function byLength(axes, of, table) {
    const size = (axis) => new Set(of.map((row) => report.codeAt(table, axis, row))).size;
    return [...axes].sort((a, b) => size(b) - size(a));
  }

  function suits(table, of) {
    const axes = report.varying(table, of);
    const numeric = byLength(axes.filter(isNumeric), of, table);
    const size = (axis) => (axis ? new Set(of.map((row) => report.codeAt(table, axis, row))).size : 0);
    if (axes.some((axis) => axis.name === "from_bytes")) return "lines";
    if (size(numeric[0]) > 2 && size(numeric[1]) > 2) return "map";
    return size(numeric[0]) > 2 ? "lines" : "dots";
  }

  function placed(kind, table, of, settings) {
    const axes = report.varying(table, of);
    const named = (name) => axes.find((axis) => axis.name === name);
    const numeric = byLength(axes.filter(isNumeric), of, table);
    const words = byLength(axes.filter((axis) => !isNumeric(axis)), of, table);
    let x = null;
    let y = null;
    if (kind === "map") {
      const two = [...numeric, ...words].slice(0, 2);
      const across = two.find((axis) => axis.name.includes("rtt")) ?? two[0];
      x = named(settings.x) ?? across ?? null;
      y = named(settings.y) ?? two.find((axis) => axis !== x) ?? null;
      if (y === x) y = [...numeric, ...words].find((axis) => axis !== x) ?? null;
    } else if (kind === "lines") {
      x = named(settings.x) ?? named("from_bytes") ?? numeric[0] ?? words[0] ?? null;
    } else if (kind === "dots") {
      // files and engines are held against each other: they are colours
      x = named(settings.x) ?? words.find((axis) => !SIDES.test(axis.name)) ?? numeric[0] ?? words[0] ?? null;
    }
    const rest = axes.filter((axis) => axis !== x && axis !== y);
    if (kind !== "map") {
      const parts = rest.filter((axis) => axis.of === "rows" && axis.texts.length <= 16);
      const few = byLength(rest.filter((axis) => axis.texts.length <= 9), of, table).reverse();
      const preferred = rest.find((axis) => /aqm/.test(axis.name) && axis.texts.length <= 9);
      const side = rest.find((axis) => SIDES.test(axis.name));
      y = (settings.y === "" ? null : named(settings.y)) ?? (settings.y === "" ? null : (side ?? (table.name === "slowdowns" ? preferred : null) ?? parts[0] ?? preferred ?? few.at(-1) ?? null));
      if (y === x) y = null;
    }
    // points have a shape for one more key, base RTTs before others
    const shaped = kind === "points" ? byLength(axes.filter((axis) => axis !== y && axis.texts.length <= SHAPES.length), of, table) : [];
    const shape = shaped.find((axis) => axis.name.includes("rtt")) ?? shaped[0] ?? null;
    return { axes, x, y, shape, facets: axes.filter((axis) => axis !== x && axis !== y && axis !== shape) };
  }

  // the same keys, whose texts leave out what all values of an algorithm have in common
  function shorter(place, table, of) {
    const short = new Map(place.axes.map((axis) => [axis, { ...axis, whole: axis.texts, texts: report.brief(axis.texts, new Set(of.map((row) => report.codeAt(table, axis, row)))) }]));
    const replaced = (axis) => short.get(axis) ?? axis;
    return { axes: place.axes.map(replaced), x: replaced(place.x), y: replaced(place.y), shape: replaced(place.shape), facets: place.facets.map(replaced) };
  }

  const isWide = (values) => values.length > 1 && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;

  class Figure {
    constructor(host, settings) {
      this.settings = { ...settings };
      this.number = ++count;
      this.charts = [];
      this.all = false;
      this.host = element("article", { class: "figure", "data-measure": settings.measure });
      host.append(this.host);
      this.heading = element("h3");
      this.controls = element("div", { class: "controls" });
      this.note = element("p", { class: "note" });
      this.legend = element("div", { class: "legend" });
      this.body = element("div", { class: "panels" });
      this.more = element("div", {});
      this.host.append(this.heading, this.controls, this.note, this.legend, this.body, this.more);
      report.whenFiltered(() => this.host.isConnected && this.later());
      this.draw();
    }

    // filters may change several times before the figure is seen
    later() {
      if (this.waits) return;
      this.waits = true;
      this.clear();
      dumbbell.whenSeen(this.host, () => {
        this.waits = false;
        this.draw();
      });
    }

    clear() {
      for (const chart of this.charts) chart.finalize?.();
      this.charts = [];
      this.body.style.minHeight = `${this.body.clientHeight}px`;
      this.body.replaceChildren();
      this.more.replaceChildren();
      this.legend.replaceChildren();
    }

    draw() {
      this.clear();
      const { settings } = this;
      const [name, column] = settings.measure.split(".");
      const table = (this.table = report.table(name));
      const measure = (this.measure = table.measures.find((one) => one.name === column));
      this.host.dataset.measure = settings.measure;
      const rows = report.rows(table);
      const kind = settings.kind && settings.kind !== "auto" ? settings.kind : suits(table, rows);
      const place = shorter(placed(kind, table, rows, settings), table, rows);
      this.heading.textContent = kind === "points" ? `${this.second().label} against ${measure.label}` : measure.label;
      this.heading.title = measure.doc;
      this.control(kind, place);
      this.body.style.minHeight = "";
      const why = this.empty(table, rows, measure, kind, place);
      if (why) {
        this.note.textContent = "";
        this.body.replaceChildren(element("p", { class: "empty" }, why));
        return;
      }
      if (kind === "points") return this.points(rows, place);
      const axes = [place.x, place.y, ...place.facets].filter(Boolean);
      const groups = report.groups(table, [measure], axes, rows);
      const panels = new Map();
      const at = (axis) => axes.indexOf(axis);
      for (const group of groups) {
        const codes = place.facets.map((axis) => group.codes[at(axis)]);
        const code = codes.join(" ");
        if (!panels.has(code)) panels.set(code, { codes, groups: [] });
        panels.get(code).groups.push(group);
      }
      const order = [...panels.values()];
      order.sort((a, b) => a.codes.reduce((found, code, i) => found || code - b.codes[i], 0));
      this.tell(kind, place, groups, rows);
      const shown = this.all ? order : order.slice(0, FEW_PANELS);
      if (kind === "map") this.maps(shown, groups, place, at);
      else this.panels(kind, shown, groups, place, at);
      this.rest(order.length - shown.length, order.length);
      return undefined;
    }

    // why there is nothing to see
    empty(table, rows, measure, kind, place) {
      if (!rows.length) return "Nothing to show: the filters keep no run that has this measure.";
      if (rows.every((row) => measure.values[row] === null)) {
        return `Nothing to show: ${measure.label} has no value in these ${new Set(rows.map((row) => table.run[row])).size} runs. ${measure.doc}`;
      }
      if (kind === "map" && (!place.x || !place.y)) {
        return "Nothing to show: a map has two keys, and the runs that the filters keep differ in fewer. Choose dots, or other filters.";
      }
      return "";
    }

    tell(kind, place, groups, rows) {
      const counts = [...new Set(groups.map((group) => group.values[0].n).filter(Boolean))].sort((a, b) => a - b);
      const seeds = counts.length > 1 ? `${counts[0]} to ${counts.at(-1)}` : `${counts[0] ?? 0}`;
      const said = [];
      if (kind === "map") said.push(`${place.y.label} up, ${place.x.label} across`);
      if (place.facets.length) said.push(`a panel for each ${place.facets.map((axis) => axis.name).join(", ")}`);
      said.push(counts.at(-1) > 1 ? `mean and ${counts.at(-1) === 2 ? "range" : "95 % interval"}${counts.length > 1 && counts.includes(2) && counts.at(-1) > 2 ? " (of 2: range)" : ""} over ${seeds} seeds${counts.length > 1 ? " (those that made the same run count once, those without a value not)" : ""}` : "one seed");
      const none = groups.filter((group) => group.values[0].mean === null).length;
      if (none) said.push(`no value in ${none} of ${groups.length} cells`);
      this.note.textContent = `${said.join("; ")}. ${new Set(rows.map((row) => this.table.run[row])).size} runs.`;
    }

    second() {
      const wanted = this.settings.second ?? "runs.utilisation";
      return report.measure(wanted) ?? this.table.measures.find((one) => one !== this.measure) ?? this.measure;
    }

    // controls

    control(kind, place) {
      const { settings } = this;
      const select = (label, value, options, act) => {
        const box = element("select", {
          "data-control": label,
          onchange: (event) => {
            act(event.target.value);
            this.draw();
            this.controls.querySelector(`[data-control="${label}"]`)?.focus();
          },
        });
        for (const option of options) {
          if (option.group) {
            const group = element("optgroup", { label: option.group });
            for (const [text, of] of option.options) group.append(element("option", { value: of, selected: of === value }, text));
            box.append(group);
          } else box.append(element("option", { value: option[1], selected: option[1] === value }, option[0]));
        }
        return element("label", {}, `${label} `, box);
      };
      const measures = report.model.tables.map((table) => ({
        group: `of each ${table.of}`,
        options: table.measures.map((one) => [one.label, `${table.name}.${one.name}`]),
      }));
      const axes = place.axes.map((axis) => [axis.name, axis.name]);
      const shown = [
        select("Measure", settings.measure, measures, (value) => {
          settings.measure = value;
          delete settings.log;
        }),
        select("Kind", settings.kind ?? "auto", [[`suits: ${KINDS[kind]}`, "auto"], ...Object.entries(KINDS).map(([key, text]) => [text, key])], (value) => {
          settings.kind = value;
        }),
      ];
      if (kind === "points") {
        const own = [{ group: `of each ${this.table.of}`, options: this.table.measures.map((one) => [one.label, `${this.table.name}.${one.name}`]) }];
        shown.push(select("Against", settings.second ?? "", own, (value) => (settings.second = value)));
      }
      if (axes.length > 1 && place.x) shown.push(select(kind === "dots" ? "Rows" : "Across", place.x?.name ?? "", axes, (value) => {
        if (place.y && value === place.y.name) settings.y = place.x?.name;
        settings.x = value;
      }));
      if (axes.length > 1) {
        const none = kind === "map" ? [] : [["nothing", ""]];
        shown.push(select(kind === "map" ? "Up" : "Colour", place.y?.name ?? "", [...none, ...axes], (value) => {
          if (place.x && value === place.x.name) settings.x = place.y?.name;
          settings.y = value;
        }));
      }
      if (this.number > 1) {
        const remove = () => {
          this.clear();
          this.host.remove();
        };
        shown.push(element("button", { type: "button", class: "quiet", onclick: remove, "aria-label": "Remove this figure" }, "Remove"));
      }
      this.controls.replaceChildren(...shown);
    }

    logBox(isLog) {
      const change = (event) => {
        this.settings.log = event.target.checked;
        this.draw();
        this.controls.querySelector("input")?.focus();
      };
      this.controls.append(element("label", {}, element("input", { type: "checkbox", checked: isLog, onchange: change }), " logarithmic"));
    }

    heads(codes, place) {
      const said = place.facets.map((axis, i) => (axis.texts[codes[i]] === "-" ? "" : report.said(axis, codes[i])));
      return said.filter(Boolean).join(", ");
    }

    open(group, axes) {
      const text = axes.map((axis, i) => report.said(axis, group.codes[i])).join(", ");
      report.open(group.runs, text || "all runs");
    }

    // maps: tables whose cells are buttons, one of them in the order of the Tab key, all by arrows

    maps(shown, groups, place, at) {
      const axes = [place.x, place.y, ...place.facets];
      const values = groups.map((group) => group.values[0].mean).filter((value) => value !== null);
      const least = Math.min(...values);
      const most = Math.max(...values);
      const isLog = least > 0 && most / least > 50;
      const share = (value) => {
        if (most === least) return 0.5;
        return isLog ? Math.log(value / least) / Math.log(most / least) : (value - least) / (most - least);
      };
      const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(most || 1) + 1e-9)));
      // as many decimals in every cell, unless they are of unlike size
      this.printed = (value) => (isLog || most >= 1e5 || most < 0.01 ? report.short(value) : value.toFixed(digits));
      const used = (axis) => [...new Set(groups.map((group) => group.codes[at(axis)]))].sort((a, b) => a - b);
      const columns = used(place.x);
      const lines = used(place.y).reverse();
      const width = Math.max(...columns.map((code) => place.x.texts[code].length), 4);
      this.body.classList.remove("single");
      this.body.style.setProperty("--panel", `${Math.min(90, 6 + columns.length * Math.max(2.6, Math.min(width * 0.55, 9)))}rem`);
      for (const panel of shown) {
        const cells = new Map(panel.groups.map((group) => [`${group.codes[at(place.x)]} ${group.codes[at(place.y)]}`, group]));
        const grid = element("table", { class: "map", role: "grid", "aria-label": `${this.measure.label}: ${this.heads(panel.codes, place) || "all"}` });
        const head = element("tr", {}, element("th", { scope: "col", class: "corner" }));
        for (const code of columns) head.append(element("th", { scope: "col" }, place.x.texts[code]));
        for (const line of lines) {
          const row = element("tr", {}, element("th", { scope: "row" }, place.y.texts[line]));
          for (const column of columns) row.append(this.cell(cells.get(`${column} ${line}`), axes, share));
          grid.append(row);
        }
        grid.append(head);
        grid.querySelector("button")?.setAttribute("tabindex", "0");
        const text = this.heads(panel.codes, place);
        this.body.append(element("figure", { class: "panel" }, text ? element("figcaption", {}, text) : null, element("div", { class: "scroll" }, grid)));
      }
      const stops = [0, 0.25, 0.5, 0.75, 1].map((one) => ramp(one)).join(", ");
      this.legend.append(
        element("span", {}, report.number(least)),
        element("span", { class: "ramp", style: `background: linear-gradient(to right, ${stops})` }),
        element("span", {}, `${report.number(most)}${isLog ? ", logarithmic" : ""}`),
      );
    }

    cell(group, axes, share) {
      const value = group?.values[0];
      if (!group || value.mean === null) {
        return element("td", { class: "none", "aria-label": group ? "no value" : "no run" }, group ? "-" : "");
      }
      const colour = ramp(share(value.mean));
      const text = axes.map((axis, i) => report.said(axis, group.codes[i])).join(", ");
      const button = element(
        "button",
        {
          type: "button", tabindex: "-1", style: `background:${colour};color:${ink(colour)}`,
          "aria-label": `${text}: ${report.withHalf(value)}`,
          "data-runs": group.runs.slice(0, 20).join(" "), "data-value": value.mean,
          onclick: () => this.open(group, axes),
          onpointermove: (event) => dumbbell.tip(this.told(group, axes), event),
          onpointerleave: () => dumbbell.tip(null),
          onkeydown: arrows,
        },
        this.printed(value.mean),
      );
      return element("td", {}, button);
    }

    told(group, axes) {
      const said = Object.fromEntries(axes.map((axis, i) => [axis.name, axis.texts[group.codes[i]]]));
      const value = group.values[0];
      said[this.measure.label] = report.withHalf(value);
      said.runs = String(group.runs.length);
      return said;
    }

    // lines and dots: a chart for each panel

    panels(kind, shown, groups, place, at) {
      const axes = [place.x, place.y, ...place.facets].filter(Boolean);
      const used = place.y ? [...new Set(groups.map((group) => group.codes[at(place.y)]))].sort((a, b) => a - b) : [];
      const series = place.y ? report.coloured(place.y, used) : [];
      const means = groups.map((group) => group.values[0].mean).filter((mean) => mean !== null);
      const ends = groups.flatMap((group) => {
        const { mean, half } = group.values[0];
        return mean === null ? [] : [mean - (half ?? 0), mean + (half ?? 0)];
      });
      const isLog = this.settings.log ?? isWide(means);
      const least = Math.min(...means.filter((mean) => mean > 0));
      let domain = [Math.min(...ends), Math.max(...ends)];
      if (isLog) domain[0] = Math.max(domain[0], least / 2);
      else domain = within(...domain, this.measure);
      if (domain[0] === domain[1]) domain = [Math.min(0, domain[0]), domain[1] || 1];
      else if (!isLog && domain[0] > 0 && domain[0] < domain[1] / 3) domain[0] = 0;
      const scale = { domain, nice: !isLog, zero: false, type: isLog ? "log" : "linear", clamp: true };
      if (least < Infinity && Math.min(...means) > 0) this.logBox(isLog);
      this.body.style.setProperty("--panel", kind === "dots" ? "26rem" : "22rem");
      this.body.classList.toggle("single", shown.length === 1);
      this.swatches(series, kind === "lines");
      const looks = new Map(used.map((code, i) => [code, report.look(series[i].at)]));
      const texts = series.map((one) => one.text);
      for (const panel of shown) {
        const data = panel.groups
          .filter((group) => group.values[0].mean !== null)
          .map((group, i) => {
            const { mean, half } = group.values[0];
            return {
              i, mean, low: Math.max(mean - (half ?? 0), domain[0]), high: Math.min(mean + (half ?? 0), domain[1]), from: mean - (half ?? 0), to: mean + (half ?? 0), group,
              x: kind === "lines" && place.x && isNumeric(place.x) ? place.x.numbers[group.codes[at(place.x)]] : place.x ? place.x.texts[group.codes[at(place.x)]] : "all runs",
              c: place.y ? place.y.texts[group.codes[at(place.y)]] : "", ...(place.y ? looks.get(group.codes[at(place.y)]) : {}),
            };
          })
          .filter((one) => one.x !== null);
        const text = this.heads(panel.codes, place);
        const host = element("div", { class: "chart" });
        this.body.append(element("figure", { class: "panel" }, text ? element("figcaption", {}, text) : null, host));
        const spec = kind === "lines" ? lineSpec(data, place, texts, scale, this.measure) : dotSpec(data, place, texts, scale, this.measure);
        this.chart(host, spec, data, axes, `${this.measure.label}${text ? `: ${text}` : ""}`);
      }
    }

    swatches(series, withLine) {
      for (const { text, at } of series) {
        if (!text) continue;
        const line = withLine ? `<line x1="0" x2="20" y1="8" y2="8" stroke="var(--series-${at % 9})" stroke-width="2" stroke-dasharray="${DASHES[at % 8].join(" ")}"/>` : "";
        this.swatch(`${line}<path d="${PATHS[SHAPES[at % 8]]}" fill="var(--series-${at % 9})"/>`, text);
      }
    }

    swatch(drawing, text) {
      const one = element("span", { class: "swatch" });
      one.innerHTML = `<svg viewBox="0 0 20 16" width="20" height="16" aria-hidden="true">${drawing}</svg>`;
      one.append(text);
      this.legend.append(one);
    }

    // a chart whose points open their runs, by pointer and by keys
    chart(host, spec, data, axes, label) {
      let at = -1;
      const live = element("p", { class: "live", role: "status" });
      const open = (i) => this.open(data[i].group, axes);
      const entry = {};
      const go = (view) => {
        entry.view = view;
        view.addEventListener("click", (_event, item) => {
          if (item?.datum?.i !== undefined && data[item.datum.i]) open(item.datum.i);
        });
        if (at >= 0) view.signal("cursor", at).runAsync();
      };
      host.tabIndex = 0;
      host.setAttribute("role", "group");
      host.setAttribute("aria-roledescription", "chart");
      host.setAttribute("aria-label", `${label}. Arrow keys go from point to point, Enter shows its runs.`);
      host.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) {
          at = (at + step + data.length) % data.length;
          if (at < 0) at = 0;
          live.textContent = Object.entries(this.told(data[at].group, axes)).map(([key, value]) => `${key} ${value}`).join(", ");
          entry.view?.signal("cursor", at).runAsync();
          event.preventDefault();
        } else if (event.key === "Enter" && at >= 0) open(at);
      });
      dumbbell.whenSeen(host, async () => {
        if (!host.isConnected) return;
        const inner = element("div", {});
        host.append(inner);
        host.append(live);
        const chart = await dumbbell.chart(inner, spec, { ready: go, label, name: `${this.measure.name}-${this.number}` });
        this.charts.push(chart);
        host.dataset.points = data.length;
      });
    }

    // one measure against another, a point for each cell: its colour and its shape say which

    points(rows, place) {
      const second = this.second();
      const { axes } = place;
      const groups = report.groups(this.table, [this.measure, second], axes, rows);
      const used = (axis) => (axis ? [...new Set(groups.map((group) => group.codes[axes.indexOf(axis)]))].sort((a, b) => a - b) : []);
      const series = place.y ? report.coloured(place.y, used(place.y)) : [];
      const shapes = used(place.shape);
      const look = (group) => {
        const at = place.y ? series[used(place.y).indexOf(group.codes[axes.indexOf(place.y)])].at : 0;
        const own = report.look(at);
        return place.shape ? { ...own, m: shapes.indexOf(group.codes[axes.indexOf(place.shape)]) } : own;
      };
      const panels = new Map();
      let count = 0;
      for (const group of groups) {
        if (group.values[0].mean === null || group.values[1].mean === null) continue;
        const codes = place.facets.map((axis) => group.codes[axes.indexOf(axis)]);
        const code = codes.join(" ");
        if (!panels.has(code)) panels.set(code, { codes, data: [] });
        const { data } = panels.get(code);
        const text = (axis) => (axis ? axis.texts[group.codes[axes.indexOf(axis)]] : "");
        data.push({ i: data.length, group, x: group.values[0].mean, mean: group.values[1].mean, c: text(place.y), d: text(place.shape), ...look(group) });
        count += 1;
      }
      const by = place.facets.length ? `; a panel for each ${place.facets.map((axis) => axis.name).join(", ")}` : "";
      this.note.textContent = `A point for each cell, ${count} of ${groups.length} with both values${by}.`;
      if (!count) {
        this.body.replaceChildren(element("p", { class: "empty" }, "Nothing to show: no cell has values of both measures."));
        return;
      }
      if (place.shape) {
        for (const { text, at } of series) this.swatch(`<rect x="3" y="3" width="14" height="10" rx="2" fill="var(--series-${at % 9})"/>`, text);
        shapes.forEach((code, i) => this.swatch(`<path d="${PATHS[SHAPES[i]]}" fill="var(--ink)"/>`, report.said(place.shape, code)));
      } else this.swatches(series, false);
      const order = [...panels.values()].sort((a, b) => a.codes.reduce((found, code, i) => found || code - b.codes[i], 0));
      const all = order.flatMap((panel) => panel.data);
      const scales = [scaleOf(all.map((one) => one.x), this.measure), scaleOf(all.map((one) => one.mean), second)];
      const shown = this.all ? order : order.slice(0, FEW_PANELS);
      this.body.style.setProperty("--panel", "26rem");
      this.body.classList.toggle("single", shown.length === 1);
      for (const { codes, data } of shown) {
        const text = this.heads(codes, place);
        const host = element("div", { class: "chart" });
        this.body.append(element("figure", { class: "panel" }, text ? element("figcaption", {}, text) : null, host));
        const spec = pointSpec(data, place, this.measure, second, scales, shown.length > 1 ? 240 : 340);
        this.chart(host, spec, data, axes, `${second.label} against ${this.measure.label}${text ? `: ${text}` : ""}`);
      }
      this.rest(order.length - shown.length, order.length);
    }

    // a button for panels that are not shown
    rest(hidden, of) {
      const all = () => {
        this.all = true;
        this.draw();
      };
      if (hidden > 0) this.more.append(element("button", { type: "button", onclick: all }, `Show all ${of} panels`));
    }
  }

  // specifications of Vega-Lite

  const bare = (data) => ({ values: data.map(({ group, ...rest }) => rest) });
  const COLOUR = { field: "k", type: "nominal", legend: null, scale: { domain: [...Array(9).keys()] } };
  const by = (range) => ({ field: "m", type: "nominal", legend: null, scale: { domain: range.map((_, i) => i), range } });
  const SHAPE = by(SHAPES);
  const cursor = { name: "cursor", value: -1 };
  const size = { condition: { test: "datum.i === cursor", value: 220 }, value: 50 };

  function numericScale(numbers) {
    const positive = numbers.filter((one) => one > 0);
    const least = Math.min(...positive);
    const most = Math.max(...positive);
    if (!positive.length || most / least < 30) return { type: "linear", zero: false, nice: false };
    return positive.length === numbers.length ? { type: "log", nice: false } : { type: "symlog", constant: least, nice: false };
  }

  function lineSpec(data, place, texts, scale, measure) {
    const numbers = [...new Set(data.map((one) => one.x))];
    const x = isNumeric(place.x)
      ? { field: "x", type: "quantitative", title: place.x.label, scale: numericScale(numbers), axis: numbers.length <= 12 ? { values: numbers, labelOverlap: true, labelExpr: "toString(datum.value)" } : {} }
      : { field: "x", type: "ordinal", sort: place.x.texts, title: place.x.label, axis: { labelAngle: -30 } };
    const y = { type: "quantitative", title: measure.label, scale };
    const colour = texts.length ? { color: COLOUR, detail: { field: "c" } } : {};
    const layer = [];
    if (data.some((one) => one.high > one.low)) {
      // bands of many lines would hide each other
      const mark = texts.length <= 3 ? { type: "area", opacity: 0.2, tooltip: null } : { type: "rule", strokeWidth: 1.2, opacity: 0.7, tooltip: null };
      layer.push({ mark, encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, ...colour } });
    }
    const dash = texts.length ? { strokeDash: by(DASHES) } : {};
    layer.push({ mark: { type: "line", tooltip: null }, encoding: { x, y: { ...y, field: "mean" }, ...colour, ...dash } });
    layer.push({
      mark: { type: "point", filled: true, opacity: 1, cursor: "pointer" },
      encoding: { x, y: { ...y, field: "mean" }, size, ...colour, ...(texts.length ? { shape: SHAPE } : {}), tooltip: tips(place, measure, texts) },
    });
    return { width: "container", height: 220, params: [cursor], data: bare(data), layer };
  }

  function tips(place, measure, texts) {
    const found = [{ field: "x", title: place.x?.name ?? "", type: "nominal" }];
    if (texts.length) found.push({ field: "c", title: place.y.name, type: "nominal" });
    return [...found, { field: "mean", title: measure.label, type: "quantitative", format: ".4~g" }, { field: "from", type: "quantitative", format: ".4~g" }, { field: "to", type: "quantitative", format: ".4~g" }];
  }

  function dotSpec(data, place, texts, scale, measure) {
    const sort = place.x ? place.x.texts : null;
    const y = { field: "x", type: "nominal", sort, title: null, axis: { labelLimit: 200, grid: true } };
    const offset = texts.length > 1 ? { yOffset: { field: "c", type: "nominal", scale: { domain: texts } } } : {};
    const x = { type: "quantitative", scale, title: measure.label };
    const colour = texts.length ? { color: COLOUR } : {};
    return {
      width: "container", height: { step: texts.length > 1 ? Math.max(8, 22 / Math.sqrt(texts.length)) : 22 }, params: [cursor], data: bare(data),
      layer: [
        { mark: { type: "rule", strokeWidth: 2, tooltip: null }, encoding: { y, ...offset, x: { ...x, field: "low" }, x2: { field: "high" }, ...colour } },
        {
          mark: { type: "point", filled: true, opacity: 1, cursor: "pointer" },
          encoding: { y, ...offset, x: { ...x, field: "mean" }, size, ...colour, ...(texts.length ? { shape: SHAPE } : {}), tooltip: tips(place, measure, texts) },
        },
      ],
    };
  }

  // the ends of an axis: not below 0 of what is never negative, not above the largest value that there can be
  function within(low, high, measure) {
    const known = measure.values.filter((value) => value !== null);
    const least = known.reduce((found, value) => Math.min(found, value), Infinity);
    const greatest = known.reduce((found, value) => Math.max(found, value), measure.most ?? Infinity);
    return [least >= 0 ? Math.max(0, low) : low, Math.min(high, greatest)];
  }

  function scaleOf(values, measure) {
    const scale = numericScale(values);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    if (scale.type === "log") return { ...scale, domain: [least / 1.15, most * 1.15] };
    const room = 0.05 * (most - least) || 0.05 * Math.abs(most) || 1;
    return { ...scale, domain: within(least - room, most + room, measure) };
  }

  function pointSpec(data, place, first, second, scales, height) {
    const axis = (field, measure, scale) => ({ field, type: "quantitative", title: measure.label, scale });
    const named = [[place.y, "c"], [place.shape, "d"]].filter(([one]) => one).map(([one, field]) => ({ field, title: one.name, type: "nominal" }));
    return {
      width: "container", height, params: [cursor], data: bare(data), mark: { type: "point", filled: true, opacity: 0.8, cursor: "pointer" },
      encoding: {
        x: axis("x", first, scales[0]), y: axis("mean", second, scales[1]), size, color: COLOUR, shape: SHAPE,
        tooltip: [...named, { field: "x", title: first.label, format: ".4~g" }, { field: "mean", title: second.label, format: ".4~g" }],
      },
    };
  }

  function arrows(event) {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!step) return;
    const cell = event.target.closest("td");
    const grid = [...cell.closest("table").rows];
    let row = cell.parentElement.rowIndex;
    let column = cell.cellIndex;
    for (;;) {
      row += step[0];
      column += step[1];
      const next = grid[row]?.cells[column];
      if (!next) break;
      const button = next.querySelector("button");
      if (button) {
        event.target.tabIndex = -1;
        button.tabIndex = 0;
        button.focus();
        break;
      }
    }
    event.preventDefault();
  }

  Object.assign(report, { Figure, DASHES, COLOUR, SHAPE });
})();
