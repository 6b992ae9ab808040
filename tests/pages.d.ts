// What scripts of pages find in the page: the libraries that draw charts, and the function that a part of a report calls.

declare const vega: any;
declare const vegaLite: any;

interface Window {
  dumbbellChunk(number: number, text: string): void;
}
