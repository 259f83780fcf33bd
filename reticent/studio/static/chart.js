// Charts as SVG: axes with labels, lines, bands, points and marks, readable aloud, in the colours of the page.
// Drawn at the width of their place, and again when that changes.

const SPACE = "http://www.w3.org/2000/svg";
let made = 0;

export function element(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "text", "circle", "rect", "g", "title", "desc", "line", "polygon", "ellipse"];
  const node = svg.includes(name) ? document.createElementNS(SPACE, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

export function format(value) {
  if (value == null || !Number.isFinite(value)) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(0).replace("e+", "e");
  return new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(value);
}

function scale([low, high], [start, end], isLog) {
  const place = isLog ? Math.log : (value) => value;
  const [a, b] = [place(low), place(high)];
  return (value) => start + Math.min(Math.max((place(Math.max(value, isLog ? 1e-300 : value)) - a) / (b - a || 1), 0), 1) * (end - start);
}

function ticks([low, high], isLog, count) {
  if (isLog) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(Math.ceil((last - first) / 6), 1), found = [];
    for (let power = first; power <= last; power += every) found.push(10 ** power);
    return found;
  }
  const rough = (high - low) / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).reduce((a, b) => (Math.abs(b - rough) < Math.abs(a - rough) ? b : a));
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place <= high / step + 1e-9; place++) found.push(place * step);
  return found;
}

function range(values, isLog, fromZero) {
  const usable = values.filter((value) => Number.isFinite(value) && (value > 0 || !isLog));
  if (!usable.length) return isLog ? [0.1, 1] : [0, 1];
  let [low, high] = [Math.min(...usable), Math.max(...usable)];
  if (isLog) return low === high ? [low / 2, high * 2] : [low, high];
  if (fromZero) { low = Math.min(low, 0); high *= 1.05; }
  return high > low ? [low, high] : [low - 0.5, low + 0.5];
}

export function draw(place, spec) {
  place.classList.add("chart");
  place.spec = spec;
  if (!place.watched) {
    place.watched = new ResizeObserver(() => place.clientWidth !== place.drawnWidth && paint(place));
    place.watched.observe(place);
  }
  paint(place);
}

function paint(place) {
  const spec = place.spec, width = Math.max(place.clientWidth, 240);
  let height = spec.height ?? Math.min(Math.max(width * 0.52, 220), 330);
  place.drawnWidth = place.clientWidth;
  const top = 12;
  let left = 64, right = width - 22, bottom = height - 42;
  if (spec.square) {
    const spare = (right - left - (bottom - top)) / 2;
    if (spare > 0) [left, right] = [left + spare, right - spare];
    else height = (bottom = top + right - left) + 42;
  }
  const lines = spec.lines ?? [], points = spec.points ?? [], bands = spec.bands ?? [], marks = spec.marks ?? [];
  const xs = [...lines.flatMap((line) => line.x), ...points.map((point) => point.x)];
  const ys = [...lines.flatMap((line) => line.y.filter((y) => y != null)), ...points.map((point) => point.y), ...bands.flatMap((band) => [...band.low, ...band.high])];
  const xRange = spec.xRange ?? range(xs, spec.logX, false), yRange = spec.yRange ?? range(ys, spec.logY, !spec.logY);
  const across = scale(xRange, [left, right], spec.logX), up = scale(yRange, [bottom, top], spec.logY);
  const id = `chart-${++made}`;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": `${id}-t ${id}-d` },
    element("title", { id: `${id}-t` }, spec.title), element("desc", { id: `${id}-d` }, spec.description));
  for (const tick of ticks(yRange, spec.logY, 5)) {
    svg.append(element("path", { class: "grid", d: `M${left} ${up(tick).toFixed(1)}H${right}` }),
      element("text", { x: left - 7, y: up(tick) + 4, "text-anchor": "end" }, (spec.yFormat ?? format)(tick)));
  }
  for (const tick of ticks(xRange, spec.logX, Math.max(Math.min(width / 90, 7), 3))) {
    svg.append(element("text", { x: across(tick), y: bottom + 17, "text-anchor": "middle" }, (spec.xFormat ?? format)(tick)));
  }
  svg.append(element("path", { class: "axis", d: `M${left} ${bottom}H${right}` }),
    element("text", { class: "label", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, spec.xLabel),
    element("text", { class: "label", transform: `translate(${left - 52} ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.yLabel));
  for (const band of bands) {
    const there = band.x.map((x, i) => `${across(x).toFixed(1)},${up(band.high[i]).toFixed(1)}`);
    const back = band.x.map((x, i) => `${across(x).toFixed(1)},${up(band.low[i]).toFixed(1)}`).reverse();
    svg.append(element("polygon", { class: "band", points: [...there, ...back].join(" ") }));
  }
  lines.forEach((line, number) => {
    let path = "", isBegun = false;
    line.x.forEach((x, i) => {
      const isThere = line.y[i] != null && Number.isFinite(line.y[i]);
      if (!isThere) { isBegun = false; return; }
      if (isBegun && line.steps) path += `H${across(x).toFixed(1)}`;
      path += `${isBegun ? "L" : "M"}${across(x).toFixed(1)} ${up(line.y[i]).toFixed(1)}`;
      isBegun = true;
    });
    svg.append(element("path", { class: `line c${line.colour ?? number}`, d: path || "M0 0", "stroke-dasharray": line.dashed ? "5 4" : null }));
  });
  for (const mark of marks) {
    const at = mark.x != null ? `M${across(mark.x).toFixed(1)} ${top}V${bottom}` : `M${left} ${up(mark.y).toFixed(1)}H${right}`;
    svg.append(element("path", { class: "mark", d: at }));
    if (mark.name) {
      const isRight = mark.x != null && across(mark.x) > (left + right) / 2;
      svg.append(element("text", mark.x != null ? { x: across(mark.x) + (isRight ? -5 : 5), y: top + 10, "text-anchor": isRight ? "end" : "start" } : { x: right, y: up(mark.y) - 5, "text-anchor": "end" }, mark.name));
    }
  }
  for (const point of points) {
    svg.append(element("circle", { class: `dot c${point.colour ?? 0}`, cx: across(point.x), cy: up(point.y), r: point.r ?? 5 }));
    if (point.name) {
      const isRight = across(point.x) > right - 90;
      svg.append(element("text", { x: across(point.x) + (isRight ? -9 : 9), y: up(point.y) + 4 + (point.dy ?? 0), "text-anchor": isRight ? "end" : "start" }, point.name));
    }
  }
  place.replaceChildren(svg);
  const named = [...lines.map((line, number) => [line.name, `c${line.colour ?? number}`]), ...bands.map((band) => [band.name, "band"])].filter(([name]) => name);
  if (named.length > 1) {
    place.append(element("ul", { class: "legend" }, ...named.map(([name, kind]) => element("li", {}, element("span", { class: `key ${kind}` }), name))));
  }
  if (lines.length && spec.tip !== false) follow(place, svg, lines, { across, left, right, top, bottom, width, spec });
}

// Values under the pointer.
function follow(place, svg, lines, { across, left, right, top, bottom, width, spec }) {
  const cross = element("path", { class: "cross", d: "" }), tip = element("div", { class: "tip", hidden: "" });
  svg.append(cross);
  place.append(tip);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; cross.setAttribute("d", ""); });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * width;
    if (at < left || at > right) return;
    const longest = lines.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    const nearest = longest.x.reduce((best, x) => (Math.abs(across(x) - at) < Math.abs(across(best) - at) ? x : best), longest.x[0]);
    cross.setAttribute("d", `M${across(nearest)} ${top}V${bottom}`);
    const said = lines.map((line) => {
      const i = line.x.indexOf(nearest);
      return i < 0 || line.y[i] == null ? null : element("div", {}, `${line.name}: ${(spec.yFormat ?? format)(line.y[i])}`);
    });
    tip.replaceChildren(element("div", {}, `${spec.xLabel}: ${(spec.xFormat ?? format)(nearest)}`), ...said.filter(Boolean));
    tip.hidden = false;
    const x = (across(nearest) / width) * box.width;
    tip.style.left = x > box.width / 2 ? "auto" : `${x + 10}px`;
    tip.style.right = x > box.width / 2 ? `${box.width - x + 10}px` : "auto";
  });
}
