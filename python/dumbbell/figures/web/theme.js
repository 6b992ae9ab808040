// Runs before anything is shown: the colours that the reader chose last time.
"use strict";
try {
  const chosen = localStorage.getItem("dumbbell-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // a browser that keeps nothing for files
}
