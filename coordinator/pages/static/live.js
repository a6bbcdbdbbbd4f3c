// Keeps a page live: the server says that something happened, and the page asks for itself again, once a second at most.
"use strict";
(() => {
  const state = document.getElementById("live");
  const main = document.querySelector("main");
  const subject = document.body.dataset.subject || null; // the only table whose events matter here
  const pollS = Number(document.body.dataset.poll || 0);
  const onEvents = document.body.dataset.events !== "no";
  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
  let wanted = false;
  let asking = false;

  // Somebody types into a filter, or marks something to copy it.
  function busy() {
    const at = document.activeElement;
    const marked = getSelection();
    return main.contains(at) && ["INPUT", "SELECT"].includes(at.tagName)
      || marked && !marked.isCollapsed && main.contains(marked.anchorNode);
  }

  // What the keyboard is on, in words that find it again: of several that are alike, the how-manieth.
  const nameOf = (element) => [element.tagName, element.getAttribute("href"), element.getAttribute("aria-label")].join(" ");
  const alike = (name) => [...main.querySelectorAll(FOCUSABLE)].filter((element) => nameOf(element) === name);

  function show(fresh) {
    const open = [...main.querySelectorAll("details")].map((d) => d.open);
    const scrolled = [...main.querySelectorAll(".scroll, .rows")].map((d) => [d.scrollLeft, d.scrollTop]);
    const said = new Set([...main.querySelectorAll("[role=alert], [role=note]")].map((d) => d.textContent));
    const at = main.contains(document.activeElement) && document.activeElement !== main ? document.activeElement : null;
    const name = at && nameOf(at);
    const nth = at && alike(name).indexOf(at);
    // What was read out once is not read out every second.
    fresh.querySelectorAll("[role=alert]").forEach((d) => { if (said.has(d.textContent)) d.setAttribute("role", "note"); });
    main.replaceChildren(...fresh.childNodes);
    main.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
    main.querySelectorAll(".scroll, .rows").forEach((d, i) => { [d.scrollLeft, d.scrollTop] = scrolled[i] ?? [0, 0]; });
    if (at) (alike(name)[nth] ?? alike(name)[0] ?? main).focus({ preventScroll: true });
  }

  async function refresh() {
    if (asking || !wanted || busy()) return;
    asking = true;
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.status === 401) return location.reload(); // it asks for the token
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      if (fresh && !busy()) show(fresh);
      else wanted = true;
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
