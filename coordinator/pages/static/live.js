// Keeps a page live: the server says that something happened, and the page asks for itself again, once a second at most.
"use strict";
(() => {
  const state = document.getElementById("live");
  const main = document.querySelector("main");
  const subject = document.body.dataset.subject || null; // the only table whose events matter here
  const pollS = Number(document.body.dataset.poll || 0);
  const onEvents = document.body.dataset.events !== "no";
  let wanted = false;
  let asking = false;

  async function refresh() {
    if (asking || !wanted) return;
    asking = true;
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      // Not while somebody types into a filter, and without losing what is folded open or where it is scrolled to.
      if (!fresh || main.contains(document.activeElement) && ["INPUT", "SELECT"].includes(document.activeElement.tagName)) return;
      const open = [...main.querySelectorAll("details")].map((d) => d.open);
      const across = [...main.querySelectorAll(".scroll, .rows")].map((d) => d.scrollLeft);
      main.replaceChildren(...fresh.childNodes);
      main.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
      main.querySelectorAll(".scroll, .rows").forEach((d, i) => { d.scrollLeft = across[i] ?? 0; });
    } catch {
      wanted = true; // the server is away: the event source says so, and tries again
    } finally {
      asking = false;
    }
  }

  const source = new EventSource("/live");
  source.onopen = () => { state.textContent = "live"; wanted = true; };
  source.onerror = () => { state.textContent = "not live: the daemon does not answer"; };
  source.addEventListener("happened", (message) => {
    const event = JSON.parse(message.data);
    if (onEvents && (!subject || event.subject === subject)) wanted = true;
  });
  if (pollS) setInterval(() => { wanted = true; }, pollS * 1000);
  setInterval(refresh, 1000);
})();
