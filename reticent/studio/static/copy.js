// Buttons that copy the command beside them.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(".copy");
  if (!button) return;
  const text = button.closest(".command").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const chosen = document.createRange();
    chosen.selectNodeContents(button.closest(".command").querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(chosen);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
