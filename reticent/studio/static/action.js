// Forms that run a command: the command is shown as the fields change, and its page is opened when it starts.
export async function send(path, action, fields) {
  const answer = await fetch(`${path}/${action}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields) });
  const found = await answer.json();
  if (found.error) throw new Error(found.error);
  return found;
}

function watch(form) {
  const error = form.querySelector(".error"), line = form.querySelector(".line");
  const fields = () => Object.fromEntries(new FormData(form));
  form.addEventListener("input", async () => {
    try { line.textContent = (await send("say", form.dataset.action, fields())).command; } catch { /* it is said when the button is pressed */ }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button:not([type])");
    button.disabled = true;
    try {
      location.href = `job?number=${(await send("do", form.dataset.action, fields())).number}`;
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
      button.disabled = false;
    }
  });
}
for (const form of document.querySelectorAll("form.action")) watch(form);
