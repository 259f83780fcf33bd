// What would still fit is searched for after the page is there: it takes some seconds.
for (const place of document.querySelectorAll(".fits")) {
  const query = new URLSearchParams({ name: place.dataset.ledger, dataset: place.dataset.dataset });
  fetch(`ledger/fits?${query}`).then((answer) => answer.json()).then((found) => { place.textContent = found.error ?? found.said; }).catch(() => { place.textContent = ""; });
}
