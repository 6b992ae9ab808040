// Starts the first worker, which unpacks and compiles the engine's module while the browser still reads the program of the page.

import type { Reply, Request } from "./messages";

/** What the program of the page takes over. */
export interface Started {
  worker: Worker;
  /** Answers that came before the program did. */
  replies: MessageEvent<Reply>[];
  /** Where further workers find their program. */
  address: string;
}

declare global {
  var started: Started;
}

const read = (id: string) => document.getElementById(id)!.textContent;
const address = URL.createObjectURL(new Blob([read("worker")], { type: "text/javascript" }));
const worker = new Worker(address);
const replies: MessageEvent<Reply>[] = [];
worker.onmessage = (event) => replies.push(event);
worker.postMessage({ kind: "load", module: read("module") } satisfies Request);
globalThis.started = { worker, replies, address };
