// The runs of a report in memory: which of them the filters keep, their groups, means and intervals.
"use strict";
const report = (() => {
  let model = null;
  const allowed = new Map(); // of each key the texts that the filters keep; a key that is not there keeps all
  const listeners = [];
  let kept = null; // of each run whether the filters keep it

  async function load() {
    const bytes = await dumbbell.unpacked(document.getElementById("model").textContent);
    model = JSON.parse(new TextDecoder().decode(bytes));
    for (const table of model.tables) {
      for (const axis of table.axes) if (isOfFlows(axis)) axis.texts.forEach(hue);
      table.all = [...model.keys.map((key) => ({ ...key, of: "runs" })), ...table.axes.map((axis) => ({ ...axis, of: "rows" }))];
    }
    for (const key of model.keys) if (isOfFlows(key)) key.texts.forEach(hue);
    return model;
  }

  // colours

  const hues = new Map(); // of each flow and other line its place among the colours: the same all over the page
  const isOfFlows = (axis) => /^(flow|class)$|(^|\.)cc$/.test(axis.name);

  // the place of a control or a queue by its name, with or without parameters: that of every other figure
  const place = (text) => model.places[text.split(/[,(:;]/)[0].toLowerCase().replace(/[-_ .]/g, "")];

  function hue(text) {
    if (!hues.has(text)) {
      // the first of several alike, and their mean, look as all of them together do
      const alike = text.replace(/ #1$|, mean of \d+ flows$/, "");
      const known = / #\d+$/.test(alike) ? undefined : place(alike);
      const used = new Set(hues.values());
      hues.set(text, alike !== text ? hue(alike) : known ?? [...Array(used.size + 1).keys()].find((at) => !used.has(at)));
    }
    return hues.get(text);
  }

  // of values of an axis, whatever the filters leave, their texts and places among the colours
  function coloured(axis, codes) {
    const whole = axis.whole ?? axis.texts;
    const named = whole.length > 0 && whole.every((text) => place(text) !== undefined) && new Set(whole.map(place)).size === whole.length;
    return codes.map((code, i) => ({ text: axis.texts[code], at: isOfFlows(axis) ? hue(whole[code]) : named ? place(whole[code]) : whole.length > 9 ? i : code }));
  }

  // what a row of a chart has of its series: places among colours, and among shapes and dashes
  const look = (at) => ({ k: at % 9, m: at % 8 });

  // keys and filters

  // every key by which runs or their parts differ, once, with all its texts
  function keys() {
    const found = new Map();
    for (const key of model.keys) found.set(key.name, { name: key.name, texts: [...key.texts] });
    for (const table of model.tables) {
      for (const axis of table.axes) {
        const one = found.get(axis.name) ?? { name: axis.name, texts: [], part: true };
        one.texts = [...new Set([...one.texts, ...axis.texts])];
        found.set(axis.name, one);
      }
    }
    return [...found.values()];
  }

  function filter(name, texts) {
    if (texts === null) allowed.delete(name);
    else allowed.set(name, new Set(texts));
    kept = null;
    for (const listener of listeners) listener();
  }

  const filtered = (name) => allowed.get(name) ?? null;
  const whenFiltered = (listener) => listeners.push(listener);

  function runs() {
    if (kept) return kept;
    kept = new Array(model.seed.length).fill(true);
    for (const key of model.keys) {
      const texts = allowed.get(key.name);
      if (!texts) continue;
      const wanted = key.texts.map((text) => texts.has(text));
      key.codes.forEach((code, run) => {
        if (!wanted[code]) kept[run] = false;
      });
    }
    return kept;
  }

  const codeAt = (table, axis, row) => (axis.of === "runs" ? axis.codes[table.run[row]] : axis.codes[row]);

  // the rows of a table that the filters keep
  function rows(table) {
    const keep = runs();
    const wanted = table.axes.map((axis) => {
      const texts = allowed.get(axis.name);
      return texts ? axis.texts.map((text) => texts.has(text)) : null;
    });
    const found = [];
    for (let row = 0; row < table.run.length; row++) {
      if (keep[table.run[row]] && table.axes.every((axis, i) => !wanted[i] || wanted[i][axis.codes[row]])) found.push(row);
    }
    return found;
  }

  // the keys in which rows differ, in the order of the report
  function varying(table, of) {
    return table.all.filter((axis) => of.some((row) => codeAt(table, axis, row) !== codeAt(table, axis, of[0])));
  }

  // groups and means

  // one group for each combination of the axes: its codes, its runs, and for each measure its mean
  function groups(table, measures, axes, of = rows(table)) {
    const found = new Map();
    for (const row of of) {
      const codes = axes.map((axis) => codeAt(table, axis, row));
      const code = codes.join(" ");
      let group = found.get(code);
      if (!group) found.set(code, (group = { codes, rows: [] }));
      group.rows.push(row);
    }
    const order = [...found.values()].sort((a, b) => compared(a.codes, b.codes));
    for (const group of order) {
      group.runs = [...new Set(group.rows.map((row) => table.run[row]))];
      group.values = measures.map((measure) => mean(table, measure, group.rows));
    }
    return order;
  }

  function compared(a, b) {
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return 0;
  }

  // mean over runs with half of its 95 % interval (Student), of two runs half of their range; seeds that made the same
  // run count once
  function mean(table, measure, of) {
    const values = [];
    const hashes = new Set();
    for (const row of of) {
      hashes.add(model.hash[table.run[row]]);
      const value = measure.values[row];
      if (value !== null) values.push(value);
    }
    const none = of.length - values.length;
    if (!values.length) return { mean: null, half: null, n: 0, none };
    const n = hashes.size > 1 ? values.length : 1;
    const middle = values.reduce((sum, value) => sum + value, 0) / values.length;
    if (n < 2) return { mean: middle, half: null, n, none };
    if (n === 2) return { mean: middle, half: (Math.max(...values) - Math.min(...values)) / 2, n, none };
    const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
    const half = ((model.student[n - 2] ?? 1.96) * Math.sqrt(squares / (n - 1))) / Math.sqrt(n);
    return { mean: middle, half, n, none };
  }

  // words

  function number(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return value.toExponential(2);
    if (Math.abs(value) >= 1000) return value.toFixed(0);
    return String(Number(value.toPrecision(4)));
  }

  const short = (value) => {
    if (value === null) return "";
    if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(0);
    return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(Math.abs(value) < 1 ? 2 : 3)));
  };

  // a mean and half of its interval with as many decimals: two digits of the half, or fewer if the mean has fewer
  function withHalf(one) {
    if (one.mean === null) return "-";
    const mean = number(one.mean);
    if (one.half === null) return mean;
    if (one.half === 0) return `${mean} (equal)`;
    if (one.n === 2) return `${mean} (${number(one.mean - one.half)} to ${number(one.mean + one.half)})`;
    if (mean.includes("e")) return `${mean} ± ${one.half.toExponential(1)}`;
    const of = one.mean === 0 ? 4 : Math.max(0, 3 - Math.floor(Math.log10(Math.abs(one.mean))));
    const decimals = Math.max(0, Math.min(of, 1 - Math.floor(Math.log10(one.half))));
    const half = one.half.toFixed(decimals);
    return `${one.mean.toFixed(decimals)} ± ${Number(half) ? half : `<${(10 ** -decimals).toFixed(decimals)}`}`;
  }

  // the parameters in the text of an algorithm: of "red(limit=1kB, min=1kB)" two
  function parameters(text) {
    const open = text.indexOf("(");
    if (open < 1 || !text.endsWith(")")) return { name: text, given: [] };
    const given = [""];
    let depth = 0;
    for (const letter of text.slice(open + 1, -1)) {
      depth += Number(letter === "(") - Number(letter === ")");
      if (letter === "," && !depth) given.push("");
      else given[given.length - 1] += letter;
    }
    return { name: text.slice(0, open), given: given.map((one) => one.trim()) };
  }

  // texts of which those in use leave out the parameters that all of one algorithm have in common
  function brief(texts, used) {
    const found = texts.map(parameters);
    const common = new Map();
    for (const code of used) {
      const { name, given } = found[code];
      const before = common.get(name);
      common.set(name, new Set(before ? given.filter((one) => before.has(one)) : given));
    }
    return texts.map((text, code) => {
      const { name, given } = found[code];
      if (!used.has(code) || !given.length) return text;
      const own = given.filter((one) => !common.get(name).has(one));
      return own.length ? `${name}(${own.join(", ")})` : name;
    });
  }

  // a value with the last word of its key, which an algorithm does not need, and with the first where several keys end so
  function said(axis, code) {
    const word = axis.name.split(".").at(-1);
    const alone = ["aqm", "cc", "link", "flow", "class", "experiment", "results", "engine_version", "kernel", "hop"];
    const text = axis.texts[code];
    if (/\.?cc$/.test(axis.name) && axis.name.includes("[")) return `${axis.name.split(".")[0]} ${text}`;
    const alike = model.keys.filter((key) => key.name.split(".").at(-1) === word).length > 1;
    const whose = alike && axis.name.includes("[") ? `${axis.name.split(".")[0]} ` : "";
    return alone.includes(word) ? text : `${whose}${word.replaceAll("_", " ")} ${text}`;
  }

  const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

  const table = (name) => model.tables.find((one) => one.name === name);

  function measure(place) {
    const [name, column] = place.split(".");
    const of = table(name);
    return of ? of.measures.find((one) => one.name === column) : undefined;
  }

  return {
    load, keys, filter, filtered, whenFiltered, runs, rows, varying, groups, mean, codeAt,
    number, short, withHalf, said, brief, counted, table, measure, hue, coloured, look,
    get model() {
      return model;
    },
  };
})();
