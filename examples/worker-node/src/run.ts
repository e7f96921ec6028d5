// One run of a job: what its handler calls, and what is kept so that another run goes on.
import { createHash } from "node:crypto";
import { v7 } from "uuid";
import { type Json, type Link, now, PermanentError } from "./link.js";

export class TransientError extends Error { // of a tool, it says that nothing was done
  constructor(message: string, readonly seconds: number | null = null) { super(message); }
}
interface Call { id: string; kind: string; position: number; digest: string; failed_before: string }
export type Wait = Call & Json;
const GRACE_MS = 5000, ASK_AGAIN_MS = 2000, AFTER_A_FAILURE = Buffer.alloc(32, 255).toString("base64");
const after = (milliseconds: number) => new Promise<void>((go) => setTimeout(go, milliseconds));

export class Run {
  verdict?: Json;
  readonly input: Json;
  readonly over = new AbortController();
  readonly answers = new Map<string, (reply: Json) => void>(); // by claim
  private results: Map<string, Json>;
  private unread: Set<string>; // results for which this run has not asked yet
  private counts = new Map<string, number>();
  private position = 0;
  private failed = false;
  private busy = new Set<Promise<unknown>>();

  constructor(readonly lease: Json, readonly partition: number, public basis: number, private link: Link) {
    this.input = JSON.parse(lease.input);
    this.results = new Map(lease.steps.map((each: Json) => [each.id, each]));
    this.unread = new Set(lease.steps.filter((each: Json) => each.position >= 0).map((each: Json) => each.id));
  }
  expiresAt = () => this.basis + this.lease.term_seconds;
  validUntil = () => this.expiresAt() - this.link.margin;

  /** Does a piece of work once: its value is kept with the job. */
  async step(name: string, work: (...args: Json[]) => unknown, args: Json[] = [], key?: string): Promise<Json> {
    const call = this.call("step", name, { args, kwargs: {} }, key);
    const left = this.results.get(call.id) ?? await this.under(call, async () => {
      const step = { ...call, value: json(await this.orOver(work(...args))) };
      this.check();
      await this.orOver(this.say("checkpoint", { run_id: this.lease.run_id, step }));
      return step;
    });
    return JSON.parse(left.value);
  }
  /** Makes a side effect if the ledger lets it begin: claim, call, outcome. */
  effect(tool: string, key: string, args: Json, work: (key: string) => unknown, keyLifetime = 0): Promise<Json> {
    return this.under(null, async () => {
      const action = `${tool}/${key}`, about = { claim_id: `clm_${v7()}`, run_id: this.lease.run_id, action };
      const outcome = (status: string, result: string | null, error: string | null, blames_tool = false) =>
        this.say("outcome", { ...about, status, result, error, blames_tool },
                 () => this.expiresAt() + (status === "unknown" ? 0 : 600));
      const claim = { ...about, digest: digest(args), key_lifetime_ms: keyLifetime * 1000 };
      let reply: Json, value: unknown, result: string | null = null;
      try {
        reply = await this.ask("claim", claim);
        if (reply.kind === "granted") this.check();
      } catch (error) { // it may be granted all the same
        const unknown = reply ? reply.repeat : keyLifetime > 0;
        outcome(unknown ? "unknown" : "failed", null, "the run ended before it began");
        throw error;
      }
      if (reply.kind === "done") return JSON.parse(reply.result ?? "null");
      if (reply.kind !== "granted") throw this.turnedDown(reply, action);
      try {
        value = await work(reply.idempotency_key);
      } catch (error) {
        const nothing = (error instanceof PermanentError || error instanceof TransientError) && !reply.repeat;
        outcome(nothing ? "failed" : "unknown", null, told(error), !(error instanceof PermanentError));
        throw error;
      }
      try { result = json(value); } finally { outcome("done", result, null); } // it did happen
      return JSON.parse(result);
    });
  }
  /** A wait for a time, for `all`. */
  sleep(seconds: number, key?: string): Wait {
    return { ...this.call("time", "sleep", { kind: "time" }, key), timeout_ms: Math.round(seconds * 1000) };
  }
  /** A wait for an event of the tenant. */
  event(match: Json, seconds?: number, key?: string): Wait {
    const what = { match: canonical(match), consume: "all" }, timeout_ms = seconds === undefined ? null : seconds * 1000;
    return { ...this.call("event", "event", { kind: "event", ...what }, key), match: what.match, since: "job", timeout_ms };
  }
  /** Asks for a job, once; the wait is for its end. */
  async enqueue(type: string, input: Json, key?: string): Promise<Wait> {
    const call = this.call("child", type, { type, input }, key);
    const left = this.results.get(call.id) ?? await this.under(call, async () => {
      const child = { call: call.id, type, input: json(input), digest: call.digest };
      const reply = await this.ask("enqueue", { claim_id: `clm_${v7()}`, run_id: this.lease.run_id, left: call, child });
      if (reply.kind !== "made") throw this.turnedDown(reply, call.id);
      return { ...call, value: reply.result };
    });
    const { job_id } = JSON.parse(left.value), id = `${call.id}!end`;
    return { ...call, id, kind: "job", position: -1, digest: digest({ kind: "job", job_id }), job_id };
  }
  /** What all waits give. Unless they have ended, the run ends, and a later one goes on here. */
  async all(...waits: Wait[]): Promise<Json[]> {
    const open = waits.filter((each) => !this.results.has(each.id));
    if (open.length && !waits.some((each) => this.results.get(each.id)?.raises)) {
      for (const each of open) this.mayBegin(each);
      await Promise.allSettled(this.busy);
      this.stop({ status: "parked", waits: open.map((each) => ({ ...each, group: 0, needs_all: true })) });
      this.check();
    }
    const left = waits.map((each) => this.results.get(each.id) ?? {}), raised = left.find((each) => each.raises);
    this.failed ||= !!raised;
    if (raised) throw new PermanentError(`${raised.raises}: ${raised.message}`);
    if (left.some((each, place) => each.digest !== waits[place].digest))
      throw new PermanentError("the job waited here for something else before");
    return left.map((each) => JSON.parse(each.value));
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
    const late = { status: "retry", error: `TimeoutError: ran past its ${this.lease.timeout_seconds} s` };
    const timer = setTimeout(() => this.stop(late), this.lease.timeout_seconds * 1000);
    const handled = (async () => ({ status: "succeeded", result: json(await handler(this)) }))().catch((error) => ({
      status: error instanceof PermanentError ? "failed" : "retry", error: told(error),
      retry_after_seconds: error instanceof TransientError ? error.seconds : null,
    }));
    this.stop(await this.orOver(handled).catch(() => this.verdict));
    clearTimeout(timer);
    await Promise.race([Promise.allSettled([handled, ...this.busy]), after(GRACE_MS)]);
    return this.verdict;
  }

  private call(kind: string, name: string, what: Json, key?: string): Call {
    const ordinal = key === undefined ? (this.counts.get(name) ?? 0) + 1 : 0;
    if (ordinal) this.counts.set(name, ordinal);
    const id = escaped(name) + (ordinal > 1 ? `#${ordinal}` : ordinal ? "" : `[${escaped(key!)}]`);
    this.unread.delete(id);
    return { id, kind, position: this.position++, digest: digest(what), failed_before: this.failed ? AFTER_A_FAILURE : "" };
  }
  /** Stops the run if its job has results that this code had to ask for before the call. */
  private mayBegin(call: Call): void {
    const before = [...this.unread].map((id) => this.results.get(id)).find(
      (each) => each.position <= call.position && !each.failed_before);
    if (before) this.stop({ status: "review", diverged: before.id, error: `recorded ${before.id}, asked ${call.id}` });
    this.check();
  }
  /** Does something that the run does not park before; what a call leaves is kept. */
  private async under(call: Call | null, work: () => Promise<Json>): Promise<Json> {
    if (call) this.mayBegin(call);
    this.check();
    const made = work().then((left) => (call && this.results.set(call.id, left), left));
    this.busy.add(made);
    return made.catch((error) => { this.failed = true; throw error; }).finally(() => this.busy.delete(made));
  }
  private orOver<T>(work: T): Promise<Awaited<T>> {
    const { signal } = this.over;
    return Promise.race([work, new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      if (signal.aborted) reject(signal.reason);
    })]);
  }
  private say(kind: string, body: Json, until = this.validUntil): Promise<void> {
    return this.link.order(this.partition, kind, body, this.lease, until);
  }
  private async ask(kind: string, body: Json): Promise<Json> {
    const answer = new Promise<Json>((resolve) => this.answers.set(body.claim_id, resolve));
    for (let reply; ; ) {
      await this.orOver(this.say(kind, body, () => (this.verdict ? -1 : this.validUntil())));
      if ((reply = await this.orOver(Promise.race([answer, after(ASK_AGAIN_MS)])))) return reply;
    }
  }
  private turnedDown({ kind, message: error }: Json, action: string): Error {
    if (["held", "denied", "refused", "conflict"].includes(kind)) return new PermanentError(error);
    const ends: Json = { busy: "blocked", full: "full", cancel: "cancelled", review: "review" };
    const awaited: Json = { busy: ["job", action], full: [action.split("/")[0], null] };
    this.stop({ status: ends[kind] ?? "lost", result: kind in awaited ? json(awaited[kind]) : null, error });
    return new Error(error);
  }
}

const told = (error: unknown) => (error instanceof Error ? `${error.constructor.name}: ${error.message}` : `${error}`).slice(0, 2000);
const escaped = (name: string) => name.replace(/[%/#[\]()!]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
const digest = (what: Json) => createHash("sha256").update(canonical(what)).digest("base64");

function json(value: unknown): string {
  const text = JSON.stringify(value ?? null);
  if (Buffer.byteLength(text) > 262_144) throw new PermanentError("a value has more than 256 KiB: store it elsewhere");
  return text;
}
/** JSON with sorted names and without blanks: docs/link.md. */
function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const isFraction = typeof value === "number" && value !== 0 && !Number.isSafeInteger(value);
  if (isFraction && (Math.abs(value) >= 1e16 || Math.abs(value) < 1e-5)) return value.toExponential();
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
