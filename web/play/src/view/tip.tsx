// Explanations of terms: a tip appears while its term is pointed at or has the focus, and stays when it is tapped.

import type { ComponentChildren } from "preact";
import { GLOSSARY } from "../glossary";

/** A term with the sentence that explains it. `text` replaces the sentence of the glossary. */
export function Term({ word, text, children }: { word?: string; text?: string; children: ComponentChildren }) {
  const said = text ?? GLOSSARY[word ?? String(children)];
  if (!said) return <>{children}</>;
  return (
    <button type="button" class="term" data-tip={said}>
      {children}
    </button>
  );
}

/** Words of lessons, and the words of the glossary that explain them. */
const EXPLAINED: [RegExp, string][] = [
  [/bandwidth-delay products?/, "BDP"],
  [/slow start/, "slow start"],
  [/round[- ]trips?(?: times?)?/, "RTT"],
  [/ACKs?/, "ACK"],
  [/windows?/, "congestion window, cwnd"],
  [/segments?/, "segment"],
  [/goodputs?/, "goodput, throughput"],
  [/FIFO/, "FIFO, tail drop"],
  [/ECN/, "ECN"],
  [/L4S/, "L4S"],
  [/CUBIC/, "CUBIC"],
  [/Reno/, "Reno"],
  [/HyStart/, "HyStart"],
];

/** A text in which the first place of each known word explains it. */
export function Explained({ text }: { text: string }) {
  const parts: ComponentChildren[] = [];
  const known = new Set<string>();
  const any = new RegExp(`\\b(${EXPLAINED.map(([words]) => words.source).join("|")})\\b([.,:;)]*)`, "g");
  let last = 0;
  for (const match of text.matchAll(any)) {
    const [, found, rest] = match as unknown as [string, string, string];
    const [, word] = EXPLAINED.find(([words]) => new RegExp(`^(?:${words.source})$`).test(found))!;
    if (known.has(word)) continue;
    known.add(word);
    // no line begins with the comma behind a term
    parts.push(
      text.slice(last, match.index),
      <span class="joined">
        <Term word={word}>{found}</Term>
        {rest}
      </span>,
    );
    last = match.index + match[0].length;
  }
  return (
    <>
      {parts}
      {text.slice(last)}
    </>
  );
}

/** Shows the tips of the document. */
export function installTips(): void {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  let owner: HTMLElement | null = null;
  const hide = () => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  const show = (event: Event) => {
    const target = (event.target as Element | null)?.closest?.<HTMLElement>("[data-tip]");
    if (!target) return event.type === "pointerover" ? undefined : hide();
    if (target === owner) return;
    hide();
    owner = target;
    target.setAttribute("aria-describedby", "tip");
    tip.textContent = target.dataset["tip"]!;
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    const below = box.bottom + 6;
    tip.style.top = `${below + own.height > innerHeight ? Math.max(4, box.top - own.height - 6) : below}px`;
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("pointerout", (event) => {
    if (owner && event.target === owner && document.activeElement !== owner) hide();
  });
  document.addEventListener("focusin", show);
  document.addEventListener("focusout", hide);
  document.addEventListener("click", show);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
