// Draws a page again when its campaign changes. The server makes all markup; this file asks for the part inside <main>
// and puts it in place of the old one, keeping what the reader has open, marked and in focus.
"use strict";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const campaign = document.body.dataset.campaign;
let shown = main.innerHTML;
let asking = false;
let again = false;

function say(words, lost) {
  connection.textContent = words;
  connection.classList.toggle("lost", lost);
}

// What tells an element from its neighbours after the page was drawn again.
function nameOf(element) {
  if (!element) return null;
  if (element.id) return "#" + CSS.escape(element.id);
  const tag = element.tagName.toLowerCase();
  const href = element.getAttribute("href");
  if (href) return `${tag}[href="${CSS.escape(href)}"]`;
  const name = element.getAttribute("name");
  if (name && element.type === "checkbox") return `input[name="${CSS.escape(name)}"][value="${CSS.escape(element.value)}"]`;
  if (name) return `${tag}[name="${CSS.escape(name)}"]`;
  return null;
}

function summaries() {
  return [...main.querySelectorAll("details > summary")];
}

function remember() {
  return {
    open: new Set(summaries().filter((one) => one.parentElement.open).map((one) => one.textContent)),
    checked: [...main.querySelectorAll("input:checked")].map(nameOf),
    typed: [...main.querySelectorAll("input[type=search], form[data-post] input")].map((one) => [nameOf(one), one.value]),
    focus: main.contains(document.activeElement) ? nameOf(document.activeElement) : null,
    caret: document.activeElement.selectionStart ?? null,
    y: scrollY,
  };
}

function restore(was) {
  for (const one of summaries()) if (was.open.has(one.textContent)) one.parentElement.open = true;
  for (const name of was.checked) {
    const box = name && main.querySelector(name);
    if (box) box.checked = true;
  }
  for (const [name, value] of was.typed) {
    const field = name && main.querySelector(name);
    if (field && field.value !== value) field.value = value;
  }
  const focused = was.focus && main.querySelector(was.focus);
  if (focused) {
    focused.focus({ preventScroll: true });
    if (was.caret !== null && focused.setSelectionRange && focused.type !== "checkbox") focused.setSelectionRange(was.caret, was.caret);
  }
  scrollTo(scrollX, was.y);
}

function copyButtons() {
  for (const button of main.querySelectorAll("button.copy")) button.hidden = false;
}

async function redraw() {
  if (!getSelection().isCollapsed) {  // what is marked would be lost
    due = setTimeout(redraw, 1000);
    return;
  }
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Ridge-Part": "main" } });
    if (answer.status === 401) {
      say("The server was started anew: open the address that it printed", true);
      return;
    }
    const text = await answer.text();
    if (answer.ok && text !== shown) {
      shown = text;
      const was = remember();
      const fresh = new DOMParser().parseFromString(text, "text/html");
      main.replaceChildren(...fresh.body.childNodes);
      restore(was);
      copyButtons();
      document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
    }
  } catch {
    say("Connection lost, trying again", true);
  } finally {
    asking = false;
    if (again) {
      again = false;
      setTimeout(redraw, 200);
    }
  }
}

// What changes in a folder of many campaigns comes in bursts.
let due = 0;
function soon() {
  clearTimeout(due);
  due = setTimeout(redraw, 100);
}

// A browser opens only a few connections to one server: pages that are not seen give theirs up.
let events = null;
let followed = false;
let retry = 0;

function follow() {
  clearTimeout(retry);
  if (events || document.hidden) return;
  events = new EventSource("/events");
  events.addEventListener("hello", () => {
    say("Live", false);
    if (followed) soon();
    followed = true;
  });
  events.addEventListener("missed", soon);
  events.addEventListener("campaign", (event) => {
    if (!campaign || campaign === event.data) soon();
  });
  events.addEventListener("doing", (event) => {
    const end = event.data.indexOf("\n");
    for (const one of main.querySelectorAll("[data-doing]"))
      if (one.dataset.doing === event.data.slice(0, end)) one.textContent = event.data.slice(end + 1);
  });
  events.addEventListener("error", () => {
    if (events && events.readyState !== EventSource.CLOSED) {
      say("Connection lost, trying again", true);
      return;
    }
    leave();
    redraw();  // it says when a token is needed
    retry = setTimeout(follow, 2000);
  });
}

function leave() {
  if (events) events.close();
  events = null;
}

// The list is filtered as one types; the address says what is shown.
function filter(form) {
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (value === "") query.delete(name);
  history.replaceState(null, "", query.size > 0 ? "?" + query : location.pathname);
  soon();
}

async function post(path, body) {
  const said = document.getElementById("said");
  try {
    const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (said) said.textContent = await answer.text();
  } catch {
    if (said) said.textContent = "The server does not answer.";
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form.filter");
  if (form) filter(form);
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("form.filter")) {
    event.preventDefault();
    filter(form);
  } else if (form.dataset.post) {
    event.preventDefault();
    post(form.dataset.post, Object.fromEntries(new FormData(form)));
  }
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.post && (!button.dataset.ask || confirm(button.dataset.ask))) post(button.dataset.post, {});
  if (!button.matches(".copy")) return;
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);  // to be copied by hand
  }
});

function step(by) {
  const to = document.querySelector(by > 0 ? "a[rel=next]" : "a[rel=prev]");
  if (to) {
    to.click();
    return;
  }
  const rows = [...main.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (next) next.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const search = main.querySelector("input[type=search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "j") {
    step(1);
  } else if (event.key === "k") {
    step(-1);
  } else if (event.key === "u") {
    (document.getElementById("up") ?? document.querySelector(".bar nav a")).click();
  }
});

copyButtons();
if (document.body.dataset.live === "yes") {
  follow();
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
}
