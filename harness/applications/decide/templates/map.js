"use strict";
// The map of a decision: a slice through its boxes along two axes.  The page contains the data, compressed; all that
// this script writes is text, attributes and pixels.
(async () => {
  const root = document.querySelector("#map");
  if (!root || !globalThis.DecompressionStream) return;
  const data = JSON.parse(document.querySelector("#map-data").content.textContent);
  const { axes, decisions, values } = data, shape = axes.map((axis) => axis.cuts.length - 1);
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, count) => product * count, 1));
  const [sets, allowed, codes] = await Promise.all([data.sets, data.allowed, data.codes].map(unpack));

  async function unpack(text) {
    if (typeof text !== "string") return text;
    const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Sets of decisions of a box: bit d is decision d.
  const allowedOf = (box) => (typeof allowed === "number" ? allowed : allowed[box]);
  const forbiddenOf = (box) =>
    allowed === null ? (sets[box] & (sets[box] - 1) ? sets[box] : 0) : sets[box] & ~allowedOf(box);
  const violated = Uint32Array.from((function* () {
    for (let box = 0; box < sets.length; box++) if (forbiddenOf(box)) yield box;
  })());
  const members = (set) => decisions.map((_, index) => index).filter((index) => (set >> index) & 1);
  const names = (set) => members(set).map((index) => decisions[index]).join(" or ");

  // The number of violated boxes before this one, which is also the number of its witness.
  function rank(box) {
    let low = 0, high = violated.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (violated[middle] < box) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const number = (value) => Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 });
  const degrees = (value) => `${number((value * 180) / Math.PI)}°`;
  const isAngle = (axis) => axes[axis].unit === "rad";
  const tick = (axis, value) => (isAngle(axis) ? degrees(value) : number(value));
  function interval(axis, index) {
    const [low, high] = axes[axis].cuts.slice(index, index + 2);
    const text = `${number(low)} to ${number(high)} ${axes[axis].unit}`;
    return isAngle(axis) ? `${text} (${degrees(low)} to ${degrees(high)})` : text;
  }

  const find = (name) => document.querySelector(`#map-${name}`);
  const [horizontal, vertical, view] = ["horizontal", "vertical", "view"].map(find);
  const sliders = [...root.querySelectorAll("input")], panels = [...root.querySelectorAll("canvas")];
  const place = [...data.start], shown = axes.length > 1 ? [0, 1] : [0];
  const polar = () => view?.value === "polar";
  const boxAt = (indices) => indices.reduce((sum, index, axis) => sum + index * strides[axis], 0);
  const cellAt = (i, j) => boxAt(place.map((index, axis) => (axis === shown[0] ? i : axis === shown[1] ? j : index)));
  const columns = () => shape[shown[0]], rows = () => (shown.length > 1 ? shape[shown[1]] : 1);

  let colours = {}, fills = new Map();
  function readColours() {
    const style = getComputedStyle(root);
    for (const name of ["bad", "panel", "paper", "ink", "soft", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    fills = new Map();
  }

  // One colour for one decision, stripes for several.
  function fill(set) {
    if (fills.has(set)) return fills.get(set);
    const found = members(set).map((index) => colours[`d${index}`]);
    let made = found[0];
    if (found.length > 1) {
      const tile = document.createElement("canvas"), wide = 3 * devicePixelRatio, size = Math.round(wide * found.length);
      tile.width = tile.height = size;
      const context = tile.getContext("2d");
      for (let stripe = 0; stripe < 2 * found.length; stripe++) {
        const left = (stripe * size) / found.length, right = ((stripe + 1) * size) / found.length;
        context.fillStyle = found[stripe % found.length];
        context.beginPath();
        for (const [x, y] of [[left, 0], [right, 0], [right - size, size], [left - size, size]]) context.lineTo(x, y);
        context.fill();
      }
      made = context.createPattern(tile, "repeat");
    }
    fills.set(set, made);
    return made;
  }
  const fillOf = {
    network: (box) => fill(sets[box]),
    allowed: (box) => fill(allowedOf(box)),
    violated: (box) => (forbiddenOf(box) ? colours.bad : colours.panel),
  };

  // Where the cells are, in px of the canvas: a grid, or rings of equal width around the own aircraft, which flies up.
  function layout(canvas) {
    const width = canvas.clientWidth;
    if (polar()) return { width, height: width, x: width / 2, y: width / 2, ring: (width / 2 - 16) / (columns() + 2) };
    const left = 46, height = Math.min(300, 60 + 30 * rows()), cellX = (width - left - 8) / columns();
    return { width, height, left, cellX, cellY: (height - 38) / rows(), bottom: height - 32 };
  }
  function path(context, at, i, j) {
    context.beginPath();
    if (polar()) {
      const [low, high] = axes[1].cuts.slice(j, j + 2).map((theta) => -Math.PI / 2 - theta);
      context.arc(at.x, at.y, (i + 2) * at.ring, low, high, true);
      context.arc(at.x, at.y, (i + 3) * at.ring, high, low);
      context.closePath();
    } else {
      const whole = (length) => Math.round(length * devicePixelRatio) / devicePixelRatio;
      const [x, right] = [i, i + 1].map((column) => whole(at.left + column * at.cellX));
      const [bottom, y] = [j, j + 1].map((row) => whole(at.bottom - row * at.cellY));
      context.rect(x, y, right - x, bottom - y);
    }
  }
  function cellUnder(canvas, event) {
    const at = layout(canvas), frame = canvas.getBoundingClientRect();
    const x = event.clientX - frame.left, y = event.clientY - frame.top;
    if (!polar()) return [Math.floor((x - at.left) / at.cellX), Math.floor((at.bottom - y) / at.cellY)];
    const theta = Math.atan2(at.x - x, at.y - y);
    return [Math.floor(Math.hypot(x - at.x, y - at.y) / at.ring) - 2, axes[1].cuts.findLastIndex((cut) => cut <= theta)];
  }

  function draw(canvas) {
    const at = layout(canvas), context = canvas.getContext("2d"), of = fillOf[canvas.dataset.panel];
    canvas.style.height = `${at.height}px`;
    canvas.width = Math.round(at.width * devicePixelRatio);
    canvas.height = Math.round(at.height * devicePixelRatio);
    context.scale(devicePixelRatio, devicePixelRatio);
    for (let i = 0; i < columns(); i++)
      for (let j = 0; j < rows(); j++) {
        path(context, at, i, j);
        context.fillStyle = context.strokeStyle = of(cellAt(i, j));
        context.fill();
        if (polar()) context.stroke(); // or the ground shows between two sectors
      }
    path(context, at, place[shown[0]], shown.length > 1 ? place[shown[1]] : 0);
    for (const [style, width] of [[colours.paper, 5], [colours.ink, 2]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.stroke();
    }
    context.fillStyle = colours.soft;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    if (polar()) return drawAircraft(context, at);
    const every = (count, room, least) => Math.max(1, Math.ceil((least * count) / room));
    const label = (axis, index, x, y) => context.fillText(tick(axis, axes[axis].cuts[index]), x, y);
    for (let i = 0, step = every(columns(), at.width, 62); i <= columns(); i += step)
      label(shown[0], i, Math.min(at.left + i * at.cellX, at.width - 18), at.bottom + 14);
    const { name, unit } = axes[shown[0]];
    context.fillText(isAngle(shown[0]) ? name : `${name} (${unit})`, (at.left + at.width) / 2, at.height - 4);
    if (shown.length < 2) return;
    context.textAlign = "right";
    for (let j = 0, step = every(rows(), at.height, 28); j <= rows(); j += step)
      label(shown[1], j, at.left - 4, Math.max(10, at.bottom - j * at.cellY + 4));
  }
  function drawAircraft(context, at) {
    context.fillStyle = colours.ink;
    context.beginPath();
    for (const [x, y] of [[0, -7], [5, 6], [0, 3], [-5, 6]]) context.lineTo(at.x + x, at.y + y);
    context.fill();
  }

  function tell(list, entries) {
    list.replaceChildren(...entries.flatMap(([name, text]) => ["dt", "dd"].map((tag, index) => {
      const made = document.createElement(tag);
      made.textContent = index ? text : name;
      return made;
    })));
  }
  function describe() {
    const box = boxAt(place), forbidden = forbiddenOf(box), found = rank(box);
    const entries = axes.map((axis, index) => [axis.name, interval(index, place[index])]);
    entries.push(["Decisions of the network", names(sets[box])]);
    if (allowed !== null) entries.push(["Allowed", names(allowedOf(box))]);
    const reason = allowed === null ? "several decisions" : names(forbidden);
    entries.push(["Result", forbidden ? `violated by ${reason}` : "safe"]);
    if (forbidden) {
      const own = axes.map((axis, index) => axis.first[place[index]] + codes[index * violated.length + found] & 255);
      const value = (code, axis) => `${axes[axis].name} ${values[axis][place[axis] * 256 + code]} ${axes[axis].unit}`;
      entries.push(["Witness", `codes ${own.join(", ")}: ${own.map(value).join(", ")}`]);
    }
    tell(find("box"), entries);
    let count = 0;
    for (let i = 0; i < columns(); i++) for (let j = 0; j < rows(); j++) count += forbiddenOf(cellAt(i, j)) !== 0;
    find("slice").textContent = `${count} of ${columns() * rows()} boxes of this slice are violated.`;
  }

  let frame = 0;
  function update() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      if (polar()) shown.splice(0, 2, 0, 1);
      for (const select of [horizontal, vertical]) if (select) select.parentNode.hidden = polar();
      sliders.forEach((slider, axis) => {
        slider.parentNode.hidden = shown.includes(axis);
        slider.value = place[axis];
        slider.previousElementSibling.textContent = interval(axis, place[axis]);
        slider.setAttribute("aria-valuetext", interval(axis, place[axis]));
      });
      [horizontal, vertical].forEach((select, side) => select && (select.value = shown[side]));
      panels.forEach(draw);
      describe();
    });
  }

  // To a cell of the slice; one beyond its border is no cell.
  function select(i, j) {
    if (i < 0 || j < 0 || i >= columns() || j >= rows()) return;
    place[shown[0]] = i;
    if (shown.length > 1) place[shown[1]] = j;
    update();
  }
  function jump(step) {
    const from = rank(boxAt(place)), here = violated[from] === boxAt(place);
    const to = violated[(from + (step > 0 && !here ? 0 : step) + violated.length) % violated.length];
    strides.forEach((stride, axis) => (place[axis] = Math.floor(to / stride) % shape[axis]));
    update();
  }

  sliders.forEach((slider, axis) => slider.addEventListener("input", () => {
    place[axis] = Number(slider.value);
    update();
  }));
  [horizontal, vertical].forEach((select, side) => select?.addEventListener("change", () => {
    const chosen = Number(select.value);
    if (shown[1 - side] === chosen) shown[1 - side] = shown[side];
    shown[side] = chosen;
    update();
  }));
  view?.addEventListener("change", update);
  [["previous", -1], ["next", 1]].forEach(([name, step]) => {
    find(name).disabled = !violated.length;
    find(name).addEventListener("click", () => jump(step));
  });
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  for (const canvas of panels) {
    for (const kind of ["pointermove", "pointerdown"])
      canvas.addEventListener(kind, (event) => select(...cellUnder(canvas, event)));
    canvas.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      select(place[shown[0]] + move[0], (shown.length > 1 ? place[shown[1]] : 0) + move[1]);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (readColours(), update()));
  new ResizeObserver(update).observe(root);

  find("missing").hidden = true;
  root.hidden = false;
  readColours();
  update();
})();
