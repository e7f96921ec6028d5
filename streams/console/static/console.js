// The console without this file is whole: forms, links and pages work. It adds keys, refreshing and live text.
"use strict";

const typing = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
const busy = () => document.activeElement !== null && typing(document.activeElement);
const opened = () => document.querySelector("main details.act[open]") !== null;

// Why what is shown may be old: the first that holds is said at the head of the page.
const old = { over: false, lost: "", failed: false, late: 0, missed: false };
const OLD = [
  ["over", () => "Your session is over, and what is shown may be old: load the page again to sign in."],
  ["lost", () => `No connection to the operator since ${old.lost} UTC: what is shown may be old.`],
  ["failed", () => "The operator could not make this page anew: what is shown may be old. It is asked again."],
  ["late", () => `What is shown is ${old.late} s old or more: the operator does not hear from Kafka, or is behind.`],
  ["missed", () => "This has changed meanwhile. It is shown once no form is open."],
];
function tell(found) {
  Object.assign(old, found);
  const place = document.getElementById("stale");
  const why = OLD.find(([name]) => old[name]);
  if (place) place.textContent = why ? why[1]() : "";
  if (place) place.hidden = !why;
}

// A page that changes is fetched again and morphed, unless somebody fills in a form on it, or has sent it.
let sending = false;
const held = () => sending || busy() || opened();
function news() {
  if (document.getElementById("changes")?.dataset.list === "yes") {
    const line = document.querySelector(".newer");
    if (line) line.hidden = false;
    return;
  }
  tell({ missed: held() });
  const fresh = document.getElementById("fresh");
  if (!old.missed && fresh) htmx.trigger(fresh, "news");
}
document.addEventListener("changed", news);
// Somebody may have begun to fill in a form while the page was being fetched.
document.addEventListener("htmx:before:swap", (event) => {
  if (event.target.id !== "fresh" || !held()) return;
  tell({ missed: true });
  event.preventDefault();
});
document.addEventListener("htmx:after:swap", (event) => {
  const answered = event.detail?.ctx?.response?.status ?? 200;
  if (event.target.id === "fresh" && answered < 400) tell({ failed: false, missed: false });
});
const again = () => setTimeout(() => { if (old.missed) news(); }, 200);
document.addEventListener("focusout", again);
document.addEventListener("toggle", again, true);

// The stream opens itself again, once it was open; what could not be fetched is fetched again here.
const AGAIN_MS = 5000;
function connect() {
  const place = document.getElementById("changes");
  if (place && !place._htmx?.sse) htmx.ajax("GET", place.getAttribute("hx-sse:connect"), { source: place });
}
function lost(status) {
  if (status === 401 && document.getElementById("fresh") && !held()) news();
  else if (status === 401) tell({ over: true });
  else tell({ lost: old.lost || new Date().toISOString().slice(11, 19) });
}
function failed(event) {
  const status = event.detail?.ctx?.response?.status;
  if (event.target.id === "changes") {
    lost(status);
    if (status !== 401) setTimeout(connect, AGAIN_MS);
  } else if (event.target.id === "fresh" && status !== 401) {
    tell({ failed: true });
    setTimeout(news, AGAIN_MS);
  }
}
document.addEventListener("htmx:response:error", failed);
document.addEventListener("htmx:error", failed);
document.addEventListener("htmx:sse:error", (event) => {
  if (event.target.id === "changes") lost(event.detail.status);
});
document.addEventListener("htmx:sse:after:connection", (event) => {
  if (event.target.id === "changes") tell({ over: false, lost: "" });
});
document.addEventListener("late", (event) => {
  if (event.target.id === "changes") tell({ late: JSON.parse(event.detail.data).seconds });
});
document.addEventListener("DOMContentLoaded", () => {
  old.late = Number(document.getElementById("stale")?.dataset.late ?? 0);
});

// What a running job says, as text: its stream is the API's own.
function said(event) {
  const place = document.getElementById("said");
  if (!place || !event.detail?.data) return;
  const told = JSON.parse(event.detail.data);
  if (event.type === "reset") place.textContent = "";
  else if (event.type === "token") place.textContent += told.text;
  else if (event.type === "log") place.textContent += `\n${told.message ?? told.text ?? ""}\n`;
  if (place.textContent.length > 200000) place.textContent = place.textContent.slice(-100000);
  place.hidden = place.textContent === "";
}
for (const kind of ["token", "log", "reset"]) document.addEventListener(kind, said);
for (const kind of ["status", "step", "effect", "progress", "end"]) document.addEventListener(kind, news);

// Keys: `/` finds, `g` and a letter goes, `j` and `k` walk the rows, `?` shows all.
let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && busy()) { document.activeElement.blur(); return; }
  if (typing(event.target)) return;
  if (going) {
    going = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const rows = [...document.querySelectorAll("main tbody tr a:first-of-type")].filter(
    (link, index, all) => all.findIndex((other) => other.closest("tr") === link.closest("tr")) === index);
  const at = rows.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const keys = {
    "/": () => document.getElementById("find")?.focus(),
    "?": () => { location.href = "/console/keys"; },
    g: () => { going = true; },
    j: () => rows[Math.min(at + 1, rows.length - 1)]?.focus(),
    k: () => rows[Math.max(at - 1, 0)]?.focus(),
    n: () => document.querySelector("a[rel=next]")?.click(),
    r: () => location.reload(),
    u: () => history.back(),
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

// Saved views: names for URLs with their filters, kept by this browser.
const VIEWS = "tidegate-views";
const saved = () => JSON.parse(localStorage.getItem(VIEWS) ?? "[]");
function keep(views) {
  localStorage.setItem(VIEWS, JSON.stringify(views));
  showViews();
}
function showViews() {
  const place = document.getElementById("views");
  if (!place) return;
  const views = saved().filter((view) => view.path.startsWith("/console/"));
  place.hidden = views.length === 0;
  place.querySelector("ul").replaceChildren(...views.map((view) => {
    const entry = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: view.path, textContent: view.name });
    const drop = Object.assign(document.createElement("button"), { textContent: "✕", className: "quiet drop" });
    drop.setAttribute("aria-label", `Forget the view ${view.name}`);
    drop.addEventListener("click", () => keep(saved().filter((each) => each.name !== view.name)));
    entry.append(link, drop);
    return entry;
  }));
}
document.addEventListener("DOMContentLoaded", () => {
  showViews();
  const save = document.getElementById("save-view");
  if (!save) return;
  save.hidden = false;
  save.addEventListener("click", () => {
    const name = prompt("A name for this view")?.trim();
    if (name) keep([...saved().filter((each) => each.name !== name), { name, path: location.pathname + location.search }]);
  });
});

// A form is sent once: the server would take a second click for the same command anyway.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button:not([type=button])");
  if (event.target.method !== "post" || !button) return;
  sending = true;
  setTimeout(() => { button.disabled = true; });
  setTimeout(() => { sending = button.disabled = false; }, 30000); // it sends the same command again
});
window.addEventListener("pageshow", () => {
  sending = false;
  for (const button of document.querySelectorAll("form button[disabled]")) button.disabled = false;
});

// Plots of minutes: the numbers are in a table beside, for readers without pictures.
function plots() {
  for (const place of document.querySelectorAll("[data-plot]")) {
    if (place.dataset.drawn === place.dataset.plot) continue;
    place.dataset.drawn = place.dataset.plot;
    const { times, series } = JSON.parse(place.dataset.plot);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    const colors = ["--blue", "--red", "--green", "--amber"].map((name) => style.getPropertyValue(name).trim());
    const axis = { stroke: ink, grid: { stroke: style.getPropertyValue("--line").trim(), width: 1 }, size: 42 };
    place.replaceChildren();
    new uPlot({
      width: place.clientWidth || 300, height: 130, legend: { show: series.length > 1, live: false }, cursor: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [{ ...axis, size: 28, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toISOString().slice(11, 16)) }, axis],
      series: [{}, ...series.map((each, index) => ({ label: each.label, stroke: colors[index % 4], width: 2, points: { show: false } }))],
    }, [times, ...series.map((each) => each.values)], place);
  }
}
document.addEventListener("DOMContentLoaded", plots);
document.addEventListener("htmx:after:swap", plots);
