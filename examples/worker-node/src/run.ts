// One run of a job: what its handler calls, and how it ends.
import { once } from "node:events";
import { setTimeout as after } from "node:timers/promises";
import { v7 } from "uuid";
import * as link from "./link.js";
import { canonical, digest, escaped, hashed, type Json, json, JobError } from "./values.js";

export type Handler = (run: Run) => unknown;
type Work = (key: string) => unknown;
type Call = { id: string; kind: string; position: number; digest: string };
const GRACE_MS = 5000;
const ASK_AGAIN_MS = 2000;
const ENDS: Json = { busy: "blocked", full: "full", cancel: "cancelled", review: "review" };

export class Run {
  readonly over = new AbortController(); // its reason is how the run ends
  readonly input: Json;
  isBusy = true;
  private results: Map<string, Json>; // what calls left, by id
  private asked = new Set<string>();

  /** The term of the lease counts from `basis`. */
  constructor(
    readonly lease: Json,
    public basis: number,
  ) {
    this.input = JSON.parse(lease.input);
    this.results = new Map(lease.steps.map((each: Json) => [each.id, each]));
  }

  end = () => this.over.signal.reason;
  expiresAt = () => this.basis + Math.min(this.lease.term_seconds, link.terms.term_seconds);
  validUntil = () => this.expiresAt() - link.terms.margin_seconds;

  /** Does a piece of work once: its value is kept with the job. */
  async step(name: string, work: (...args: Json[]) => unknown, args: Json[] = [], key?: string) {
    const call = this.call("step", name, { args, kwargs: {} }, key);
    return this.once(call, async () => {
      const value = json(await work(...args));
      this.check();
      await this.say("checkpoint", { step: { ...call, value } });
      return value;
    });
  }

  /** Makes a side effect once: asks the ledger, calls the tool, and tells what came of it. */
  async effect(tool: string, key: string, args: Json, work: Work, keyLifetime = 0): Promise<Json> {
    const claim = { claim_id: `clm_${v7()}`, action: `${tool}/${key}` };
    const body = { ...claim, digest: digest(args), key_lifetime_ms: keyLifetime * 1000 };
    let outcome: Json = notBegun(keyLifetime > 0);
    this.check();
    try {
      const reply = await this.ask("claim", body);
      const isOver = ["cancel", "lost"].includes(reply.kind); // another copy may be granted
      if (!isOver) outcome = reply.kind === "granted" && notBegun(reply.repeat);
      if (reply.kind === "done") return JSON.parse(reply.result);
      if (reply.kind !== "granted") throw this.turnedDown(reply, claim.action);
      this.check();
      const call = Promise.resolve(reply.idempotency_key).then(work);
      outcome = await call.then(isDone, (error) => failed(error, reply.repeat));
      outcome.result = json(await call);
      return JSON.parse(outcome.result);
    } finally {
      const told = { ...claim, result: null, error: null, ...outcome };
      if (outcome) void this.say("outcome", told, () => this.expiresAt() + 600);
    }
  }

  /** A wait for a time, for `all`. */
  sleep(seconds: number, key?: string): Call {
    const call = this.call("time", "sleep", { kind: "time" }, key);
    return Object.assign(call, { timeout_ms: Math.round(seconds * 1000) });
  }

  /** A wait for an event of the tenant. */
  event(match: Json, seconds: number, key?: string): Call {
    const about = { kind: "event", match: canonical(match), consume: "all" };
    const call = this.call("event", "event", about, key);
    const timeout_ms = Math.round(seconds * 1000);
    return Object.assign(call, { match: about.match, since: "job", timeout_ms });
  }

  /** Asks for a job, once; the wait is for its end. */
  async enqueue(type: string, input: Json, key?: string): Promise<Call> {
    const call = this.call("child", type, { type, input }, key);
    const { job_id } = await this.once(call, async () => {
      const child = { call: call.id, type, input: json(input), digest: call.digest };
      const reply = await this.ask("enqueue", { claim_id: `clm_${v7()}`, left: call, child });
      if (reply.kind !== "made") throw this.turnedDown(reply, call.id);
      return reply.result;
    });
    const wait = { kind: "job", job_id };
    return { ...wait, id: `${call.id}!end`, position: -1, digest: digest(wait) };
  }

  /** Asks people, once; the wait is for their decision. */
  async approval(key: string, prompt: string): Promise<Call> {
    const call = this.call("approval", "approval", { kind: "approval", about: prompt }, key);
    if (!this.found(call)) {
      const text = json({ prompt, arguments: [] });
      const { sealed: asked } = await this.send({ type: "seal", place: `approval ${key}`, text });
      const terms = { effects: [], approvers: "any", quorum: 1, on_timeout: "reject" };
      await this.say("ask_approval", { key, digest: call.digest, asked, ...terms });
    }
    const id = hashed("approval", this.lease.tenant_id, this.lease.scope, key);
    return Object.assign(call, { approval_id: `apr_${id}` });
  }

  /** What all waits give. Unless they have ended, the run ends, and a later one goes on here. */
  async all(...waits: Call[]): Promise<Json[]> {
    const left = waits.map((wait) => this.found(wait));
    const open = waits.filter((_, place) => !left[place]);
    if (!open.length) return left.map((each) => JSON.parse(each.value));
    const parked = open.map((each) => ({ ...each, group: 0, needs_all: true }));
    this.stop({ status: "parked", waits: parked });
    throw this.end();
  }

  /** Ends the run; the first end counts. */
  stop(end: Json): void {
    this.over.abort(end);
  }

  /** Ends the run if its term is over. */
  expire(): void {
    if (link.now() >= this.validUntil()) this.stop({ status: "lost" });
  }

  /** A heartbeat that was sent at a moment is acknowledged. */
  renew(at: number): void {
    if (link.now() < this.expiresAt()) this.basis = Math.max(this.basis, at);
  }

  /** Call this before anything is started. */
  check(): void {
    this.expire();
    this.over.signal.throwIfAborted();
  }

  /** How the run ended, once its handler has ended, or has had its time for that. */
  async execute(handler: Handler): Promise<Json> {
    const error = `TimeoutError: ran past its ${this.lease.timeout_seconds} s`;
    const stop = () => this.stop({ status: "retry", error });
    const timer = setTimeout(stop, this.lease.timeout_seconds * 1000);
    const overdue = once(this.over.signal, "abort").then(() => after(GRACE_MS));
    await Promise.race([overdue, this.handle(handler)]);
    clearTimeout(timer);
    return this.end();
  }

  private async handle(handler: Handler): Promise<void> {
    try {
      this.stop({ status: "succeeded", result: json(await handler(this)) });
    } catch (error: Json) {
      const status = isFinal(error) ? "failed" : "retry";
      this.stop({ status, error: told(error), retry_after_seconds: error?.seconds ?? null });
    }
  }

  private call(kind: string, name: string, about: Json, key?: string): Call {
    const id = escaped(name) + (key === undefined ? "" : `[${escaped(key)}]`);
    if (this.asked.has(id)) throw new JobError(`${id} was called before: give this call a key`);
    return { id, kind, position: this.asked.add(id).size - 1, digest: digest(about) };
  }

  /** What a call left in an earlier run. If there is nothing, it may begin, unless code diverged. */
  private found(call: Call): Json {
    const left = this.results.get(call.id);
    if (left?.kind === call.kind) return taken(left, call);
    const other = left ?? [...this.results.values()].find((each) => this.isPassed(each, call));
    const error = `recorded ${other?.id}, asked ${call.id}`;
    if (other) this.stop({ status: "review", diverged: other.id, error });
    this.check();
  }

  private isPassed({ id, position, failed_before }: Json, call: Call): boolean {
    return !this.asked.has(id) && position >= 0 && position <= call.position && !failed_before;
  }

  private async once(call: Call, work: () => Promise<string>): Promise<Json> {
    const left = this.found(call) ?? { ...call, value: await work() };
    this.results.set(call.id, left);
    return JSON.parse(left.value);
  }

  say(kind: string, body: Json, until = this.validUntil): Promise<Json> {
    const said = { run_id: this.lease.run_id, ...body };
    return this.send({ type: "command", kind, body: said }, until);
  }

  private send(message: Json, until = this.validUntil): Promise<Json> {
    const { home_partition: partition, tenant_id, job_id, epoch } = this.lease;
    return link.order({ partition, tenant_id, job_id, epoch, ...message }, until);
  }

  private async ask(kind: string, body: Json): Promise<Json> {
    const until = () => (this.end() ? 0 : this.validUntil());
    for (;;) {
      this.check();
      const answer = await this.say(kind, body, until);
      if (answer) return answer;
      await after(ASK_AGAIN_MS);
    }
  }

  private turnedDown({ kind, message: error }: Json, action: string): Error {
    if (["held", "denied", "refused", "conflict"].includes(kind)) return new JobError(error);
    const awaited: Json = { busy: json(["job", action]), full: json([action.split("/")[0], null]) };
    this.stop({ status: ENDS[kind] ?? "lost", result: awaited[kind] ?? null, error });
    return new Error(error);
  }
}

const isFinal = (error: unknown) => error instanceof JobError && error.seconds === undefined;
const told = (error: unknown) => `${error}`.slice(0, 2000);

const notBegun = (mayBeDone: boolean) => ({
  status: mayBeDone ? "unknown" : "failed",
  error: "the run ended before it began",
});

const isDone = () => ({ status: "done" });
const failed = (error: unknown, repeat: boolean) => ({
  status: error instanceof JobError && !repeat ? "failed" : "unknown",
  error: told(error),
  blames_tool: !isFinal(error),
});

/** Checks that what was left is what the call asks for now, and is no error. */
function taken(left: Json, call: Call): Json {
  const isOther = left.digest !== call.digest && call.kind !== "step";
  if (isOther) throw new JobError(`WaitRefused: ${call.id} was asked with something else before`);
  if (left.raises) throw new JobError(`${left.raises}: ${left.message}`);
  return left;
}
