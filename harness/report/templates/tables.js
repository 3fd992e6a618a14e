"use strict";
// Sort tables by a column and filter their rows; without this script they are whole and in their own order.  All that
// it reads is text, and all that it writes is text, attributes and the order of rows.
(() => {
  const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 };
  const FILTERED = 6; // rows from which a table has a filter

  function element(name, attributes, text = "") {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  // A number, with a unit of time if it has one, else the text.
  function valueOf(cell) {
    const text = cell ? cell.textContent.trim() : "";
    const found = text.replaceAll(",", "").match(/^([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(ns|µs|ms|s|min|h)?(?=\s|%|$)/);
    return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) : text;
  }

  function compare(one, other) {
    const numbers = [one, other].map((value) => typeof value === "number");
    if (numbers[0] && numbers[1]) return one - other;
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return one.localeCompare(other, "en", { numeric: true });
  }

  function equip(table) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const orders = ["none", "ascending", "descending"];
    const choice = element("select", { "aria-label": "Sort by" });
    choice.append(element("option", { value: "" }, "Own order"));

    function sort(column, order) {
      heads.forEach((head, index) => head.setAttribute("aria-sort", index === column ? order : "none"));
      const sign = order === "descending" ? -1 : 1;
      const sorted = order === "none" ? rows : [...rows].sort(
        (one, other) => sign * compare(valueOf(one.cells[column]), valueOf(other.cells[column])));
      body.append(...sorted);
    }

    heads.forEach((head, column) => {
      const name = head.textContent.trim();
      if (!name) return;
      const button = element("button", { type: "button", title: `Sort by ${name}` }, name);
      button.addEventListener("click", () =>
        sort(column, orders[(orders.indexOf(head.getAttribute("aria-sort") ?? "none") + 1) % orders.length]));
      head.replaceChildren(button);
      for (const order of orders.slice(1))
        choice.append(element("option", { value: `${column} ${order}` }, `${name}, ${order}`));
    });
    choice.addEventListener("change", () => {
      const [column, order] = choice.value.split(" ");
      sort(Number(column || -1), order ?? "none");
    });

    if (rows.length < FILTERED) return;
    const filter = element("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows" });
    const count = element("output", { class: "soft" });
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    });
    const tools = element("div", { class: "table-tools" });
    tools.append(filter, choice, count);
    (table.closest(".scroll") ?? table).before(tools);
  }

  for (const table of document.querySelectorAll("table.sortable")) equip(table);
})();
