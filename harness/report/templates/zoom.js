"use strict";
// Zoom along the horizontal axis of every chart; without this script the charts are whole and still.  Everything that
// it reads are numbers in attributes, and everything that it writes are attributes and text.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MOST = 2000; // times

  function element(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // Round numbers between two, about six, or the powers of ten where there are enough of them.
  function round(low, high, logarithmic) {
    if (logarithmic && high / low > 20) {
      const found = [], decades = Math.ceil(Math.log10(high / low));
      const factors = decades <= 3 ? [1, 2, 5] : [1];
      const step = Math.max(1, Math.floor(decades / 6));
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += step)
        for (const factor of factors) found.push(factor * 10 ** power);
      return found.filter((number) => number >= low && number <= high);
    }
    const decade = 10 ** Math.floor(Math.log10((high - low) / 6));
    const step = decade * [1, 2, 5, 10].find((factor) => decade * factor * 6 >= high - low);
    const found = [];
    for (let index = Math.ceil(low / step); index * step <= high; index++) found.push(index * step);
    return found;
  }

  function zoomable(chart) {
    const plot = chart.querySelector(".plot"), ticks = chart.querySelector(".ticks");
    const [width, height] = ["width", "height"].map((name) => Number(plot.getAttribute(name)));
    const logarithmic = ticks.hasAttribute("data-logarithmic");
    const [low, high, unit] = ["low", "high", "unit"].map((name) => Number(ticks.getAttribute(`data-${name}`)));
    const scaled = logarithmic ? Math.log10 : Number, back = logarithmic ? (value) => 10 ** value : Number;
    const marks = [...chart.querySelectorAll(".mark")];
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const pointers = new Map();
    let start = 0, shown = width, frame = 0;

    const at = (value) => ((scaled(value) - scaled(low)) / (scaled(high) - scaled(low))) * width;
    const valueAt = (x) => back(scaled(low) + (x / width) * (scaled(high) - scaled(low)));

    function draw() {
      plot.setAttribute("viewBox", `${start} 0 ${shown} ${height}`);
      const numbers = round(valueAt(start) / unit, valueAt(start + shown) / unit, logarithmic);
      const places = numbers.map((number) => ((at(number * unit) - start) / shown) * width);
      const labels = numbers.map((number, index) => {
        const label = element("text", { x: places[index], y: height + 17 });
        label.textContent = Number(number.toPrecision(10)).toLocaleString("en-US", { maximumFractionDigits: 9 });
        return label;
      });
      const grid = element("path", { class: "grid", d: places.map((place) => `M${place} 0v${height + 4}`).join("") });
      ticks.replaceChildren(grid, ...labels);
      for (const mark of marks) {
        const place = ((Number(mark.dataset.x) - start) / shown) * width;
        mark.setAttribute("x", place);
        mark.setAttribute("visibility", place < 0 || place > width ? "hidden" : "visible");
      }
      chart.classList.toggle("zoomed", shown < width);
    }

    // To another stretch of the axis: at once under a finger or a wheel, gliding for a key where motion is welcome.
    function show(nextStart, nextShown, glide = false) {
      const wanted = Math.min(width, Math.max(width / MOST, nextShown));
      const target = [Math.min(width - wanted, Math.max(0, nextStart)), wanted], from = [start, shown];
      cancelAnimationFrame(frame);
      if (!glide || still.matches) {
        [start, shown] = target;
        return draw();
      }
      const begun = performance.now();
      frame = requestAnimationFrame(function step(now) {
        const share = Math.min(1, Math.max(0, (now - begun) / 150));
        [start, shown] = [0, 1].map((index) => from[index] + share * (target[index] - from[index]));
        draw();
        if (share < 1) frame = requestAnimationFrame(step);
      });
    }

    const scale = (factor, share = 0.5, glide = false) => {
      const wanted = Math.min(width, Math.max(width / MOST, shown * factor));
      show(start + share * (shown - wanted), wanted, glide);
    };
    const share = (x) => {
      const box = plot.getBoundingClientRect();
      return (x - box.left) / box.width;
    };

    const keys = {
      "+": () => scale(0.5, 0.5, true), "=": () => scale(0.5, 0.5, true), "-": () => scale(2, 0.5, true),
      ArrowLeft: () => show(start - shown / 4, shown, true), ArrowRight: () => show(start + shown / 4, shown, true),
      "0": () => show(0, width, true), Escape: () => show(0, width, true),
    };
    chart.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    // A page that is scrolled past a chart must not be caught by it: the wheel belongs to a chart that has the focus.
    chart.addEventListener("wheel", (event) => {
      if (document.activeElement !== chart) return;
      event.preventDefault();
      scale(Math.exp(Math.sign(event.deltaY) * 0.2), share(event.clientX));
    }, { passive: false });
    chart.addEventListener("dblclick", () => show(0, width, true));
    chart.addEventListener("pointerdown", (event) => {
      chart.focus({ preventScroll: true });
      pointers.set(event.pointerId, event.clientX);
      chart.setPointerCapture(event.pointerId);
    });
    chart.addEventListener("pointermove", (event) => {
      if (!pointers.has(event.pointerId)) return;
      const before = [...pointers.values()];
      pointers.set(event.pointerId, event.clientX);
      const after = [...pointers.values()];
      if (after.length === 1) return show(start - (share(after[0]) - share(before[0])) * shown, shown);
      const spread = (places) => Math.max(10, Math.abs(places[0] - places[1]));
      scale(spread(before) / spread(after), share((after[0] + after[1]) / 2));
    });
    for (const end of ["pointerup", "pointercancel"])
      chart.addEventListener(end, (event) => pointers.delete(event.pointerId));

    chart.setAttribute("tabindex", "0");
    chart.classList.add("zoomable");
  }

  for (const chart of document.querySelectorAll(".chart")) zoomable(chart);
  for (const hint of document.querySelectorAll(".hint")) hint.hidden = false;
})();
