// What every page has: data, colours, charts. A page's own scripts use the object `dumbbell`.
//
//   dumbbell.data(name)                 the JSON of an element
//   dumbbell.unpacked(text)             a promise of the bytes behind compressed base64
//   dumbbell.chart(element, spec, how)  draws Vega or Vega-Lite, with tooltips, in the colours of the page, and again when
//                                       these change; a promise of { view, finalize() }. `how.name` adds buttons that save
//                                       the picture under this name, `how.ready(view)` is called after each drawing,
//                                       `how.renderer` is "canvas" or "svg", `how.label` says to a screen reader what it is
//   dumbbell.tip(value, event)          shows text or an object as a tooltip near a pointer; null hides it
//   dumbbell.colour(name)               the value of a CSS variable such as "--ink"
//   dumbbell.whenSeen(element, act)     calls once: when the element comes near the window, there is nothing else to do, or
//                                       the page is printed
//   dumbbell.element(tag, attributes, ...children)
//   dumbbell.save(name, content, type)  offers text or bytes as a download
"use strict";
const dumbbell = (() => {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set(); // charts, which are drawn again when the colours change

  function data(name) {
    return JSON.parse(document.getElementById(name).textContent);
  }

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  function save(name, content, type) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // colours

  function isDark() {
    if ("paper" in root.dataset) return false;
    return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
  }

  const probe = element("span", { hidden: true });
  document.body.append(probe);
  function colour(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

  function config() {
    const ink = colour("--ink");
    const soft = colour("--soft");
    const line = colour("--line");
    const font = getComputedStyle(document.body).fontFamily;
    const text = { labelColor: ink, titleColor: ink, labelFont: font, titleFont: font, titleFontWeight: 600 };
    const category = [...Array(9).keys()].map((i) => colour(`--series-${i}`));
    return {
      background: "transparent",
      font,
      axis: { ...text, labelFontSize: 12, titleFontSize: 12, gridColor: line, domainColor: soft, tickColor: soft, labelLimit: 240, labelSeparation: 6, labelFlush: false },
      legend: { ...text, labelFontSize: 12, titleFontSize: 12, labelLimit: 320, symbolLimit: 60 },
      header: { ...text, labelFontSize: 12, titleFontSize: 12, labelLimit: 320 },
      title: { color: ink, subtitleColor: soft, font, fontSize: 13, anchor: "start" },
      view: { stroke: line },
      mark: { tooltip: { content: "encoding" } },
      line: { strokeWidth: 1.6 },
      text: { color: ink, font },
      rule: { color: soft },
      range: { category, heatmap: { scheme: "viridis" }, ramp: { scheme: "viridis" } },
    };
  }

  // colours of lines in a specification are those of light pages: the theme's take their places
  const LIGHT = ["#0072B2", "#E69F00", "#009E73", "#222222", "#56B4E9", "#CC79A7", "#D55E00", "#882255", "#999999"];
  function paint(part) {
    for (const [key, inner] of Object.entries(part)) {
      if (key === "range" && Array.isArray(inner)) part[key] = inner.map((one) => (LIGHT.includes(one) ? colour(`--series-${LIGHT.indexOf(one)}`) : one));
      else if (key !== "data" && inner && typeof inner === "object") paint(inner);
    }
  }

  // tooltips

  const tip = element("div", { class: "tip", role: "status", hidden: true });
  document.body.append(tip);
  function showTip(value, event) {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    tip.replaceChildren();
    if (typeof value === "object" && !Array.isArray(value)) {
      const rows = Object.entries(value).map(([key, one]) => element("tr", {}, element("th", {}, key), element("td", {}, String(one))));
      tip.append(element("table", {}, ...rows));
    } else {
      tip.append(String(value));
    }
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? Math.max(4, event.clientX - width - 14) : event.clientX + 14;
    const top = event.clientY + 14 + height > innerHeight ? Math.max(4, event.clientY - height - 14) : event.clientY + 14;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  }
  const hideTip = () => (tip.hidden = true);
  addEventListener("scroll", hideTip, { passive: true, capture: true });
  addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

  // charts

  async function chart(place, spec, how = {}) {
    const canvas = element("div", { class: "canvas" });
    place.replaceChildren(canvas);
    const one = { view: null, finalize: null };
    const lite = !String(spec.$schema ?? "vega-lite").includes("/vega/");
    if (how.label) canvas.setAttribute("aria-label", how.label);

    function made(of, host) {
      // the configuration of the spec comes before the page's
      const own = vega.mergeConfig(config(), of.config ?? {});
      const compiled = lite ? vegaLite.compile(of, { config: own }).spec : of;
      if (lite) paint(compiled);
      const runtime = vega.parse(compiled, lite ? undefined : own);
      return new vega.View(runtime, { renderer: host ? (how.renderer ?? "canvas") : "none", logLevel: vega.Error, hover: true });
    }

    async function draw() {
      one.view?.finalize();
      canvas.replaceChildren();
      one.view = made(spec, canvas);
      one.view.tooltip((_handler, event, _item, value) => showTip(value, event)).initialize(canvas);
      await one.view.runAsync();
      how.ready?.(one.view);
    }

    one.finalize = () => {
      drawn.delete(draw);
      one.view?.finalize();
      place.replaceChildren();
    };
    drawn.add(draw);
    await draw();
    if (how.name) {
      // pictures are light, whatever the page is: they end up in papers
      const saveAs = (kind) => async () => {
        const theme = root.dataset.theme;
        root.dataset.theme = "light";
        const width = spec.width === "container" ? { width: canvas.clientWidth } : {};
        const view = made({ ...spec, ...width, background: "white" }, null);
        if (theme) root.dataset.theme = theme;
        else delete root.dataset.theme;
        await view.runAsync();
        if (kind === "SVG") save(`${how.name}.svg`, await view.toSVG(), "image/svg+xml");
        else element("a", { href: await view.toImageURL("png", 3), download: `${how.name}.png` }).click();
        view.finalize();
      };
      const button = (kind) => element("button", { type: "button", class: "quiet", onclick: saveAs(kind), "aria-label": `Save as ${kind}` }, kind);
      place.append(element("div", { class: "saves" }, button("SVG"), button("PNG")));
    }
    return one;
  }

  let isInDark = isDark(); // as the charts were drawn
  async function redraw() {
    isInDark = isDark();
    hideTip();
    for (const draw of [...drawn]) await draw();
  }

  // what is not seen yet waits; it is drawn bit by bit while there is nothing else to do, and at once before printing,
  // for whoever prints a page or takes a picture of it does not scroll
  const waiting = new Map(); // element → what to do
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) go(entry.target);
    },
    { rootMargin: "300px" },
  );
  let isIdle = false;

  function whenSeen(target, act) {
    if (waiting.has(target)) waiting.get(target).push(act);
    else waiting.set(target, [act]);
    seen.observe(target);
    whenIdle();
  }

  function go(target) {
    const acts = waiting.get(target) ?? [];
    waiting.delete(target);
    seen.unobserve(target);
    for (const act of acts) act();
  }

  function whenIdle() {
    if (isIdle) return;
    isIdle = true;
    (window.requestIdleCallback ?? ((act) => setTimeout(act, 200)))(() => {
      isIdle = false;
      const next = waiting.keys().next();
      if (next.done) return;
      go(next.value);
      whenIdle();
    });
  }

  let isOnPaper = false;
  addEventListener("beforeprint", () => {
    // paper is light, and a chart keeps the colours in which it was drawn
    isOnPaper = isInDark;
    if (isOnPaper) {
      root.dataset.paper = "";
      redraw();
    }
    // figures that are drawn have charts, which wait in turn
    while (waiting.size) go(waiting.keys().next().value);
  });
  addEventListener("afterprint", () => {
    if (!isOnPaper) return;
    isOnPaper = false;
    delete root.dataset.paper;
    redraw();
  });

  // the switch between light and dark

  const button = document.getElementById("theme");
  const name = () => (button.textContent = isDark() ? "Light" : "Dark");
  if (button) {
    name();
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("dumbbell-theme", root.dataset.theme);
      } catch {
        // a browser that keeps nothing for files
      }
      name();
      redraw();
    });
  }
  prefersDark.addEventListener("change", () => {
    if (root.dataset.theme) return;
    if (button) name();
    redraw();
  });

  return { data, unpacked, element, save, colour, isDark, config, chart, tip: showTip, redraw, whenSeen };
})();
