// The value of this script: what is wrong with the layout of a page, as sentences.
(() => {
  const parse = color => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const blend = (top, below) => top.slice(0, 3).map((one, i) => one * top[3] + below[i] * (1 - top[3]));
  const backdrop = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3]) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => blend(layer, below), [255, 255, 255]);
  };
  // WCAG 2.2: relative luminance, contrast ratio
  const luminance = rgb => {
    const [r, g, b] = rgb.map(one => one / 255).map(one => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // colours change without a transition
  document.head.appendChild(document.createElement("style")).textContent = "* { transition: none !important }";
  const contrast = element => {
    const below = backdrop(element);
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const color = parse(getComputedStyle(element).color);
    const [light, dark] = [luminance(blend([...color.slice(0, 3), color[3] * opacity], below)), luminance(below)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const found = new Map();
  const name = element => `${element.tagName.toLowerCase()}${[...element.classList].map(one => `.${one}`).join("")}`;
  const note = (kind, element) => found.set(`${kind} ${name(element)}`, element.textContent.trim().slice(0, 40));
  const article = document.querySelector("article") || document.body;
  const plain = article.querySelector(":scope > p");
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || element.closest("svg, script, style, .headerlink, button")) continue;
    seen.add(element);
    if (!element.getClientRects().length) continue;
    const ratio = contrast(element);
    if (ratio < 4.5) note(`contrast ${ratio.toFixed(1)}`, element);
    if (plain && /^H[1-6]$/.test(element.tagName) && ratio < contrast(plain) - 0.1) note("lighter than text:", element);
  }
  for (const element of article.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    if (element.closest("svg, math") || element.scrollWidth <= element.clientWidth + 1 || !element.clientWidth) continue;
    if (["hidden", "clip"].includes(style.overflowX)) note("cut:", element);
  }
  return [...found].map(([what, text]) => `${what} "${text}"`);
})()
