// One interactive figure: sliders and lists for what its specification chooses from, and its size.
"use strict";
(() => {
  const spec = dumbbell.data("spec");
  const place = document.getElementById("chart");
  const form = document.getElementById("controls");
  const chosen = {}; // signal → value, kept when the figure is drawn again
  let view = null;
  let drawn = null; // the specification in the size of the window

  // a parameter that a list would bind gets a control of this page: a slider for numbers
  for (const param of spec.params ?? []) {
    if (!param.bind?.options) continue;
    const { options, labels, name } = param.bind;
    const numbers = spec.usermeta.sliders.includes(param.name);
    delete param.bind;
    chosen[param.name] = param.value;
    const choose = (value) => {
      chosen[param.name] = value;
      if (drawn) drawn.params.find((one) => one.name === param.name).value = value; // for pictures that are saved
      view?.signal(param.name, value).runAsync();
    };
    const id = `choose-${param.name}`;
    const label = dumbbell.element("label", { for: id }, name.replace(/: $/, ""));
    if (numbers) {
      const said = dumbbell.element("output", { for: id }, labels[0]);
      const slider = dumbbell.element("input", { id, type: "range", min: 0, max: options.length - 1, step: 1, value: 0, "aria-valuetext": labels[0] });
      slider.addEventListener("input", () => {
        const place = Number(slider.value);
        said.textContent = labels[place];
        slider.setAttribute("aria-valuetext", labels[place]);
        choose(options[place]);
      });
      form.append(dumbbell.element("span", { class: "control" }, label, slider, said));
    } else {
      const list = dumbbell.element("select", { id, onchange: (event) => choose(event.target.value) }, ...options.map((text, i) => dumbbell.element("option", { value: text }, labels[i])));
      form.append(dumbbell.element("span", { class: "control" }, label, list));
    }
    form.hidden = false;
  }
  form.addEventListener("submit", (event) => event.preventDefault());

  // the width of the window is that of the figure; narrow windows have panels one below another
  function fit(room) {
    const one = structuredClone(spec);
    const { most = 1200, left = 100 } = spec.usermeta; // px of a figure, and of what is to the left of its panels
    const legends = (part) => {
      for (const [key, inner] of Object.entries(part)) {
        if (key === "legend" && inner?.columns) inner.columns = Math.max(2, Math.min(inner.columns, Math.floor(room / 135)));
        else if (key !== "data" && inner && typeof inner === "object") legends(inner);
      }
    };
    const walk = (part, width) => {
      for (const inner of part.vconcat ?? []) walk(inner, width);
      if (part.concat) {
        const columns = width < 640 ? 1 : Math.min(part.columns ?? 1, part.concat.length);
        part.columns = columns;
        for (const inner of part.concat) walk(inner, width / columns);
      } else if (part.facet) {
        const inside = Math.min(most * (part.columns ?? 1), width) - left;
        part.columns = Math.max(1, Math.min(part.columns ?? 1, Math.floor(inside / 200)));
        part.spec.width = Math.max(140, Math.floor(inside / part.columns) - 24);
      } else if (part.width) {
        const bar = JSON.stringify(part.layer ?? part).includes('"format":".3~g"') ? 110 : 0; // of the colours of a map
        part.width = Math.max(150, Math.min(most, Math.floor(width)) - left - bar);
      }
    };
    walk(one, room);
    legends(one);
    return one;
  }

  let width = 0;
  async function draw() {
    width = place.clientWidth;
    drawn = fit(Math.min(width, 1200));
    await dumbbell.chart(place, drawn, {
      name: document.title,
      label: document.title,
      ready(now) {
        view = now;
        for (const [name, value] of Object.entries(chosen)) view.signal(name, value);
        view.runAsync();
        dumbbell.view = view; // for the console
      },
    });
  }
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => Math.abs(place.clientWidth - width) > 20 && draw(), 200);
  });
  draw();
})();
