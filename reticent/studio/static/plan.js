// The page of a plan: every change of a field asks for the cost, the curves and the odds anew.
import { draw, element, format } from "./chart.js";
import "./copy.js";

const form = document.querySelector("#plan");
const error = document.querySelector("#error");
const results = document.querySelector("#results");
const measured = JSON.parse(document.querySelector("#measured").textContent);
const LOGARITHMIC = { rows: [100, 1e7], batch: [1, 1e5], epochs: [0.1, 1000], multiplier: [0.2, 50], delta: [1e-9, 1e-3], target: [0.05, 20] };
let asked = 0, pending = null, timer = 0, epsilon = null;

const text = (id, value) => { document.getElementById(id).textContent = value; };
const words = () => new URLSearchParams(new FormData(form));

function toSlider(name, value) {
  const [low, high] = LOGARITHMIC[name].map(Math.log);
  return (1000 * (Math.log(Math.max(value, 1e-300)) - low)) / (high - low);
}
function fromSlider(name, place) {
  const [low, high] = LOGARITHMIC[name].map(Math.log);
  const value = Math.exp(low + ((high - low) * place) / 1000);
  if (name === "rows" || name === "batch") return String(Number(value.toPrecision(value < 1000 ? 3 : 2)) | 0);
  return name === "delta" ? value.toExponential(0).replace("e+", "e") : String(Number(value.toPrecision(3)));
}

async function ask(path, extra = {}) {
  const query = words();
  for (const [key, value] of Object.entries(extra)) query.set(key, value);
  const answer = await fetch(`plan/${path}?${query}`, { signal: pending.signal });
  const found = await answer.json();
  if (found.error) throw new Error(found.error);
  return found;
}

async function refresh() {
  pending?.abort();
  pending = new AbortController();
  const mine = ++asked;
  results.classList.add("busy");
  for (const name of Object.keys(LOGARITHMIC)) {
    const field = form.elements[name];
    form.querySelector(`[data-for="${name}"]`).value = toSlider(name, Number(field.value));
  }
  form.querySelector("#bands-field").hidden = form.elements.noise.value !== "banded";
  form.querySelector("#batch-field").hidden = form.elements.sampling.value === "full";
  history.replaceState(null, "", `plan?${words()}`);
  try {
    showPrice(await ask("price"));
    error.hidden = true;
    results.hidden = false;
    results.classList.remove("busy");
    const [lines, odds] = await Promise.all([ask("curves"), ask("odds")]);
    if (mine !== asked) return;
    showCurves(lines);
    showOdds(odds);
    await showTake(mine);
  } catch (problem) {
    if (problem.name === "AbortError" || mine !== asked) return;
    error.textContent = problem.message;
    error.hidden = false;
  }
}

function showPrice(found) {
  epsilon = found.epsilon;
  text("epsilon", found.epsilon == null ? "∞" : found.epsilon_shown);
  text("lower", `No analysis of the same releases can claim less than ${found.lower_shown}.`);
  text("steps", new Intl.NumberFormat("en").format(found.steps));
  text("factor", found.epsilon == null || found.epsilon > 30 ? "no limit worth the name" : `${format(Number(found.factor))}×`);
  text("sentence", found.sentence);
  text("command", found.command);
  text("python", found.python);
  const finite = found.accountants.map((row) => row.epsilon).filter((value) => value > 0);
  const [low, high] = [Math.min(...finite) / 2, Math.max(...finite)].map(Math.log);
  const rows = found.accountants.map((row) => {
    const bar = element("span", { class: "bar-cell" });
    bar.style.width = row.epsilon > 0 ? `${Math.max(100 * (Math.log(row.epsilon) - low) / (high - low || 1), 2)}%` : "0";
    const isBest = row.epsilon != null && row.epsilon <= Math.min(...finite) * 1.0000001;
    return element("tr", { class: isBest ? "best" : null }, element("th", { scope: "row" }, row.name), element("td", { class: "number" }, row.shown), element("td", {}, bar));
  });
  document.querySelector("#accountants").replaceChildren(...rows);
  showMeasured();
}

function showCurves(found) {
  const last = found.lines[0];
  const target = Number(form.elements.target.value);
  draw(document.querySelector("#curve"), {
    title: "Epsilon over epochs", xLabel: "epochs", yLabel: "epsilon (upper bound)", lines: found.lines,
    description: last ? `Epsilon rises to ${format(last.y.at(-1))} after ${format(last.x.at(-1))} epochs.` : "",
    marks: target > 0 && last && target < 1.2 * Math.max(...last.y) ? [{ y: target, name: `target ${format(target)}` }] : [],
  });
  text("curve-note", found.is_whole ? "Correlated noise is made for the whole run, so it costs as much from its first step on." : "Each point is a run that was planned to stop there.");
}

const percent = (value) => `${format(100 * value)}%`;

function showOdds(found) {
  text("guess", `${found.guess_shown}%`);
  text("belief", `${found.belief_1}%`);
  draw(document.querySelector("#beliefs"), {
    title: "What somebody may come to believe", xLabel: "belief before", yLabel: "belief after, at most", xFormat: percent, yFormat: percent, xRange: [0, 1], yRange: [0, 1],
    description: `Whoever thought 1% likely that a person is in the data may come to believe at most ${found.belief_1}%.`,
    lines: [{ name: "after seeing the model, at most", ...found.beliefs }, { name: "before", x: [0, 1], y: [0, 1], dashed: true, colour: 1 }],
  });
  draw(document.querySelector("#tradeoff"), {
    title: "What any attack can find", xLabel: "false positives", yLabel: "members found, at most", logX: true, logY: true, xFormat: percent, yFormat: percent, yRange: [1e-4, 1],
    description: `From even odds nobody guesses right more than ${found.guess_shown}% of the time.`,
    lines: [{ name: "any attack, at most", ...found.tradeoff }, { name: "guessing", x: found.tradeoff.x, y: found.tradeoff.x, dashed: true, colour: 1 }],
  });
}

async function showTake(mine) {
  for (const cell of document.querySelectorAll("[data-take]")) { cell.textContent = "…"; cell.title = ""; cell.nextElementSibling.replaceChildren(); }
  for (const cell of document.querySelectorAll("[data-take]")) {
    const found = await ask("take", { what: cell.dataset.take });
    if (mine !== asked) return;
    cell.textContent = found.shown;
    if (found.why) cell.append(element("span", { class: "hint" }, element("br"), found.why));
    if (found.value == null) continue;
    const use = element("button", { type: "button", class: "quiet small-button" }, "Use");
    use.setAttribute("aria-label", `Use ${found.shown} as ${cell.previousElementSibling.textContent}`);
    use.addEventListener("click", () => { form.elements[cell.dataset.take].value = found.value; refresh(); });
    cell.nextElementSibling.replaceChildren(use);
  }
}

function showMeasured() {
  const chosen = measured[document.querySelector("#like").value];
  const at = epsilon;
  const near = chosen.points;
  draw(document.querySelector("#accuracy"), {
    title: `${chosen.score} by epsilon, ${chosen.name}`, xLabel: "epsilon", yLabel: `${chosen.score} (estimate)`, logX: true, yFormat: (value) => `${format(value)}%`,
    xRange: [Math.min(0.25, at ?? 1), Math.max(10, at ?? 1)], yRange: [Math.min(...near.map((point) => point.score)) - 2, Math.min(Math.max(...near.map((point) => point.score)) + 1.5, 100)],
    description: near.map((point) => `${point.score}% at epsilon ${point.epsilon}`).join("; "), tip: false,
    lines: [{ name: "measured", x: near.map((point) => point.epsilon), y: near.map((point) => point.score), dashed: true }],
    points: near.map((point) => ({ x: point.epsilon, y: point.score, name: `${point.score}` })),
    marks: at ? [{ x: at, name: `this plan, ${document.getElementById("epsilon").textContent}` }] : [],
  });
  text("expected", at == null ? "" : expected(chosen, at));
  text("measured-from", `${chosen.recipe}. Measured by ${chosen.command}; see ${chosen.page}.`);
}

function expected(chosen, at) {
  const points = chosen.points, first = points[0], last = points.at(-1);
  if (at < first.epsilon) return `Below epsilon ${first.epsilon}, where we did not measure: less than about ${first.score}%.`;
  if (at >= last.epsilon) return `About ${last.score}%, what we measured at epsilon ${last.epsilon}.`;
  const next = points.findIndex((point) => point.epsilon > at), [a, b] = [points[next - 1], points[next]];
  const share = Math.log(at / a.epsilon) / Math.log(b.epsilon / a.epsilon);
  return `About ${(a.score + share * (b.score - a.score)).toFixed(1)}%, between what we measured at epsilon ${a.epsilon} and ${b.epsilon}.`;
}

form.addEventListener("input", (event) => {
  const name = event.target.dataset.for;
  if (name) form.elements[name].value = fromSlider(name, Number(event.target.value));
  clearTimeout(timer);
  timer = setTimeout(refresh, 120);
});
form.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
document.querySelector("#like").addEventListener("change", showMeasured);
refresh();
