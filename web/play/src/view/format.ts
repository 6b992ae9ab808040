// Numbers and colours of the page.

/** Colours of flows: those of the figures of dumbbell, in its order, light or dark with the page. */
const FLOW_COLOURS = 8;

export function colourOf(flow: number): string {
  return `var(--series-${flow % FLOW_COLOURS})`;
}

/** The values of the page's custom properties, for canvases: they are looked up once for each theme. */
class Palette {
  #known = new Map<string, string>();
  #probe: HTMLElement | null = null;

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.clear());
  }

  clear(): void {
    this.#known.clear();
  }

  get(name: string): string {
    const known = this.#known.get(name);
    if (known) return known;
    if (!this.#probe) {
      this.#probe = document.createElement("i");
      this.#probe.hidden = true;
      document.body.append(this.#probe);
    }
    this.#probe.style.color = `var(--${name})`;
    const { color } = getComputedStyle(this.#probe);
    this.#known.set(name, color);
    return color;
  }

  flow(flow: number): string {
    return this.get(`series-${flow % FLOW_COLOURS}`);
  }
}

export const palette = new Palette();

export function formatNumber(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-GB").replace(/,/g, "\u202f");
  return Number(value.toPrecision(digits)).toString();
}

export function formatTime(ms: number): string {
  return `${(ms / 1000).toFixed(3)} s`;
}
