// A table that is dropped is copied into the folder; then its page is opened.
const drop = document.querySelector("#drop"), chosen = document.querySelector("#file"), sent = document.querySelector("#sent"), error = document.querySelector("#error");

function send(file) {
  const request = new XMLHttpRequest();
  sent.hidden = false;
  error.hidden = true;
  request.upload.addEventListener("progress", (event) => { sent.value = event.loaded / event.total; });
  request.addEventListener("load", () => {
    const found = JSON.parse(request.responseText);
    if (found.error) return fail(found.error);
    location.href = `train?file=${encodeURIComponent(found.name)}`;
  });
  request.addEventListener("error", () => fail("The studio does not answer any more."));
  request.open("POST", `train/drop?name=${encodeURIComponent(file.name)}`);
  request.send(file);
}
function fail(said) {
  sent.hidden = true;
  error.textContent = said;
  error.hidden = false;
}
chosen.addEventListener("change", () => chosen.files[0] && send(chosen.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  });
}
