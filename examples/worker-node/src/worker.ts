// The worker: takes leases, runs their handlers, reports the ends, and drains.
import { hostname } from "node:os";
import { setTimeout as after } from "node:timers/promises";
import { v7 } from "uuid";
import { type Json, Link, now } from "./link.js";
import { Run } from "./run.js";

type Handler = (run: Run) => unknown;
const POLICY = { max_attempts: 5, backoff: [1, 10, 60], timeout_seconds: 300 };
const DRAIN_SECONDS = 20, WIND_UP_SECONDS = 9, FAREWELL_SECONDS = 3;

export class Worker {
  draining = false;
  readonly hello: Json;
  private runs = new Map<string, Run>(); // by job and epoch
  private seen = new Set<string>();
  private running = 0;
  private link: Link;

  constructor(private jobs: Record<string, Handler>, private slots: number, addresses: string, token: string, name = hostname()) {
    const handlers = Object.keys(jobs).map((type) => ({ type, ...POLICY }));
    this.hello = { version: 1, name, boot: v7(), pool: "default", slots, handlers };
    this.link = new Link(this, addresses, token);
    setInterval(() => this.runs.forEach((run) => now() >= run.validUntil() && run.stop({ status: "lost" })), 100);
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => this.drain(0));
  }
  free = () => (this.draining ? 0 : this.slots - this.running);
  runsOf = (partition: number) =>
    [...this.runs.values()].filter((run) => run.partition === partition && run.verdict?.status !== "lost");

  leased(partition: number, lease: Json, beatSentAt: number): void {
    if (this.seen.has(lease.run_id)) return;
    if (this.seen.add(lease.run_id).size > 10_000) this.seen = new Set([lease.run_id]);
    const run = new Run(lease, partition, beatSentAt, this.link), handler = this.jobs[lease.type];
    if (this.free() && handler && now() < run.validUntil()) void this.begin(run, handler);
    else this.link.order(partition, "declined", { reason: "full", detail: "no slot" }, lease, run.expiresAt);
  }
  answered(reply: Json): void {
    const run = this.runs.get(`${reply.job_id}/${reply.epoch}`);
    if (reply.claim_id) run?.answers.get(reply.claim_id)?.(reply);
    else if (!reply.run_id || reply.run_id === run?.lease.run_id)
      run?.stop({ status: reply.kind === "cancel" ? "cancelled" : "lost", error: reply.message });
  }
  private async begin(run: Run, handler: Handler): Promise<void> {
    const id = `${run.lease.job_id}/${run.lease.epoch}`;
    this.runs.set(id, run);
    this.running++;
    const verdict = { result: null, error: null, retry_after_seconds: null, traceback: null, ...(await run.execute(handler)) };
    const sent = verdict.status === "lost" || run.say("ended", verdict);
    this.running--;
    this.link.share();
    await Promise.allSettled([sent]);
    this.runs.delete(id);
  }
  /** Takes no more leases, lets runs end, gives back those that do not, and ends the process. */
  async drain(code: number): Promise<void> {
    if (this.draining) return;
    this.draining = true;
    this.link.share();
    const crossed = Promise.allSettled([...this.link.owners.keys()].map((each) => this.link.heartbeat(each)));
    await Promise.race([crossed, after(FAREWELL_SECONDS * 1000)]); // all leases of before have come
    for (const end = now() + DRAIN_SECONDS; this.runs.size && now() < end; ) await after(20);
    this.runs.forEach((run) => run.stop({ status: "released", error: "the worker shut down" }));
    for (const end = now() + WIND_UP_SECONDS; (this.runs.size || !this.link.isDone()) && now() < end; ) await after(20);
    setImmediate(() => process.exit(code));
  }
}
