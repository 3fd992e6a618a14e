// Show the nodes whose text has every word; a hexadecimal address finds the function or table that holds it.
(() => {
  const search = document.getElementById("search"), found = document.getElementById("found");
  const parts = [...document.querySelectorAll(".traced")];

  function holds(part, word) {
    const at = /^0x[0-9a-f]+$/.test(word) ? Number(word) : NaN;
    const text = part.textContent.toLowerCase();
    if (text.includes(word)) return true;
    return [...text.matchAll(/(0x[0-9a-f]+)-(0x[0-9a-f]+)/g)].some((range) => Number(range[1]) <= at && at < Number(range[2]));
  }

  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of parts) part.hidden = !words.every((word) => holds(part, word));
    const shown = parts.filter((part) => !part.hidden).length;
    found.textContent = words.length ? `${shown} of ${parts.length} nodes` : "";
  });
})();
