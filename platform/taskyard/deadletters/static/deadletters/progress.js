"use strict";
// Asks for the progress every two seconds. When more has changed than figures (the state and its buttons, the
// outcome of the sample), the page is loaded again.
{
  const place = document.getElementById("progress");
  const bar = place.querySelector("[data-bar]");
  const show = (name, text) => {
    const element = place.querySelector(`[data-show="${name}"]`);
    element.textContent = text;
    if (name === "last_error") { element.hidden = !text; }
  };
  const ask = async () => {
    try {
      const response = await fetch(place.dataset.url, { headers: { Accept: "application/json" } });
      if (!response.ok) { throw new Error(`status ${response.status}`); }
      const progress = await response.json();
      if (progress.page !== place.dataset.page) { window.location.reload(); return; }
      bar.max = progress.total;
      bar.value = progress.dealt_with;
      ["state_text", "total_text", "replayed_text", "failed_text", "came_back_text", "last_error"].forEach(
        (name) => show(name, progress[name]),
      );
    } catch (error) {
      show("last_error", `The progress cannot be read (${error.message}); asking again.`);
    }
    window.setTimeout(ask, 2000);
  };
  window.setTimeout(ask, 2000);
}
