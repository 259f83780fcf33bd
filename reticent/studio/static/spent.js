// What was spent after each charge, below the limit; over time where charges are days apart.
import { draw, format } from "./chart.js";

const DAY = 86_400_000;
for (const place of document.querySelectorAll("[data-spent]")) {
  const { points, limit } = JSON.parse(place.dataset.spent);
  const times = points.map((point) => Date.parse(point[1])), isLong = times.at(-1) - times[0] > 2 * DAY;
  const x = isLong ? [times[0], ...times, times.at(-1) + DAY] : [0, ...points.map((_, number) => number + 1), points.length + 1];
  const y = [0, ...points.map((point) => point[2])];
  y.push(y.at(-1));
  const date = (time) => new Date(time).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
  draw(place, {
    title: "Spent over charges", description: `After ${points.length} charges ${format(y.at(-1))} of ${format(limit)} is spent.`,
    xLabel: isLong ? "time" : "charge", yLabel: "epsilon of all together", height: 230, xFormat: isLong ? date : (value) => (Number.isInteger(value) ? String(value) : ""),
    lines: [{ name: "spent", x, y, steps: true }], marks: [{ y: limit, name: `limit ${format(limit)}` }], yRange: [0, 1.12 * Math.max(limit, ...y)],
  });
}
