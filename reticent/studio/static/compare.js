// Runs as points: how good, how much they leak, at what epsilon.
import { draw, element, format } from "./chart.js";

const points = JSON.parse(document.querySelector("#points").textContent);
const percent = (value) => `${format(100 * value)}%`;
const chart = (id, key, name, yLabel, guess, shown) => {
  const place = document.getElementById(id), known = points.filter((point) => point[key] != null && point.epsilon != null);
  if (!known.length) return place.replaceWith(element("p", { class: "empty" }, `No run has ${name} yet.`));
  draw(place, {
    title: yLabel, xLabel: "epsilon (proved)", yLabel, yFormat: shown,
    description: known.map((point) => `${point.name}: ${shown(point[key])} at epsilon ${format(point.epsilon)}`).join("; "),
    xRange: [0, 1.25 * Math.max(...known.map((point) => point.epsilon))],
    yRange: padded(known.map((point) => point[key]), guess),
    points: known.map((point, number) => ({ x: point.epsilon, y: point[key], name: point.name.split("/").at(-1), colour: number % 8, r: 6 })),
    marks: guess == null ? [] : [{ y: guess, name: "guessing" }],
  });
};
function padded(values, guess) {
  const all = guess == null ? values : [...values, guess], low = Math.min(...all), high = Math.max(...all), more = 0.15 * (high - low || Math.abs(high) || 1);
  return [Math.max(low - more, Math.min(low, 0)), high + more];
}
const score = points.find((point) => point.score_name)?.score_name ?? "score";
const leak = points.find((point) => point.leak_name)?.leak_name ?? "leakage";
const guesses = [...new Set(points.map((point) => point.guess).filter((guess) => guess != null))];
chart("scores", "score", "a score", `${score} (estimate)`, null, score === "accuracy" ? percent : format);
chart("leaks", "leak", "been attacked", `${leak} (estimate)`, guesses.length === 1 ? guesses[0] : null, percent);
