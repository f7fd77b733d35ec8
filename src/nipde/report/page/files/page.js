"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { view, material, kernel, pairs, held_out: kept } = data;
  const LAST = 254;
  const flat = view.dimension === 1;
  const tables = Object.fromEntries(Object.entries(data.tables).map(([name, colours]) => [
    name, colours.map((c, i) => [1, 3, 5].map((at) => parseInt(c.slice(at, at + 2), 16)).concat(i > LAST ? 0 : 255)),
  ]));
  const figure = (name) => document.querySelector(`[data-figure="${name}"]`);
  const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
  const clamp = (value, last) => Math.min(Math.max(value, 0), last);

  document.querySelectorAll(".scripted").forEach((element) => { element.hidden = false; });

  // Three digits, as in the text of the page.
  function number(value, digits = 3) {
    if (value === null || !Number.isFinite(value)) return "—";
    const size = Math.abs(value);
    if (size === 0 || (size >= 1e-3 && size < 1e5)) {
      const rounded = Number(value.toPrecision(digits));
      const text = size < 1000 ? String(rounded) : rounded.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
      return text.replace("-", "−");
    }
    const [front, power] = value.toExponential(digits - 1).split("e");
    const raised = [...String(Number(power))].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${front}\u00a0×\u00a010${raised}`.replace("-", "−");
  }

  const between = (low, high, share, log) => (log ? low * (high / low) ** share : low + (high - low) * share);

  // Fields of one stack: codes of the i-th, its scale, and values back from codes.
  function stack(record, shape = view.shape) {
    const codes = Uint8Array.from(atob(record.codes), (c) => c.charCodeAt(0));
    const size = product(shape);
    return {
      ...record, shape, count: record.low.length,
      at: (i) => codes.subarray(i * size, (i + 1) * size),
      value: (i, code) => between(record.low[i], record.high[i], code / LAST, record.log),
    };
  }

  // Draw codes into a figure: pixels in 2D, a path in 1D.
  function paint(target, codes, fields, low, high, first = [0, 0], step = [1, 1]) {
    if (flat) {
      const [left, top, across, up] = view.frame;
      let pen = "M", path = "";
      codes.forEach((code, i) => {
        if (code > LAST) { pen = "M"; return; }
        const x = left + (first[0] + step[0] * i + 0.5) / view.shape[0] * across;
        path += `${pen}${x.toFixed(1)} ${(top + (1 - code / LAST) * up).toFixed(1)}`;
        pen = "L";
      });
      target.querySelector(".line").setAttribute("d", path);
    } else {
      const all = fields.shape[1], table = tables[fields.table];
      let number = 0;
      for (const panel of view.panels) {
        const start = panel.first.map((i, a) => Math.max(0, Math.ceil((i - first[a]) / step[a])));
        const [nx, ny] = panel.first.map((i, a) => Math.ceil((i + panel.counts[a] - first[a]) / step[a]) - start[a]);
        if (nx < 1 || ny < 1) continue;
        const context = surface(target, number++, nx, ny).getContext("2d"), pixels = context.createImageData(nx, ny);
        for (let i = 0; i < nx; i++) {
          for (let j = 0; j < ny; j++) {
            pixels.data.set(table[codes[(start[0] + i) * all + start[1] + j]], 4 * ((ny - 1 - j) * nx + i));
          }
        }
        context.putImageData(pixels, 0, 0);
      }
    }
    target.querySelectorAll(".low").forEach((e) => { e.textContent = number(low); });
    target.querySelectorAll(".middle").forEach((e) => { e.textContent = number(between(low, high, 0.5, fields.log)); });
    target.querySelectorAll(".high").forEach((e) => { e.textContent = number(high); });
  }

  // The image of a figure becomes a canvas when it is first repainted.
  function surface(target, number, width, height) {
    const field = target.querySelectorAll(".field")[number];
    if (field.tagName === "CANVAS") return field;
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height, className: "field" });
    canvas.style.cssText = field.style.cssText;
    field.replaceWith(canvas);
    return canvas;
  }

  const describe = (target, text) => target.querySelector("svg[role=img]").setAttribute("aria-label", text);

  // Pairs.
  const sides = ["load", "response"].map((name) => [name, pairs[name], stack(pairs[name]), figure(name)]);
  const slider = document.getElementById("pair");
  function showPair() {
    const i = Number(slider.value), text = `pair ${pairs.numbers[i]} of ${pairs.total}`;
    document.getElementById("pair-text").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    for (const [name, record, fields, target] of sides) {
      const title = `${name === "load" ? "Load" : "Response"} of pair ${pairs.numbers[i]}`;
      paint(target, fields.at(i), fields, fields.low[i], fields.high[i]);
      target.querySelector(".title").textContent = title;
      target.querySelector(".caption .text").textContent = record.captions[i];
      target.querySelector(".plot .marker").setAttribute("transform", `translate(${record.marks[i].join(" ")})`);
      describe(target, `${title}, from ${number(fields.low[i])} to ${number(fields.high[i])}${record.unit}. ${record.captions[i]}`);
    }
  }
  slider.addEventListener("input", showPair);
  showPair();

  // Held-out pairs.
  if (kept) {
    const panels = ["measured", "predicted", "difference"].map((name) => [name, stack(kept[name]), figure(name)]);
    const choice = document.getElementById("kept");
    const showKept = () => {
      const i = Number(choice.value);
      document.getElementById("kept-text").textContent = kept.lines[i];
      choice.setAttribute("aria-valuetext", kept.lines[i]);
      for (const [name, fields, target] of panels) {
        paint(target, fields.at(i), fields, fields.low[i], fields.high[i]);
        describe(target, `${name} response. ${kept.lines[i]} From ${number(fields.low[i])} to ${number(fields.high[i])}${kept.unit}.`);
      }
      const [[, x], [, y]] = panels, [left, top, across, up] = kept.scatter.box, { low, high } = kept.scatter;
      const skip = Math.ceil(x.at(i).length / 600);
      let path = "";
      x.at(i).forEach((code, node) => {
        const other = y.at(i)[node];
        if (node % skip || code > LAST || other > LAST) return;
        const [a, b] = [x.value(i, code), y.value(i, other)].map((value) => (value - low) / (high - low));
        path += `M${(left + a * across).toFixed(1)} ${(top + (1 - b) * up).toFixed(1)}h0`;
      });
      figure("scatter").querySelector(".selected").setAttribute("d", path);
    };
    choice.addEventListener("input", showKept);
    showKept();
  }

  // The selected point: its values, and its row of the kernel.
  const rows = stack(kernel, kernel.shape), switched = stack(material.switch);
  const main = figure("coefficient"), beside = figure("row"), common = document.getElementById("common");
  const maps = ["map", "half-width", "coefficient", "identifiable", "phases"].filter(figure);
  let point = kernel.start.slice();

  const nearest = () => kernel.shape.map((count, a) => clamp(Math.round((point[a] - kernel.first[a]) / kernel.step[a]), count - 1));
  const index = (node, shape) => node.reduce((sum, i, a) => sum * shape[a] + i, 0);
  const coordinate = (axis, i) => number(view.coordinates[axis][i], view.digits[axis]);
  const places = (node) => node.map((i, a) => coordinate(a, i)).join(", ");
  const panelOf = (node) => view.panels.find((p) => node.every((i, a) => i >= p.first[a] && i < p.first[a] + p.counts[a]));

  // Planes of a box: through which node, and the node of the box at a place of the unfolded planes.
  const box = view.coordinates.map((axis) => axis.length), spatial = box.length === 3, middle = view.middle;
  const cut = middle.slice();
  function nodeAt([i, j], at = cut) {
    if (!spatial) return flat ? [i] : [i, j];
    if (i >= box[0]) return [at[0], j, i - box[0]];
    return j < box[1] ? [i, j, at[2]] : [i, at[1], j - box[1]];
  }
  function unfolded(values, empty) {
    const planes = new Array(product(view.shape)).fill(empty);
    for (let i = 0; i < view.shape[0]; i++) {
      for (let j = 0; j < view.shape[1]; j++) {
        if (panelOf([i, j])) planes[index([i, j], view.shape)] = values[index(nodeAt([i, j]), box)];
      }
    }
    return planes;
  }

  function mark(target, node) {
    const panel = panelOf(node), [left, top, across, up] = panel.frame;
    const share = node.map((i, a) => (i - panel.first[a] + 0.5) / panel.counts[a]);
    const x = left + share[0] * across, y = flat ? top : top + (1 - share[1]) * up;
    target.querySelector(".point").setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  }

  function showPoint() {
    const node = nodeAt(point), at = view.whole ? index(node, box) : index(point, view.shape), closest = nearest();
    const original = () => closest.map((i, a) => kernel.first[a] + kernel.step[a] * i);
    if (!panelOf(original())) closest[0] -= 1;
    const row = index(closest, kernel.shape), origin = original();
    for (const name of maps) mark(figure(name), point);
    mark(beside, origin);
    let codes = rows.at(row), [low, high] = [rows.low[row], rows.high[row]];
    if (common.checked) {
      [low, high] = kernel.all;
      const width = high - low || 1;
      codes = codes.map((code) => (code > LAST ? code : Math.round(LAST * clamp((rows.value(row, code) - low) / width, 1))));
    }
    paint(beside, codes, rows, low, high, kernel.first, kernel.step);
    const share = (value) => (value === null ? "—" : `${Math.round(100 * value)}\u00a0%`);
    const read = {
      point: places(node),
      value: number(material.values[at]),
      band: `${number(material.low[at])} to ${number(material.high[at])}`,
      phase: `${material.phase[at] === null ? "—" : material.phase[at] + 1}, ${share(material.probability[at])}`,
      identifiable: share(material.identifiable[at]),
      row: number(kernel.largest[row]),
    };
    for (const element of document.querySelectorAll("[data-read]")) element.textContent = read[element.dataset.read];
    describe(beside, `Row of the kernel at the point ${places(nodeAt(origin, middle))}${view.unit}, from ${number(low)} to ${number(high)} ${kernel.unit}.`);
    return `${view.axes.join(", ")} = ${read.point}${view.unit}: ${material.quantity} ${read.value}${material.unit}, ${material.level} band ${read.band}${material.unit}.`;
  }

  function showSwitch() {
    const i = Number(document.querySelector("[name=band]:checked").value);
    if (view.whole) paintPlanes(main, "coefficient", i);
    else paint(main, switched.at(i), switched, switched.low[i], switched.high[i]);
  }
  document.querySelectorAll("[name=band]").forEach((choice) => choice.addEventListener("change", showSwitch));
  common.addEventListener("change", showPoint);

  const plot = main.querySelector(".plot");
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "movable point");
  plot.setAttribute("aria-label", "Point in the material: arrow keys move it, with Shift by five nodes");
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!move || (flat && move[1])) return;
    event.preventDefault();
    const next = point.map((i, a) => clamp(i + move[a] * (event.shiftKey ? 5 : 1), view.shape[a] - 1));
    if (!panelOf(next)) return;
    point = next;
    document.getElementById("spoken").textContent = moved();
  });
  // The maps of the first screen show the point once it has been moved.
  function moved() {
    const text = showPoint();
    document.body.classList.add("moved");
    document.getElementById("at-point").textContent = text;
    return text;
  }
  let waiting = false;
  function follow(event, area) {
    const inside = [...area.querySelectorAll(".frame")].map((frame, i) => {
      const { left, top, width, height } = frame.getBoundingClientRect(), { first, counts } = view.panels[i];
      const shares = [(event.clientX - left) / width, 1 - (event.clientY - top) / height];
      if (shares.some((share) => share < 0 || share > 1)) return null;
      return counts.map((count, a) => first[a] + clamp(Math.floor(shares[a] * count), count - 1));
    }).find(Boolean);
    if (!inside) return;
    point = inside;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; moved(); });
  }
  // Planes through another node.
  const volumes = Object.fromEntries(Object.entries(material.planes || {}).filter(([, one]) => one.codes)
    .map(([name, one]) => [name, stack(one, box)]));
  function paintPlanes(target, name, i = 0) {
    const fields = volumes[name];
    paint(target, unfolded(fields.at(i), LAST + 1), { ...fields, shape: view.shape }, fields.low[i], fields.high[i]);
  }
  function hatch(target, values, limit) {
    const path = target.querySelector(".plot .hatched");
    if (!path) return;
    let cells = "";
    const shown = unfolded(values, null);
    for (const { first, counts, frame: [left, top, across, up] } of view.panels) {
      const [wide, high] = [across / counts[0], up / counts[1]];
      for (let i = 0; i < counts[0]; i++) {
        for (let j = 0; j < counts[1]; j++) {
          const value = shown[index([first[0] + i, first[1] + j], view.shape)];
          if (value === null || value >= limit) continue;
          cells += `M${(left + i * wide).toFixed(1)} ${(top + up - (j + 1) * high).toFixed(1)}`;
          cells += `h${wide.toFixed(1)}v${high.toFixed(1)}h${(-wide).toFixed(1)}z`;
        }
      }
    }
    path.setAttribute("d", cells || "M0 0");
  }
  function showPlanes() {
    const { limits } = material.planes;
    cut.forEach((i, a) => {
      const text = `${view.axes[a]} = ${coordinate(a, i)}${view.unit}`;
      document.getElementById(`plane-text-${a}`).textContent = text;
      document.getElementById(`plane-${a}`).setAttribute("aria-valuetext", text);
      for (const name of maps) figure(name).querySelector(`[data-axis="${a}"]`).textContent = text;
    });
    for (const name of maps) {
      if (name === "coefficient") showSwitch();
      else paintPlanes(figure(name), name === "map" ? "coefficient" : name);
      if (name === "phases") hatch(figure(name), material.probability, limits.probability);
      else hatch(figure(name), material.identifiable, limits.identifiable);
    }
  }
  if (view.whole) {
    cut.forEach((_, a) => document.getElementById(`plane-${a}`).addEventListener("input", (event) => {
      cut[a] = Number(event.target.value);
      showPlanes();
      if (document.body.classList.contains("moved")) moved(); else showPoint();
    }));
    showPlanes();
  }
  for (const name of maps) {
    const area = figure(name).querySelector(".plot");
    area.classList.add("movable");
    area.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") follow(event, area); });
    area.addEventListener("pointerdown", (event) => follow(event, area));
  }
  showPoint();
})();
