// Changes every field of the controls to another value that it allows, and back. Returns how many changed, and what did not change the file or was refused.
(async () => {
  const faults = [];
  let changed = 0;
  for (const one of document.querySelectorAll(".controls details")) one.open = true;
  const count = document.querySelectorAll(".controls .field").length;
  for (let index = 0; index < count; index++) {
    const fields = () => document.querySelectorAll(".controls .field")[index]?.querySelector("input:not([type=range]), select");
    const field = fields();
    // what changes from a moment on has tests of its own
    if (!field || field.id === "preset" || field.closest(".now")) continue;
    const name = field.closest(".field").textContent.slice(0, 40);
    const before = toml();
    const text = field.value;
    let value;
    if (field.type === "checkbox") value = !field.checked;
    else if (field.tagName === "SELECT") value = [...field.options].map(one => one.value).find(one => one && one !== field.value);
    else {
      const [, number, unit] = /^([0-9.]*)(.*)$/.exec(text);
      value = number && Number(number) > 0 ? `${Math.max(1, Math.floor(Number(number) * 2))}${unit}` : number ? `1${unit || ""}` : "";
      if (unit === "ns") value = "1ms";
      if (unit === "B" && number === "0") value = "1kB";
    }
    if (value === undefined || value === "") continue;
    fill(field, value);
    await settle();
    await new Promise(done => setTimeout(done, 5));
    // a value that needs another one is refused in words that name it
    if (/allowed: .* without /.test(playground.side.refusal?.message)) changed += 1;
    else if (playground.side.refusal) faults.push([name, String(value), playground.side.refusal.message]);
    else if (toml() === before && !document.querySelector(".controls .fault")) faults.push([name, String(value), "nothing changed"]);
    else changed += 1;
    await run(before);
    if (toml() !== before) faults.push([name, "did not go back", toml()]);
  }
  return { changed, faults };
})()
