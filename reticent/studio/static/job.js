// What a command says, line by line, until it has ended.
import { element } from "./chart.js";
import { send } from "./action.js";
import "./copy.js";

const number = new URLSearchParams(location.search).get("number");
const bars = document.querySelector("#bars"), log = document.querySelector("#log");
const state = document.querySelector("#state"), stop = document.querySelector("#stop"), result = document.querySelector("#result");
const shown = new Map();
const source = new EventSource(`job/events?number=${number}`);

function showBar({ name, done, said }) {
  if (!shown.has(name)) {
    const bar = element("progress", { max: 1, "aria-label": name }), percent = element("span", { class: "number" }), words = element("span");
    bars.append(element("div", {}, words, percent, bar));
    shown.set(name, { bar, percent, words });
  }
  const { bar, percent, words } = shown.get(name);
  words.textContent = said && said !== name ? `${name}: ${said}` : name;
  if (done == null) bar.removeAttribute("value");
  else { bar.value = done; percent.textContent = `${Math.floor(100 * done)}%`; }
}

source.addEventListener("message", (event) => {
  const facts = JSON.parse(event.data);
  for (const line of facts.lines) {
    const [kind, said] = Object.entries(line)[0];
    log.append(element("li", { class: { warning: "warning", error: "error-line" }[kind] ?? null }, String(said)));
  }
  facts.bars.forEach(showBar);
  state.textContent = facts.state;
  state.className = `badge ${facts.state.split(" ")[0]}`;
  if (facts.code == null) return;
  source.close();
  stop.hidden = true;
  for (const { bar, percent } of shown.values()) {
    if (facts.code === 0) { bar.value = 1; percent.textContent = "100%"; } else if (!bar.hasAttribute("value")) bar.value = 0;
  }
  if (result && (facts.code === 0 || facts.code === 130)) { result.hidden = false; result.focus(); }
  if (facts.output.trim()) {
    document.querySelector("#printed").textContent = facts.output;
    document.querySelector("#output").hidden = false;
  }
});
// It would ask again by itself, and be told everything a second time.
source.addEventListener("error", () => {
  source.close();
  state.textContent = "The studio does not answer any more: reload the page when it runs again.";
  state.className = "badge failed";
});
stop.addEventListener("click", async () => {
  stop.disabled = true;
  stop.textContent = "Stopping…";
  await send("job", "stop", { number });
});
