// One run of a job: what its handler calls, and what is kept so that another run goes on.
import { createHash } from "node:crypto";
import { setTimeout as after } from "node:timers/promises";
import { v7 } from "uuid";
import { JobError, type Json, type Link, now } from "./link.js";

interface Call { id: string; kind: string; position: number; digest: string; failed_before: string }
export type Wait = Call & Json;
const GRACE_MS = 5000, ASK_AGAIN_MS = 2000, AFTER_A_FAILURE = Buffer.alloc(32, 255).toString("base64");
const ENDS: Json = { busy: "blocked", full: "full", cancel: "cancelled", review: "review" }; // by answer

export class Run {
  verdict?: Json;
  readonly input: Json;
  readonly over = new AbortController();
  readonly answers = new Map<string, (reply: Json) => void>(); // by claim
  private results: Map<string, Json>;
  private asked = new Set<string>();
  private counts: Record<string, number> = {};
  private position = 0;
  private failed = false;
  private busy = new Set<Promise<unknown>>();
  private stopped = new Promise<never>((_, no) => this.over.signal.addEventListener("abort", () => no(this.over.signal.reason)));

  constructor(readonly lease: Json, readonly partition: number, public basis: number, private link: Link) {
    this.input = JSON.parse(lease.input);
    this.results = new Map(lease.steps.map((each: Json) => [each.id, each]));
    this.stopped.catch(() => {});
  }
  expiresAt = () => this.basis + this.lease.term_seconds;
  validUntil = () => this.expiresAt() - this.link.margin;

  /** Does a piece of work once: its value is kept with the job. */
  step(name: string, work: (...args: Json[]) => unknown, args: Json[] = [], key?: string): Promise<Json> {
    const call = this.call("step", name, { args, kwargs: {} }, key);
    return this.once(call, async () => {
      const value = json(await this.orOver(work(...args)));
      this.check();
      await this.orOver(this.say("checkpoint", { step: { ...call, value } }));
      return value;
    });
  }
  /** Makes a side effect if the ledger lets it begin: claim, call, outcome. */
  effect(tool: string, key: string, args: Json, work: (key: string) => unknown, keyLifetime = 0): Promise<Json> {
    return this.under(async () => {
      const about = { claim_id: `clm_${v7()}`, action: `${tool}/${key}` };
      const outcome = (status: string, error: string | null, result: string | null = null, blames_tool = false) =>
        this.say("outcome", { ...about, status, error, result, blames_tool },
                 () => this.expiresAt() + (status === "unknown" ? 0 : 600));
      const withdraw = (repeat: boolean) => outcome(repeat ? "unknown" : "failed", "the run ended before it began");
      let reply: Json, value: unknown, result: string | null = null;
      try {
        reply = await this.ask("claim", { ...about, digest: digest(args), key_lifetime_ms: keyLifetime * 1000 });
        if (reply.kind === "granted") this.check();
      } catch (error) { // it may be granted all the same
        withdraw(reply ? reply.repeat : keyLifetime > 0);
        throw error;
      }
      if (reply.kind === "done") return JSON.parse(reply.result ?? "null");
      if (["cancel", "lost"].includes(reply.kind)) withdraw(keyLifetime > 0); // another copy may be granted
      if (reply.kind !== "granted") throw this.turnedDown(reply, about.action);
      try {
        value = await work(reply.idempotency_key);
      } catch (error) {
        outcome(error instanceof JobError && !reply.repeat ? "failed" : "unknown", told(error), null, !isFinal(error));
        throw error;
      }
      try { result = json(value); } finally { outcome("done", null, result); } // it did happen
      return JSON.parse(result);
    });
  }
  /** A wait for a time, for `all`. */
  sleep(seconds: number, key?: string): Wait {
    return { ...this.call("time", "sleep", { kind: "time" }, key), timeout_ms: Math.round(seconds * 1000) };
  }
  /** A wait for an event of the tenant. */
  event(match: Json, seconds?: number, key?: string): Wait {
    const text = canonical(match), call = this.call("event", "event", { kind: "event", match: text, consume: "all" }, key);
    return { ...call, match: text, since: "job", timeout_ms: seconds === undefined ? null : Math.round(seconds * 1000) };
  }
  /** Asks for a job, once; the wait is for its end. */
  async enqueue(type: string, input: Json, key?: string): Promise<Wait> {
    const call = this.call("child", type, { type, input }, key);
    const { job_id } = await this.once(call, async () => {
      const child = { call: call.id, type, input: json(input), digest: call.digest };
      const reply = await this.ask("enqueue", { claim_id: `clm_${v7()}`, left: call, child });
      if (reply.kind !== "made") throw this.turnedDown(reply, call.id);
      return reply.result;
    });
    return { ...call, id: `${call.id}!end`, kind: "job", position: -1, digest: digest({ kind: "job", job_id }), job_id };
  }
  /** What all waits give. Unless they have ended, the run ends, and a later one goes on here. */
  async all(...waits: Wait[]): Promise<Json[]> {
    const left = waits.map((each) => this.results.get(each.id)), raised = left.find((each) => each?.raises);
    this.failed ||= !!raised;
    if (raised) throw new JobError(`${raised.raises}: ${raised.message}`);
    if (left.some((each, place) => each && each.digest !== waits[place].digest)) throw new JobError("WaitRefused: another wait");
    if (left.every((each) => each)) return left.map((each) => JSON.parse(each.value));
    waits.forEach((each) => this.mayBegin(each));
    await Promise.allSettled(this.busy);
    const open = waits.filter((each) => !this.results.has(each.id)).map((each) => ({ ...each, group: 0, needs_all: true }));
    this.stop({ status: "parked", waits: open });
    throw this.over.signal.reason;
  }
  /** Ends the run; the first verdict counts. */
  stop(verdict: Json): void {
    this.verdict ??= verdict;
    this.over.abort(new Error(`the run is over: ${verdict.status}`));
  }
  /** Call this before anything is started. */
  check(): void {
    if (now() >= this.validUntil()) this.stop({ status: "lost" });
    this.over.signal.throwIfAborted();
  }
  /** How the run ended, once nothing of it is under way. */
  async execute(handler: (run: Run) => unknown): Promise<Json> {
    const seconds = this.lease.timeout_seconds, late = { status: "retry", error: `TimeoutError: ran past its ${seconds} s` };
    const timer = setTimeout(() => this.stop(late), seconds * 1000);
    const handled = (async () => ({ status: "succeeded", result: json(await handler(this)) }))().catch((error) => (
      { status: isFinal(error) ? "failed" : "retry", error: told(error), retry_after_seconds: error.seconds ?? null }));
    this.stop(await this.orOver(handled).catch(() => this.verdict));
    clearTimeout(timer);
    await Promise.race([Promise.allSettled([handled, ...this.busy]), after(GRACE_MS)]);
    return this.verdict;
  }
  say(kind: string, body: Json, until = this.validUntil): Promise<void> {
    return this.link.order(this.partition, kind, { run_id: this.lease.run_id, ...body }, this.lease, until);
  }
  private call(kind: string, name: string, what: Json, key?: string): Call {
    const ordinal = key === undefined ? (this.counts[name] = (this.counts[name] ?? 0) + 1) : 0;
    const id = escaped(name) + (ordinal > 1 ? `#${ordinal}` : ordinal ? "" : `[${escaped(key!)}]`);
    this.asked.add(id);
    return { id, kind, position: this.position++, digest: digest(what), failed_before: this.failed ? AFTER_A_FAILURE : "" };
  }
  /** Stops the run if its job has results that this code had to ask for before the call. */
  private mayBegin(call: Call): void {
    const before = [...this.results.values()].find((each) =>
      !this.asked.has(each.id) && each.position >= 0 && each.position <= call.position && !each.failed_before);
    if (before) this.stop({ status: "review", diverged: before.id, error: `recorded ${before.id}, asked ${call.id}` });
    this.check();
  }
  private async once(call: Call, work: () => Promise<string>): Promise<Json> {
    if (!this.results.has(call.id)) {
      this.mayBegin(call);
      this.results.set(call.id, { ...call, value: await this.under(work) });
    }
    return JSON.parse(this.results.get(call.id).value);
  }
  /** Does something that the run does not park before. */
  private async under(work: () => Promise<Json>): Promise<Json> {
    this.check();
    const made = work();
    this.busy.add(made);
    return made.catch((error) => { this.failed = true; throw error; }).finally(() => this.busy.delete(made));
  }
  private orOver = <T>(work: T) => Promise.race([work, this.stopped]);

  private async ask(kind: string, body: Json): Promise<Json> {
    const answer = new Promise<Json>((resolve) => this.answers.set(body.claim_id, resolve));
    for (let reply; ; ) {
      await this.orOver(this.say(kind, body, () => (this.verdict ? -1 : this.validUntil())));
      if ((reply = await this.orOver(Promise.race([answer, after(ASK_AGAIN_MS)])))) return reply;
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
const told = (error: unknown) => (error instanceof Error ? `${error.constructor.name}: ${error.message}` : `${error}`).slice(0, 2000);
const escaped = (name: string) => name.replace(/[%/#[\]()!]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
const digest = (what: Json) => createHash("sha256").update(canonical(what)).digest("base64");

const json = (value: unknown): string => {
  const text = JSON.stringify(value ?? null);
  if (Buffer.byteLength(text) > 262_144) throw new JobError("a value has more than 256 KiB: store it elsewhere");
  return text;
};
/** JSON with sorted names and without blanks: docs/link.md. */
function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "number" && value && (Math.abs(value) >= 1e16 || Math.abs(value) < 1e-5)) return value.toExponential();
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
