// The pages of the course. What costs privacy is computed by the package; what is drawn is drawn here.
import { draw, format } from "./chart.js";

const lesson = document.querySelector("#lesson").dataset.lesson;
const form = document.querySelector("#controls"), facts = document.querySelector("#facts");
const place = (id) => document.getElementById(id);
let seed = 1, asked = 0, timer = 0;

// Chance that starts anew with the same seed, so that a slider moves a picture and does not shake it.
function chance(start) {
  let state = start >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const laplace = () => { const u = uniform() - 0.5; return -Math.sign(u) * Math.log(1 - 2 * Math.abs(u)); };
  return { uniform, normal, laplace };
}

function values() {
  const found = {};
  for (const slider of form.querySelectorAll("input")) {
    let value = Number(slider.value);
    if (slider.hasAttribute("data-log")) value = Math.exp(value);
    value = slider.hasAttribute("data-whole") ? Math.round(value) : Number(value.toPrecision(3));
    found[slider.name] = value;
    place(`${slider.name}-value`).textContent = format(value);
    slider.setAttribute("aria-valuetext", format(value));
  }
  return found;
}

async function compute(what, words) {
  const found = await (await fetch(`learn/${what}?${new URLSearchParams(words)}`)).json();
  if (found.error) throw new Error(found.error);
  return found;
}

const clip = ([x, y], norm) => { const length = Math.hypot(x, y); return length > norm ? [(x * norm) / length, (y * norm) / length] : [x, y]; };
const circle = (radius, [x, y] = [0, 0]) => { const turn = [...Array(65).keys()].map((i) => (2 * Math.PI * i) / 64); return { x: turn.map((t) => x + radius * Math.cos(t)), y: turn.map((t) => y + radius * Math.sin(t)) }; };
const mean = (rows) => rows.reduce(([a, b], [x, y]) => [a + x / rows.length, b + y / rows.length], [0, 0]);
const arrows = (rows) => ({ x: rows.flatMap(([x]) => [0, x, x]), y: rows.flatMap(([, y]) => [0, y, null]) });
const square = (half) => ({ xRange: [-half, half], yRange: [-half, half], height: 360, square: true, tip: false, xLabel: "first coordinate", yLabel: "second coordinate" });

const LESSONS = {
  async clipping({ norm, sigma, records }) {
    const draws = chance(seed), rows = [...Array(records)].map(() => { const far = draws.uniform() < 0.1 ? 3 : 1; return [far * (0.7 + 0.8 * draws.normal()), far * (0.3 + 0.8 * draws.normal())]; });
    const cut = rows.map((row) => clip(row, norm)), noise = [draws.normal(), draws.normal()];
    const truth = mean(rows), clipped = mean(cut), released = clipped.map((value, i) => value + (sigma * norm * noise[i]) / records);
    draw(place("cloud"), { ...square(4), title: "Gradients", description: `${records} gradients cut to length ${norm}.`, lines: [{ name: "as they are", ...arrows(rows), dashed: true, colour: 1 }, { name: "cut to C", ...arrows(cut), colour: 0 }, { name: "norm C", ...circle(norm), colour: 2 }] });
    const half = 1.25 * Math.max(...[truth, clipped, released].flat().map(Math.abs), (2 * sigma * norm) / records, 0.2);
    draw(place("mean"), { ...square(half), title: "The mean gradient", description: "The true mean, the mean of clipped gradients, and what is released.",
      lines: [{ name: "two deviations of the noise", ...circle((2 * sigma * norm) / records, clipped), dashed: true, colour: 4 }],
      points: [{ x: truth[0], y: truth[1], name: "true", colour: 1 }, { x: clipped[0], y: clipped[1], name: "clipped", colour: 0, dy: 16 }, { x: released[0], y: released[1], name: "released", colour: 2, r: 6, dy: -12 }] });
    const found = sigma > 0.01 ? await compute("gaussian", { multiplier: sigma }) : null;
    const share = rows.filter((row) => Math.hypot(...row) > norm).length / records;
    return `${format(100 * Number(share.toFixed(2)))}% of the gradients are cut. The noise on the mean has deviation ${format((sigma * norm) / records)}. ${found ? `This one release costs epsilon ${found.shown} at delta ${format(found.delta)}.` : "Without noise there is no privacy: epsilon is infinite."}`;
  },
  async composition({ epsilon, times }) {
    const found = await compute("compose", { epsilon, times });
    const lines = Object.entries(found.lines).map(([name, y]) => ({ name, x: found.x, y }));
    const most = Math.max(...found.lines.optimal) * 6;
    draw(place("composition"), { title: "Composition", xLabel: "releases T", yLabel: "epsilon of all", lines, yRange: [0, Math.min(most, Math.max(...found.lines.basic, ...found.lines["advanced, as printed"]))], description: `Optimal: ${format(found.lines.optimal.at(-1))} after ${times} releases.` });
    const last = (name) => format(found.lines[name].at(-1));
    return `${times} releases of epsilon ${format(epsilon)}: ${last("basic")} by adding up, ${last("advanced, as printed")} by advanced composition as lectures print it, ${last("advanced, sharper")} in its sharper form, ${last("optimal")} at best.`;
  },
  async amplification({ epsilon, rate }) {
    const found = await compute("amplify", { epsilon });
    const after = Math.log1p(rate * Math.expm1(epsilon));
    draw(place("amplified"), { title: "Amplification", xLabel: "sampling rate q", yLabel: "epsilon on the data", logX: true, logY: true, description: `${format(after)} at rate ${format(rate)}.`, lines: [{ name: "on the data", ...found }, { name: "q times epsilon", x: found.x, y: found.x.map((q) => q * epsilon), dashed: true, colour: 1 }], points: [{ x: rate, y: after, name: format(after), colour: 2 }] });
    const draws = chance(seed), side = 25, all = [...Array(side * side).keys()].map((i) => ({ x: i % side, y: Math.floor(i / side), isIn: draws.uniform() < rate }));
    draw(place("batch"), { title: "A batch", xLabel: "each dot is a record; the large ones were drawn", yLabel: "", xRange: [-1, side], yRange: [-1, side], height: 360, square: true, tip: false, xFormat: () => "", yFormat: () => "", description: `${all.filter((one) => one.isIn).length} of ${all.length} records were drawn.`, points: all.map((one) => ({ x: one.x, y: one.y, r: one.isIn ? 5 : 1.6, colour: one.isIn ? 0 : 1 })) });
    return `A release that costs epsilon ${format(epsilon)} on a batch costs ${format(after)} on the data: ${format(epsilon / after)} times less. ${all.filter((one) => one.isIn).length} of ${all.length} records were drawn this time.`;
  },
  async pate({ teachers, agreement, gamma, answers }) {
    const draws = chance(seed), classes = 5, counts = Array(classes).fill(0), shares = [agreement, ...Array(classes - 1).fill((1 - agreement) / (classes - 1))];
    for (let i = 0; i < teachers; i++) { let u = draws.uniform(), k = 0; while (k < classes - 1 && u > shares[k]) u -= shares[k++]; counts[k]++; }
    const noisy = counts.map((count) => count + draws.laplace() / gamma);
    draw(place("votes"), { title: "Votes", xLabel: "class; class 0 is right", yLabel: "votes", xRange: [-0.6, classes - 0.4], xFormat: (k) => (Number.isInteger(k) ? String(k) : ""), tip: false, description: `Votes: ${counts.join(", ")}.`, yRange: [Math.min(0, ...noisy), 1.1 * Math.max(...counts, ...noisy)],
      points: [...counts.map((y, k) => ({ x: k - 0.12, y, colour: 0, r: 6 })), ...noisy.map((y, k) => ({ x: k + 0.12, y, colour: 1, r: 6 }))], lines: [{ name: "votes", ...stems(counts, -0.12), colour: 0 }, { name: "with noise", ...stems(noisy, 0.12), colour: 1 }] });
    const right = (share) => { const own = chance(7); let hits = 0; for (let i = 0; i < 400; i++) { const found = Array(classes).fill(0).map((_, k) => teachers * (k ? (1 - share) / (classes - 1) : share) + own.laplace() / gamma); hits += found.indexOf(Math.max(...found)) === 0; } return hits / 400; };
    const x = [...Array(19).keys()].map((i) => 0.1 + 0.05 * i);
    draw(place("right"), { title: "Right answers", xLabel: "share of teachers that are right", yLabel: "the noisy winner is right", xFormat: (v) => `${format(100 * v)}%`, yFormat: (v) => `${format(100 * v)}%`, yRange: [0, 1.02], lines: [{ name: "right", x, y: x.map(right) }], marks: [{ x: agreement, name: "now" }], description: "The more teachers agree, the more often the noisy winner is right." });
    const cost = await compute("vote", { gamma, answers });
    const winner = noisy.indexOf(Math.max(...noisy));
    return `The noisy winner is class ${winner}${winner ? ", which is wrong" : ""}. An answer costs epsilon ${cost.one}; ${answers} answers cost ${cost.all} together, at delta ${format(cost.delta)}.`;
  },
  async membership({ bins, records, sigma }) {
    const draws = chance(seed), sample = () => { const x = draws.uniform(); return { x, y: Math.max(-1, Math.min(1, Math.sin(2 * Math.PI * x) * 0.7 + 0.35 * draws.normal())) }; };
    const members = [...Array(records)].map(sample), outsiders = [...Array(400)].map(sample), sums = Array(bins).fill(0), counts = Array(bins).fill(0), bin = (x) => Math.min(Math.floor(x * bins), bins - 1);
    for (const { x, y } of members) { sums[bin(x)] += y; counts[bin(x)] += 1; }
    // One record moves a sum by at most 1 and a count by 1: a vector of length at most root 2.
    const own = chance(seed + 99), spread = sigma * Math.SQRT2, level = sums.map((sum, b) => { const s = sum + spread * own.normal(), n = counts[b] + spread * own.normal(); return n < 0.5 ? 0 : Math.max(-1, Math.min(1, s / n)); });
    const loss = ({ x, y }) => (y - level[bin(x)]) ** 2, inside = members.map(loss).sort((a, b) => a - b), outside = outsiders.map(loss).sort((a, b) => a - b);
    draw(place("fit"), { title: "The model", xLabel: "x", yLabel: "label", xRange: [0, 1], yRange: [-1.1, 1.1], tip: false, height: 320, description: `Means of ${bins} bins.`, points: members.map(({ x, y }) => ({ x, y, r: 3, colour: 1 })), lines: [{ name: "model", ...stairs(level) }] });
    const grid = [...Array(101).keys()].map((i) => i / 100), found = grid.map((rate) => { const threshold = outside[Math.min(Math.floor(rate * outside.length), outside.length - 1)]; return inside.filter((value) => value < threshold || rate === 1).length / inside.length; });
    let bound = null, said = "Without noise nothing is promised: epsilon is infinite.";
    if (sigma > 0.01) { const cost = await compute("gaussian", { multiplier: sigma }); const e = Math.exp(Math.min(cost.epsilon, 700)); bound = grid.map((rate) => Math.min(e * rate + cost.delta, 1 - (1 - cost.delta - rate) / e, 1)); said = `This model costs epsilon ${cost.shown} at delta ${format(cost.delta)}.`; }
    const percent = (v) => `${format(100 * v)}%`;
    draw(place("losses"), { title: "The attack", xLabel: "outsiders called members", yLabel: "members found", xRange: [0, 1], yRange: [0, 1], height: 320, xFormat: percent, yFormat: percent, description: "Members found by the loss, at every false-positive rate.", lines: [{ name: "threshold on the loss", x: grid, y: found }, { name: "guessing", x: [0, 1], y: [0, 1], dashed: true, colour: 1 }, ...(bound ? [{ name: "any attack, at most", x: grid, y: bound, colour: 2 }] : [])] });
    const advantage = Math.max(...grid.map((rate, i) => found[i] - rate));
    const average = (losses) => losses.reduce((a, b) => a + b, 0) / losses.length;
    return `Mean loss: ${format(average(inside))} of members, ${format(average(outside))} of outsiders. The attack's best advantage over guessing: ${format(100 * Number(advantage.toFixed(3)))} points. ${said}`;
  },
  async descent({ epsilon, steps, records, rate }) {
    const { multiplier, first } = await compute("descend", { epsilon, steps });
    const draws = chance(seed), norm = 2, rows = [...Array(Math.min(records, 5000))].map(() => [0.6 * draws.normal(), 0.4 * draws.normal()]), bottom = mean(rows);
    const walk = (noise, luck) => { const own = chance(luck), path = [[-2.4, 1.8]]; for (let t = 0; t < steps; t++) { const at = path.at(-1); let sum = [0, 0]; for (const row of rows) { const g = clip([at[0] - row[0], at[1] - row[1]], norm); sum = [sum[0] + g[0], sum[1] + g[1]]; } path.push(at.map((value, i) => value - (rate * (sum[i] + noise * norm * own.normal())) / records)); } return path; };
    const noisy = walk(multiplier, seed + 5), plain = walk(0, 1), away = (path) => path.map(([x, y]) => Math.hypot(x - bottom[0], y - bottom[1]));
    const line = (path) => ({ x: path.map(([x]) => x), y: path.map(([, y]) => y) });
    const contours = [0.5, 1.2, 2, 3].map((radius, i) => ({ name: i ? "" : "the bowl", ...circle(radius, bottom), colour: 4, dashed: true }));
    draw(place("bowl"), { ...square(3.4), title: "The way down", description: `${steps} steps with noise multiplier ${format(multiplier)}.`, lines: [{ name: "private", ...line(noisy), colour: 0 }, { name: "without noise", ...line(plain), colour: 1 }, ...contours], points: [{ x: bottom[0], y: bottom[1], name: "bottom", colour: 2, r: 6 }, { x: noisy.at(-1)[0], y: noisy.at(-1)[1], name: "", colour: 0, r: 5 }] });
    const times = [...Array(steps + 1).keys()];
    draw(place("distance"), { title: "Distance to the bottom", xLabel: "step", yLabel: "distance", height: 340, lines: [{ name: "private", x: times, y: away(noisy) }, { name: "without noise", x: times, y: away(plain) }], description: `It ends ${format(away(noisy).at(-1))} away.` });
    return `Epsilon ${format(epsilon)} in ${steps} steps takes a noise multiplier of ${format(multiplier)}${first ? `; by the lecture's first analysis ${format(first)}, on sums of the same gradients with a record replaced` : ""}. The private path ends ${format(Number(away(noisy).at(-1).toPrecision(3)))} from the bottom, the other ${format(Number(away(plain).at(-1).toPrecision(3)))}.`;
  },
};

// Lines from zero up to each height, with gaps between them.
function stems(heights, shift) {
  return { x: heights.flatMap((_, k) => [k + shift, k + shift, k + shift]), y: heights.flatMap((height) => [0, height, null]) };
}
function stairs(levels) {
  return { x: levels.flatMap((_, b) => [b / levels.length, (b + 1) / levels.length]), y: levels.flatMap((level) => [level, level]) };
}

async function show() {
  const mine = ++asked;
  try {
    const said = await LESSONS[lesson](values());
    if (mine === asked) facts.textContent = said;
  } catch (problem) {
    if (mine === asked) facts.textContent = problem.message;
  }
}
form.addEventListener("input", () => { values(); clearTimeout(timer); timer = setTimeout(show, 30); });
form.addEventListener("submit", (event) => event.preventDefault());
document.querySelector("#again")?.addEventListener("click", () => { seed += 1; show(); });
show();
