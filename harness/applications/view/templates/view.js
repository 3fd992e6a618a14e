"use strict";
// Draw a network whose layout is in the page's data.  Texts of files are written as text and attributes, never as HTML.
//
// A group has a layout of its own, in which it is collapsed.  Where an inner group is expanded, the coordinates around
// it are stretched: the order of all boxes along both axes is kept, so no box can meet another.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const VERTEX = 0, GROUP = 1, PORT_IN = 2, PORT_OUT = 3;
  const PAD = 14, TITLE = 26; // of the frame of an expanded group
  const FAR = 0.28; // scale below which no text can be read
  const LISTED = 200; // results of a search
  const MOST_PIXELS = 1 << 26; // of an exported picture
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const stage = by("stage"), panel = by("facts"), results = by("results"), search = by("search");

  function svg(name, attributes, ...content) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  }

  function html(name, attributes, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  }

  function link(text, act) {
    const made = html("button", { class: "link", type: "button" }, text);
    made.addEventListener("click", act);
    return made;
  }

  // State.
  let graph = data.graphs[0], grouping = graph.groupings[0], homes = new Map(), writers = new Map(), readers = new Map();
  let scene = null, selected = null, view = { x: 0, y: 0, scale: 1 };
  const expanded = new Set();

  function prepare(level, parent) {
    level.parent = parent;
    for (const [kind, index] of level.boxes) if (kind === VERTEX) homes.set(index, level);
    for (const inner of level.levels) prepare(inner, level);
  }

  function choose(newGraph, newGrouping) {
    graph = newGraph;
    grouping = newGrouping;
    homes = new Map(), writers = new Map(), readers = new Map();
    expanded.clear();
    selected = null;
    prepare(grouping.root, null);
    graph.nodes.forEach((node, index) => {
      for (const tensor of node.writes ?? []) if (!writers.has(tensor)) writers.set(tensor, index);
      for (const tensor of node.reads ?? []) readers.set(tensor, [...(readers.get(tensor) ?? []), index]);
    });
    if (graph.nodes.length <= data.expanded) expandAll(grouping.root);
    lists();
    arrange();
    fit();
    about();
  }

  function expandAll(level) {
    for (const inner of level.levels) {
      expanded.add(inner);
      expandAll(inner);
    }
  }

  // The map of a coordinate that leaves room for spans (low, middle, high, needed), the middle of each kept in the middle.
  function stretched(spans) {
    if (!spans.length) return (value) => value;
    const points = [...new Set(spans.flatMap((span) => span.slice(0, 3)))].sort((a, b) => a - b);
    const place = new Map(points.map((point, index) => [point, index]));
    const ending = points.map(() => []);
    for (const [low, middle, high, needed] of spans) {
      ending[place.get(middle)].push([place.get(low), needed / 2]);
      ending[place.get(high)].push([place.get(middle), needed / 2]);
    }
    const moved = [points[0]];
    for (let index = 1; index < points.length; index++) {
      moved[index] = moved[index - 1] + points[index] - points[index - 1];
      for (const [start, needed] of ending[index]) moved[index] = Math.max(moved[index], moved[start] + needed);
    }
    const last = points.length - 1;
    return (value) => {
      if (value <= points[0]) return value;
      if (value >= points[last]) return value + moved[last] - points[last];
      let low = 0, high = last;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (points[middle] <= value) low = middle;
        else high = middle;
      }
      const share = (value - points[low]) / (points[high] - points[low]);
      return moved[low] + share * (moved[high] - moved[low]);
    };
  }

  // The places of a level with what is expanded in it, from (0, 0).
  function placed(level) {
    const [width, height, middles, sizes, paths] = data.layouts[level.layout];
    const inner = new Map();
    const across = [], along = [];
    level.boxes.forEach(([kind, index], number) => {
      if (kind !== GROUP || !expanded.has(level.levels[index])) return;
      const found = placed(level.levels[index]), [x, y] = middles[number], [w, h] = sizes[number];
      inner.set(number, found);
      across.push([x - w / 2, x, x + w / 2, Math.max(found.width + 2 * PAD, 180)]);
      along.push([y - h / 2, y, y + h / 2, found.height + 2 * PAD + TITLE]);
    });
    const fx = stretched(across), fy = stretched(along);
    return { level, width: fx(width), height: fy(height), middles, sizes, paths, inner, fx, fy };
  }

  // All that is drawn, in the coordinates of the picture: frames and boxes, wires, labels of tensors.
  function flattened(found, left, top, into) {
    const { level, middles, sizes, paths, inner, fx, fy } = found;
    const at = middles.map(([x, y]) => [left + fx(x), top + fy(y)]);
    level.boxes.forEach(([kind, index], number) => {
      const [w, h] = sizes[number], [x, y] = middles[number];
      if (inner.has(number)) {
        const low = [left + fx(x - w / 2), top + fy(y - h / 2)], high = [left + fx(x + w / 2), top + fy(y + h / 2)];
        const group = level.levels[index], content = inner.get(number);
        into.frames.push({ level: group, x: low[0], y: low[1], w: high[0] - low[0], h: high[1] - low[1] });
        const spare = [high[0] - low[0] - content.width, high[1] - low[1] - content.height - TITLE];
        flattened(content, low[0] + spare[0] / 2, low[1] + TITLE + spare[1] / 2, into);
      } else {
        const box = { kind, index, level, x: at[number][0] - w / 2, y: at[number][1] - h / 2, w, h };
        into.boxes.push(box);
        if (kind === VERTEX) into.of.set(index, box);
        if (kind === GROUP) into.groups.set(level.levels[index], box);
      }
    });
    const carried = new Map(level.wires.map(([from, to, tensors]) => [`${from} ${to}`, tensors]));
    const labelled = new Map();
    for (const [from, to, ...points] of paths) {
      const tensors = carried.get(`${from} ${to}`);
      const end = (box, x, y) => (inner.has(box) ? null : [at[box][0] + x - middles[box][0], at[box][1] + y - middles[box][1]]);
      const moved = points.map((value, index) => (index % 2 ? top + fy(value) : left + fx(value)));
      const start = end(from, points[0], points[1]) ?? moved.slice(0, 2), tip = end(to, points.at(-2), points.at(-1)) ?? moved.slice(-2);
      const wire = { tensors, moved, start, tip, up: points.at(-1) < points.at(-3), x: start[0], y: start[1], x2: start[0], y2: start[1] };
      for (let index = 0; index < moved.length; index += 2) {
        wire.x = Math.min(wire.x, moved[index]), wire.x2 = Math.max(wire.x2, moved[index]);
        wire.y = Math.min(wire.y, moved[index + 1]), wire.y2 = Math.max(wire.y2, moved[index + 1]);
      }
      into.wires.push(wire);
      labelled.set(from, [...(labelled.get(from) ?? []), ...tensors]);
    }
    for (const [number, tensors] of labelled) {
      if (inner.has(number)) continue;
      into.labels.push({ x: at[number][0] + 8, y: at[number][1] + sizes[number][1] / 2, tensors: [...new Set(tensors)] });
    }
  }

  // From the border of a box that keeps its size to where the stretched curve begins, and the same at its end.
  function pathOf({ moved, start, tip }) {
    const number = (value) => Math.round(value * 10) / 10, points = moved.map(number);
    const ends = [start, tip].map((end) => end.map(number).join(" "));
    return `M${ends[0]}L${points[0]} ${points[1]}C${points.slice(2).join(" ")}L${ends[1]}`;
  }

  function arrange() {
    const found = placed(grouping.root);
    scene = { width: found.width, height: found.height, frames: [], boxes: [], wires: [], labels: [], of: new Map(), groups: new Map(), drawn: new Map() };
    flattened(found, 0, 0, scene);
    root.replaceChildren();
    layers = ["frames", "wires", "boxes", "labels"].map((name) => root.appendChild(svg("g", { class: name })));
    mode = "";
    schedule();
  }

  // Elements.
  const shortened = (text, width) => {
    const most = Math.floor((width - 16) / 7);
    return text.length <= most ? text : `…${text.slice(1 - most)}`;
  };

  function boxElement(box) {
    const made = svg("g", { transform: `translate(${box.x} ${box.y})` });
    const body = (name, extra = "") => {
      made.setAttribute("class", `box ${extra}`);
      made.append(svg("rect", { class: "body", width: box.w, height: box.h }));
      made.append(svg("text", { class: "name", x: 8, y: 17 }, shortened(name, box.w)));
    };
    if (box.kind === GROUP) {
      const group = box.level.levels[box.index], worst = worstOf(group);
      made.append(svg("rect", { class: "behind", x: 4, y: 4, width: box.w, height: box.h }));
      body(group.name, `group ${worst ? worst[1] : ""}`);
      made.append(svg("text", { class: "soft", x: 8, y: 32 }, shortened(group.about, box.w)), svg("text", { x: box.w - 16, y: 17 }, "+"));
      if (worst) made.append(svg("text", { class: "mark", x: 8, y: box.h - 10 }, worst[0]));
    } else if (box.kind === VERTEX) {
      const node = graph.nodes[box.index], [mark, kind] = node.result ?? ["", ""];
      const inGroup = box.level.parent !== null; // whose frame has the scope of its name
      body(inGroup ? node.name.split("/").pop() : node.name, node.kind === "node" ? kind : "terminal");
      if (data.findings.some((each) => each[1] === node.name && each[0] !== "note")) made.append(svg("text", { class: "finding", x: box.w - 14, y: 17 }, "!"));
      const type = node.kind === "node" ? node.operator : node.kind;
      made.append(svg("text", { class: "soft", x: 8, y: 32 }, shortened(type, box.w)));
      if (mark) made.append(svg("text", { class: "mark", x: 8, y: 48 }, mark));
      if (node.time) {
        const [text, note, share] = node.time;
        made.append(svg("text", { x: box.w - 8, y: 48, "text-anchor": "end" }, [text, note].filter(Boolean).join(", ")));
        if (share) made.append(svg("rect", { class: "load", x: 1, y: box.h - 5, width: share * (box.w - 2), height: 4 }));
      }
    } else {
      const from = box.kind === PORT_IN;
      body(graph.tensors[box.index].name, "port");
      made.append(svg("text", { class: "soft", x: 8, y: 32 }, from ? "from outside" : "to outside"));
    }
    made.append(svg("title", {}, titleOf(box)));
    if (same(box, selected)) made.classList.add("selected");
    return made;
  }

  function titleOf(box) {
    if (box.kind === GROUP) return `${box.level.levels[box.index].name}: ${box.level.levels[box.index].about}`;
    if (box.kind !== VERTEX) return graph.tensors[box.index].name;
    const node = graph.nodes[box.index];
    return [`${node.name} (${node.operator ?? node.kind})`, node.result?.[2], node.time?.[0]].filter(Boolean).join("; ");
  }

  // The worst result in a group: [mark, kind]; null without results.
  const worstCache = new WeakMap();
  function worstOf(level) {
    if (worstCache.has(level)) return worstCache.get(level);
    const found = [...vertices(level)].map((index) => graph.nodes[index].result).filter(Boolean);
    const wrong = found.filter(([, kind]) => kind === "bad").length;
    const worst = wrong ? [`≠ ${wrong} of ${found.length}`, "bad"] : found.find(([, kind]) => kind === "bound") ?? found[0] ?? null;
    worstCache.set(level, worst);
    return worst;
  }

  function* vertices(level) {
    for (const [kind, index] of level.boxes)
      if (kind === VERTEX) yield index;
      else if (kind === GROUP) yield* vertices(level.levels[index]);
  }

  function frameElement(frame) {
    const made = svg("g", { transform: `translate(${frame.x} ${frame.y})` });
    made.append(svg("rect", { class: `frame${selected?.level === frame.level && selected.frame ? " selected" : ""}`, width: frame.w, height: frame.h }));
    const room = frame.w - 24, name = shortened(frame.level.name, room);
    made.append(svg("text", { class: "frame-name", x: 10, y: 18 }, name), svg("text", { x: frame.w - 18, y: 18 }, "−"));
    const left = Math.floor((room - 7 * name.length - 12) / 7);
    if (left > frame.level.about.length) made.append(svg("text", { class: "frame-about", x: 10 + 7 * name.length + 12, y: 18 }, frame.level.about));
    made.append(svg("title", {}, `${frame.level.name}: ${frame.level.about}`));
    return made;
  }

  function wireElement(wire) {
    const chosen = selected?.tensor !== undefined && wire.tensors.includes(selected.tensor);
    const [x, y] = wire.tip, size = wire.up ? -7 : 7, path = pathOf(wire);
    const names = wire.tensors.map((tensor) => tensorText(tensor)).join("\n");
    return svg("g", {}, svg("path", { class: `wire${chosen ? " selected" : ""}`, d: path }), svg("path", { class: "wire hit", d: path }),
      svg("path", { class: "head", d: `M${x} ${y}l-3.5 ${-size}h7z` }), svg("title", {}, names));
  }

  function tensorText(index) {
    const tensor = graph.tensors[index];
    return [tensor.name, tensor.type, tensor.range && `values ${tensor.range}`].filter(Boolean).join(", ");
  }

  function labelElement(label) {
    const tensor = graph.tensors[label.tensors[0]], more = label.tensors.length - 1;
    const made = svg("g", { class: "label-group" });
    const first = [tensor.type, more ? `and ${more} more` : ""].filter(Boolean).join(" ");
    if (first) made.append(svg("text", { class: "label", x: label.x, y: label.y + 15 }, first));
    if (tensor.range) made.append(svg("text", { class: "label", x: label.x, y: label.y + 29 }, tensor.range));
    if (tensor.drawn?.[4].length) made.append(svg("path", { class: "spark", d: bars(tensor.drawn[4], label.x, label.y + 50, 64, 16) }));
    return made;
  }

  // Heights are square roots of counts, so that few values are seen next to many.
  function bars(counts, x, y, width, height) {
    const most = Math.max(...counts), step = width / counts.length;
    return counts.map((count, index) => {
      const h = count ? Math.max(Math.sqrt(count / most) * height, 1) : 0;
      return h ? `M${(x + index * step).toFixed(1)} ${y}v${(-h).toFixed(1)}h${(step * 0.85).toFixed(1)}v${h.toFixed(1)}z` : "";
    }).join("");
  }

  // Drawing: what is in view, or outlines of everything from afar.
  const picture = stage.appendChild(svg("svg", { role: "img", "aria-label": `The network ${data.name}` }));
  const root = picture.appendChild(svg("g", {}));
  let layers = [], mode = "", frame = 0;
  const PARTS = [["frames", frameElement], ["wires", wireElement], ["boxes", boxElement], ["labels", labelElement]];

  function draw() {
    frame = 0;
    root.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    const wanted = view.scale < FAR ? "far" : "near";
    if (wanted !== mode) {
      for (const layer of layers) layer.replaceChildren();
      scene.drawn.clear();
      mode = wanted;
      if (mode === "far") drawFar();
    }
    if (mode === "near") drawNear(stage.getBoundingClientRect());
  }

  function drawNear({ width, height }) {
    const left = -view.x / view.scale, top = -view.y / view.scale;
    const right = left + width / view.scale, bottom = top + height / view.scale;
    const seen = ({ x, y, x2, y2, w = 200, h = 60 }) => x < right && (x2 ?? x + w) > left && y < bottom && (y2 ?? y + h) > top;
    PARTS.forEach(([name, element], number) => {
      for (const each of scene[name]) {
        const drawn = scene.drawn.get(each);
        if (seen(each) === Boolean(drawn)) continue;
        if (drawn) {
          drawn.remove();
          scene.drawn.delete(each);
        } else {
          const made = layers[number].appendChild(element(each));
          made.entry = each;
          scene.drawn.set(each, made);
        }
      }
    });
  }

  function drawFar() {
    const paths = new Map();
    const add = (kind, path) => paths.set(kind, (paths.get(kind) ?? "") + path);
    const outline = ({ x, y, w, h }) => `M${x} ${y}h${w}v${h}h${-w}z`;
    for (const each of scene.frames) layers[0].append(Object.assign(svg("path", { class: "frame", d: outline(each) }), { entry: each }));
    for (const wire of scene.wires) add("wire", pathOf(wire));
    layers[1].append(svg("path", { class: "wire far", d: paths.get("wire") ?? "" }));
    paths.clear();
    for (const box of scene.boxes) {
      const kind = box.kind === GROUP ? worstOf(box.level.levels[box.index])?.[1] || "group" : graph.nodes[box.index]?.result?.[1];
      add((box.kind < PORT_IN && kind) || "plain", outline(box));
    }
    for (const [kind, path] of paths) layers[2].append(svg("path", { class: `far ${kind}`, d: path }));
    markFar();
  }

  function markFar() {
    const chosen = selected && boxOf(selected);
    const outline = chosen ? [svg("g", { class: "box selected" }, svg("rect", { class: "body", x: chosen.x, y: chosen.y, width: chosen.w, height: chosen.h }))] : [];
    layers[3].replaceChildren(...outline);
  }

  function redraw() {
    if (mode === "far") return markFar();
    mode = "";
    return schedule();
  }

  function schedule() {
    frame ||= requestAnimationFrame(draw);
  }

  function zoom(factor, x, y) {
    const scale = Math.min(Math.max(view.scale * factor, 0.005), 4), actual = scale / view.scale;
    view = { x: x - (x - view.x) * actual, y: y - (y - view.y) * actual, scale };
    schedule();
  }

  function middle() {
    const { width, height } = stage.getBoundingClientRect();
    return [width / 2, height / 2];
  }

  // The whole picture, or its beginning if it is too long to be read.
  function fit() {
    const { width, height } = stage.getBoundingClientRect();
    const scale = Math.min(width / (scene.width + 40), height / (scene.height + 40), 1.25);
    view = { x: (width - scene.width * scale) / 2, y: (height - scene.height * scale) / 2, scale };
    schedule();
  }

  function begin() {
    const { width } = stage.getBoundingClientRect();
    fit();
    if (view.scale >= 0.6) return;
    const scale = Math.min(Math.max(width / (scene.width + 40), 0.6), 1);
    const top = scene.boxes.reduce((first, box) => (box.y < first.y ? box : first), scene.boxes[0]);
    view = { x: width / 2 - (top.x + top.w / 2) * scale, y: 20, scale };
    schedule();
  }

  function centre(box) {
    const [x, y] = middle();
    view.scale = Math.max(view.scale, 0.8);
    view.x = x - (box.x + box.w / 2) * view.scale;
    view.y = y - (box.y + Math.min(box.h / 2, 200)) * view.scale;
    schedule();
  }

  // Selection.
  const same = (box, other) => other && box.kind === other.kind && box.index === other.index && (box.kind === VERTEX || box.level === other.level);
  const boxOf = (choice) => (choice.frame ? scene.frames.find((each) => each.level === choice.level)
    : choice.kind === VERTEX ? scene.of.get(choice.index) : scene.boxes.find((box) => same(box, choice)));

  function select(choice) {
    selected = choice;
    about();
    redraw();
  }

  function reveal(index) {
    const before = expanded.size;
    for (let level = homes.get(index); level?.parent; level = level.parent) expanded.add(level);
    selected = { kind: VERTEX, index, level: homes.get(index) };
    if (expanded.size > before) arrange();
    else redraw();
    centre(scene.of.get(index));
    about();
  }

  function toggle(level) {
    const before = selected && boxOf(selected);
    if (expanded.has(level)) {
      expanded.delete(level);
      const parent = level.parent, number = parent.levels.indexOf(level);
      selected = { kind: GROUP, index: number, level: parent };
    } else {
      expanded.add(level);
      selected = { frame: true, level };
    }
    arrange();
    const after = boxOf(selected);
    if (before && after) { // what was selected stays where it was
      view.x += (before.x + before.w / 2 - after.x - after.w / 2) * view.scale;
      view.y += (before.y - after.y) * view.scale;
    }
    about();
    schedule();
  }

  function openGraph(index) {
    choose(data.graphs[index], data.graphs[index].groupings[0]);
    begin();
  }

  // The panel.
  function rows(pairs) {
    return html("dl", {}, ...pairs.flatMap(([label, value]) => [html("dt", {}, label), html("dd", {}, value)]));
  }

  function histogram([count, low, high, mean, counts, strange]) {
    const made = [];
    if (counts.length) {
      made.push(svg("svg", { viewBox: "0 0 240 60", preserveAspectRatio: "none", role: "img", "aria-label": `Histogram from ${low} to ${high}` }, svg("path", { d: bars(counts, 0, 60, 240, 58) })));
      made.push(html("p", { class: "ends" }, html("span", {}, low), html("span", {}, high)));
    }
    const numbers = [["Values", count.toLocaleString("en-US")]];
    if (low !== null && count > 1) numbers.push(["Minimum", low], ["Maximum", high], ["Mean", mean]);
    if (strange) numbers.push(["NaN, infinite", strange.toLocaleString("en-US")]);
    return [...made, rows(numbers)];
  }

  function tensorFacts(index) {
    const tensor = graph.tensors[index], made = [html("h3", {}, link(tensor.name, () => selectTensor(index)))];
    const facts = [["Type", tensor.type ?? "unknown"]];
    if (tensor.range) facts.push(["Possible values", tensor.range]);
    facts.push(...(tensor.rows ?? []));
    const writer = writers.get(index);
    if (writer !== undefined) facts.push(["Written by", link(graph.nodes[writer].name, () => reveal(writer))]);
    made.push(rows(facts));
    if (tensor.constant) {
      const { values, first, failure } = tensor.constant;
      if (failure) made.push(rows([["Values", failure]]));
      if (values) made.push(...histogram(values));
      if (first) {
        const more = values[0] - first.length;
        made.push(html("pre", { class: "values" }, first.join(", ") + (more > 0 ? `, and ${more.toLocaleString("en-US")} more` : "")));
      }
    } else if (tensor.drawn) made.push(html("p", { class: "soft" }, `Values of ${data.drawnFrom}`), ...histogram(tensor.drawn));
    return made;
  }

  function selectTensor(index) {
    select({ tensor: index });
    panel.replaceChildren(html("h2", {}, "Tensor"), ...tensorFacts(index), rows([["Read by", html("span", {}, ...readerLinks(index))]]));
  }

  function readerLinks(index) {
    return (readers.get(index) ?? []).flatMap((reader, number) => [number ? ", " : "", link(graph.nodes[reader].name, () => reveal(reader))]);
  }

  function findings(list) {
    if (!list.length) return [];
    const shown = list.map(([severity, name, edge, reason, advice]) => {
      const at = graph.nodes.findIndex((node) => node.kind === "node" && node.name === name);
      const where = at >= 0 ? link(name, () => reveal(at)) : name || edge;
      return html("p", { class: "finding" }, html("b", {}, severity), " ", where, where ? ": " : "", reason, html("span", { class: "soft" }, ` ${advice}`));
    });
    return [html("h3", {}, "Findings"), ...shown];
  }

  function nodeFacts(index) {
    const node = graph.nodes[index], made = [html("h2", {}, node.name)];
    made.push(html("p", { class: "soft" }, [node.domain, node.operator ?? node.kind].filter(Boolean).join(".")));
    if (node.result) {
      const [mark, kind, text, first] = node.result;
      made.push(html("p", { class: `result ${kind}` }, `${mark} ${text}`));
      if (first) made.push(html("p", {}, `First difference: ${first}`));
    }
    if (node.time) made.push(rows([[data.timed, node.time.slice(0, 2).filter(Boolean).join(", ")]]));
    made.push(...findings(data.findings.filter((each) => each[1] === node.name)));
    if (node.rows) made.push(html("h3", {}, "Facts"), rows(node.rows));
    if (node.formula !== undefined) made.push(html("h3", {}, "Formula"), html("pre", {}, data.formulas[node.formula]));
    if (node.function !== undefined) made.push(link("Show the function's body", () => openGraph(node.function)));
    if (node.attributes) {
      const shown = ([name, kind, text, inner]) => [name, inner === null ? `${text}` : link(`graph ${text}`, () => openGraph(inner))];
      made.push(html("h3", {}, "Attributes"), rows(node.attributes.map(shown)));
    }
    if (node.text) made.push(html("h3", {}, "Description"), html("p", {}, node.text));
    for (const [title, tensors] of [["Inputs", node.reads], ["Outputs", node.writes]]) {
      const known = (tensors ?? []).filter((tensor) => tensor >= 0);
      if (known.length) made.push(html("h2", {}, title), ...known.flatMap(tensorFacts));
    }
    return made;
  }

  function groupFacts(level) {
    const own = [...vertices(level)], counts = new Map();
    for (const index of own) counts.set(graph.nodes[index].operator ?? graph.nodes[index].kind, (counts.get(graph.nodes[index].operator ?? graph.nodes[index].kind) ?? 0) + 1);
    const operators = [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => [String(count), name]);
    const worst = worstOf(level);
    return [
      html("h2", {}, level.name), html("p", { class: "soft" }, level.about),
      ...(worst ? [html("p", { class: `result ${worst[1]}` }, worst[0])] : []),
      link(expanded.has(level) ? "Collapse" : "Expand", () => toggle(level)),
      html("h3", {}, `${own.length} nodes`), rows(operators),
    ];
  }

  function about() {
    panel.scrollTop = 0;
    if (selected?.tensor !== undefined) return;
    if (!selected) {
      const nodes = graph.nodes.filter((node) => node.kind === "node"), counts = new Map();
      for (const node of nodes) counts.set(node.operator, (counts.get(node.operator) ?? 0) + 1);
      const operators = [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => [String(count), name]);
      const main = graph === data.graphs[0];
      panel.replaceChildren(html("h2", {}, graph.title), ...(main ? findings(data.findings) : []), html("h3", {}, "File"), rows(data.properties),
        html("h3", {}, `${nodes.length.toLocaleString("en-US")} nodes`), rows(operators));
    } else if (selected.frame) panel.replaceChildren(...groupFacts(selected.level));
    else if (selected.kind === GROUP) panel.replaceChildren(...groupFacts(selected.level.levels[selected.index]));
    else if (selected.kind === VERTEX) panel.replaceChildren(...nodeFacts(selected.index));
    else selectTensor(selected.index);
  }

  // Search.
  const texts = new WeakMap();
  function textOf(node) {
    if (!texts.has(node)) {
      const tensors = [...(node.reads ?? []), ...(node.writes ?? [])].map((tensor) => graph.tensors[tensor]?.name);
      const attributes = (node.attributes ?? []).map((each) => `${each[0]}=${each[2]}`);
      const facts = (node.rows ?? []).map((each) => each[1]);
      texts.set(node, [node.name, node.operator, node.domain, node.kind, ...tensors, ...attributes, ...facts, node.result?.[0]].join("\n").toLowerCase());
    }
    return texts.get(node);
  }

  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.hidden = !words.length;
    if (!words.length) return results.replaceChildren();
    const found = [];
    graph.nodes.forEach((node, index) => {
      if (words.every((word) => textOf(node).includes(word))) found.push(index);
    });
    const shown = found.slice(0, LISTED).map((index) => {
      const node = graph.nodes[index], made = html("button", { type: "button" }, node.name, html("span", {}, ` ${node.operator ?? node.kind} ${node.result?.[0] ?? ""}`));
      made.addEventListener("click", () => {
        reveal(index);
        results.hidden = true;
        stage.focus();
      });
      return made;
    });
    const counted = `${found.length.toLocaleString("en-US")} found${found.length > LISTED ? `, the first ${LISTED} are listed` : ""}`;
    return results.replaceChildren(html("p", {}, counted), ...shown);
  }

  // Keys: along the wires, and between boxes of a height.
  function neighbour(direction) {
    const own = selected && boxOf(selected);
    if (!own) return scene.boxes[0];
    if (direction === "up" || direction === "down") {
      const down = direction === "down", near = down ? "start" : "tip", far = down ? "tip" : "start";
      const edge = down ? own.y + own.h : own.y;
      const points = scene.wires.filter((wire) => {
        const [x, y] = wire[near];
        return x >= own.x - 1 && x <= own.x + own.w + 1 && Math.abs(y - edge) < 3;
      }).map((wire) => wire[far]);
      const touching = (box) => points.some(([x, y]) => x >= box.x - 1 && x <= box.x + box.w + 1 && y >= box.y - 3 && y <= box.y + box.h + 3);
      return scene.boxes.find((box) => box !== own && touching(box)) ?? scene.frames.find((each) => each.level !== selected.level && touching(each));
    }
    const right = direction === "right", level = scene.boxes.filter((box) => Math.abs(box.y + box.h / 2 - own.y - own.h / 2) < box.h && (right ? box.x > own.x + 1 : box.x < own.x - 1));
    return level.sort((a, b) => Math.abs(a.x - own.x) - Math.abs(b.x - own.x))[0];
  }

  function press(event) {
    const arrows = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      search.value = "";
      find();
      select(null);
    } else if (event.target === search) {
      if (event.key === "Enter") results.querySelector("button")?.click();
      if (event.key === "ArrowDown") results.querySelector("button")?.focus();
      return;
    } else if (event.target.closest("#results") && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      (event.key === "ArrowDown" ? event.target.nextElementSibling : event.target.previousElementSibling)?.focus?.();
    } else if (event.key === "/") search.focus();
    else if (event.target.closest("button, select, input")) return;
    else if (arrows[event.key]) {
      const next = neighbour(arrows[event.key]);
      if (next) {
        select(next.kind === undefined ? { frame: true, level: next.level } : { kind: next.kind, index: next.index, level: next.level });
        centre(next);
      }
    } else if (event.key === "Enter" && selected) {
      const level = selected.frame ? selected.level : selected.kind === GROUP ? selected.level.levels[selected.index] : null;
      if (level) toggle(level);
    } else if (event.key === "Backspace" && selected) {
      const level = selected.frame ? selected.level : selected.level;
      if (level?.parent) toggle(level);
    } else if (event.key === "+" || event.key === "=") zoom(1.3, ...middle());
    else if (event.key === "-") zoom(1 / 1.3, ...middle());
    else if (event.key === "0") fit();
    else if (event.key === "e") by("expand").click();
    else if (event.key === "c") by("collapse").click();
    else return;
    event.preventDefault();
  }

  // Files.
  function whole() {
    const made = svg("svg", { xmlns: SVG, viewBox: `-20 -20 ${scene.width + 40} ${scene.height + 40}`, width: scene.width + 40, height: scene.height + 40 });
    made.append(svg("style", {}, by("drawing").textContent), svg("rect", { class: "paper", x: -20, y: -20, width: scene.width + 40, height: scene.height + 40 }));
    for (const [name, element] of PARTS) made.append(svg("g", {}, ...scene[name].map(element)));
    return made;
  }

  function save(blob, ending) {
    const url = URL.createObjectURL(blob);
    const made = html("a", { href: url, download: `${data.name.replace(/[^\w.-]+/g, "_")}.${ending}` });
    made.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    return blob;
  }

  const svgBlob = () => new Blob([new XMLSerializer().serializeToString(whole())], { type: "image/svg+xml" });

  function png(done) {
    const url = URL.createObjectURL(svgBlob()), image = new Image();
    const width = scene.width + 40, height = scene.height + 40;
    const scale = Math.min(2, 16000 / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
    image.onload = () => {
      const canvas = html("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob(done, "image/png");
    };
    image.src = url;
  }

  // Events.
  function option(text, value) {
    return html("option", { value }, text);
  }

  function lists() {
    by("graph").replaceChildren(...data.graphs.map((each, index) => option(each.title, index)));
    by("graph").value = data.graphs.indexOf(graph);
    by("graph").parentNode.hidden = data.graphs.length < 2;
    by("grouping").replaceChildren(...graph.groupings.map((each, index) => option(each.name, index)));
    by("grouping").value = graph.groupings.indexOf(grouping);
    by("grouping").parentNode.hidden = graph.groupings.length < 2;
  }

  const pointers = new Map();
  let moved = false;
  stage.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    moved = false;
  });
  stage.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const [x, y] = [event.clientX - before.clientX, event.clientY - before.clientY];
    if (!moved && Math.hypot(x, y) < 4) return;
    if (!moved) stage.setPointerCapture(event.pointerId);
    moved = true;
    if (pointers.size === 2) {
      const [other] = [...pointers.values()].filter((each) => each.pointerId !== event.pointerId), box = stage.getBoundingClientRect();
      const distance = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      zoom(distance(event) / Math.max(distance(before), 1), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
    } else {
      view.x += x;
      view.y += y;
      schedule();
    }
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, (event) => pointers.delete(event.pointerId));
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = stage.getBoundingClientRect(), lines = event.deltaMode ? 16 : 1;
    zoom(Math.exp(-event.deltaY * lines * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  function boxAt(event) { // from afar, boxes are not elements of their own
    const area = stage.getBoundingClientRect();
    const x = (event.clientX - area.left - view.x) / view.scale, y = (event.clientY - area.top - view.y) / view.scale;
    return scene.boxes.find((box) => x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h);
  }

  const entryOf = (event) => {
    for (let element = event.target; element && element !== stage; element = element.parentNode) if (element.entry) return element.entry;
    return null;
  };

  stage.addEventListener("click", (event) => {
    if (moved || event.target.closest("#keys")) return;
    stage.focus({ preventScroll: true });
    const entry = boxAt(event) ?? entryOf(event);
    if (!entry) select(null);
    else if (entry.tensors) selectTensor(entry.tensors[0]);
    else if (entry.kind === undefined) select({ frame: true, level: entry.level });
    else select({ kind: entry.kind, index: entry.index, level: entry.level });
  });
  stage.addEventListener("dblclick", (event) => {
    const entry = boxAt(event) ?? entryOf(event);
    if (entry?.kind === GROUP) toggle(entry.level.levels[entry.index]);
    else if (entry && entry.kind === undefined && entry.level) toggle(entry.level);
  });
  document.addEventListener("keydown", press);
  search.addEventListener("input", find);
  by("graph").addEventListener("change", (event) => openGraph(Number(event.target.value)));
  by("grouping").addEventListener("change", (event) => {
    const kept = selected?.kind === VERTEX ? selected.index : null;
    choose(graph, graph.groupings[Number(event.target.value)]);
    if (kept !== null) reveal(kept);
    else begin();
  });
  by("expand").addEventListener("click", () => {
    expandAll(grouping.root);
    arrange();
    begin();
  });
  by("collapse").addEventListener("click", () => {
    expanded.clear();
    selected = null;
    arrange();
    begin();
    about();
  });
  by("in").addEventListener("click", () => zoom(1.3, ...middle()));
  by("out").addEventListener("click", () => zoom(1 / 1.3, ...middle()));
  by("fit").addEventListener("click", fit);
  by("svg").addEventListener("click", () => save(svgBlob(), "svg"));
  by("png").addEventListener("click", () => png((blob) => save(blob, "png")));
  by("print").addEventListener("click", () => print());
  by("help").addEventListener("click", () => {
    by("keys").hidden = !by("keys").hidden;
    by("help").setAttribute("aria-expanded", String(!by("keys").hidden));
  });
  let printed = null;
  addEventListener("beforeprint", () => {
    printed = whole();
    picture.before(printed);
    picture.style.display = "none";
  });
  addEventListener("afterprint", () => {
    printed?.remove();
    picture.style.display = "";
  });
  addEventListener("resize", schedule);

  choose(graph, grouping);
  begin();
})();
