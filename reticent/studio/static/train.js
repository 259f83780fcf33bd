// The page of a training: every change asks for the price and the command anew.
import { element } from "./chart.js";
import { send } from "./action.js";

const form = document.querySelector("#training"), error = document.querySelector("#error"), refused = document.querySelector("#refused");
const isTable = form.hasAttribute("data-table");
let timer = 0, asked = 0;
const show = (id, isShown) => { const place = document.getElementById(id); if (place) place.hidden = !isShown; };
const text = (id, value) => { document.getElementById(id).textContent = value; };

function fields() {
  const all = new FormData(form), found = {}, columns = {};
  for (const name of ["source", "target", "task", "known", "classes", "epsilon", "delta", "model", "method", "prepare", "output"]) found[name] = String(all.get(name) ?? "");
  const [ledger, dataset] = String(all.get("account") ?? "").split("\n");
  Object.assign(found, { ledger, dataset: dataset ?? "" });
  for (const row of form.querySelectorAll("[data-column]")) {
    const place = row.dataset.column, kind = all.get(`kind-${place}`);
    if (kind && kind !== "open" && row.dataset.name !== found.target) columns[row.dataset.name] = { kind, low: all.get(`low-${place}`), high: all.get(`high-${place}`), values: all.get(`values-${place}`) };
  }
  return { ...found, columns: JSON.stringify(columns) };
}

function arrange() {
  const target = form.elements.target?.value;
  for (const row of form.querySelectorAll("[data-column]")) {
    const kind = row.querySelector("select"), isTarget = row.dataset.name === target;
    kind.disabled = isTarget;
    row.classList.toggle("target", isTarget);
    row.querySelector(".bounds").hidden = isTarget || kind.value !== "number";
    row.querySelector(".words").hidden = isTarget || kind.value !== "words";
    row.querySelector(".public").textContent = isTarget ? "its name, and what is predicted" : kind.value === "open" ? "its name" : "its name, and what you declare";
  }
  if (!isTable) return;
  show("known-field", form.elements.task.value !== "regress");
  show("classes-field", form.elements.task.value !== "regress" && form.elements.known.value === "declared");
}

async function refresh() {
  const mine = ++asked, now = fields();
  if (isTable && !now.target) return;
  const isNew = document.querySelector("#priced").hidden;
  text("unpriced", "Working out the price…");
  show("unpriced", isNew);
  refused.hidden = true;
  try { text("line", (await send("say", "train", now)).command); error.hidden = true; } catch (problem) { text("line", ""); error.textContent = problem.message; error.hidden = false; }
  document.querySelector("#priced").classList.add("busy");
  try {
    const found = await send("train", "price", now);
    if (mine !== asked) return;
    refused.hidden = true;
    text("price-epsilon", found.epsilon);
    text("price-preparation", found.preparation ?? "0");
    text("price-rows", new Intl.NumberFormat("en").format(found.rows));
    document.querySelector("#price-found").replaceChildren(...found.found.map((what) => element("li", {}, `Found privately: ${what}.`)));
    text("price-model", `Model: ${found.model}.`);
    text("price-method", `Method: ${found.method}.`);
    text("price-expected", found.expected);
    show("unpriced", false);
    show("priced", true);
  } catch (problem) {
    if (mine !== asked) return;
    refused.textContent = problem.message;
    refused.hidden = false;
    show("unpriced", false);
    show("priced", false);
  }
  document.querySelector("#priced").classList.remove("busy");
}

form.addEventListener("input", () => {
  arrange();
  clearTimeout(timer);
  timer = setTimeout(refresh, 250);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = document.querySelector("#train");
  button.disabled = true;
  try {
    location.href = `job?number=${(await send("do", "train", fields())).number}`;
  } catch (problem) {
    error.textContent = problem.message;
    error.hidden = false;
    button.disabled = false;
  }
});
arrange();
refresh();
