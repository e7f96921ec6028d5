// The page of one approval. What a job asks is written by its handler, so all of it is set as text.
"use strict";

const id = decodeURIComponent(location.pathname.split("/").pop());
const path = `/v1/approvals/${encodeURIComponent(id)}`;
const FACTS = ["status", "tenant_id", "job_id", "key", "expires_at", "by", "note"];
const element = (name) => document.getElementById(name);
let credentials = {};

async function call(method, to, body) {
  const headers = { ...credentials, "Content-Type": "application/json" };
  const answer = await fetch(to, { method, headers, body: body && JSON.stringify(body) });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.detail || `the operator answered ${answer.status}`);
  return found;
}

function appended(parent, kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  parent.append(made);
  return made;
}

function show(approval) {
  element("prompt").textContent = approval.prompt || "";
  element("effects").replaceChildren();
  for (const effect of approval.effects) {
    appended(element("effects"), "strong", `${effect.tool}/${effect.key}`);
    appended(element("effects"), "pre", JSON.stringify(effect.arguments, null, 2));
  }
  if (approval.details.edit) {
    appended(element("effects"), "strong", "with these changes");
    appended(element("effects"), "pre", JSON.stringify(approval.details.edit, null, 2));
  }
  element("facts").replaceChildren();
  for (const name of FACTS.filter((each) => approval[each])) {
    const row = appended(element("facts"), "tr", "");
    appended(row, "th", name.replaceAll("_", " "));
    appended(row, "td", approval[name]);
  }
  element("shown").hidden = false;
  element("login").hidden = true;
  element("issuers").hidden = true;
  element("decision").hidden = approval.status !== "pending";
}

async function refresh() {
  const approval = await call("GET", path);
  show(approval);
  return approval.status;
}

function read(edit) {
  try {
    return JSON.parse(edit);
  } catch (error) {
    throw new Error(`The changed arguments are not JSON: ${error.message}`);
  }
}

async function decide(event) {
  const decision = event.submitter.value;
  const body = { note: element("note").value };
  if (element("by").value.trim()) body.by = element("by").value;
  const edit = element("edit").value.trim();
  if (edit && decision === "approve") body.edit = read(edit);
  await call("POST", `${path}/${decision}`, body);
  const status = await refresh();
  element("told").textContent = status === "pending"
    ? "Your decision is sent. More people have to decide, or it is not counted yet: look again."
    : `This approval is ${status}.`;
}

function on(form, act) {
  element(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = element(form).querySelectorAll("button");
    buttons.forEach((button) => { button.disabled = true; });
    element("told").textContent = "";
    try {
      await act(event);
    } catch (error) {
      element("told").textContent = error.message;
      if (form === "decision") await refresh().catch(() => {});
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  });
}

// Someone who has signed in needs no token, and decides in no other name. All others may sign in.
async function start() {
  const session = await call("GET", "/v1/session");
  for (const issuer of session.issuers) {
    const link = appended(element("issuers"), "a", `Sign in with ${issuer.name}`);
    link.href = `${issuer.login}&next=${encodeURIComponent(location.pathname)}`;
  }
  if (!session.signed_in) return;
  credentials = { "X-CSRF-Token": session.csrf_token };
  element("author").hidden = true;
  element("issuers").hidden = true;
  await refresh();
}

on("login", async () => {
  credentials = { Authorization: `Bearer ${element("token").value}` };
  await refresh();
});
on("decision", decide);
start().catch((error) => { element("told").textContent = error.message; });
