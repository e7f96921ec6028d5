// The worker: takes leases, runs their handlers, reports the ends, and drains.
import { hostname } from "node:os";
import { v7 } from "uuid";
import { type Json, Link, now } from "./link.js";
import { Run } from "./run.js";

const POLICY = { max_attempts: 5, backoff: [1, 10, 60], timeout_seconds: 300 };
const DRAIN_SECONDS = 20, WIND_UP_SECONDS = 6, FAREWELL_SECONDS = 3;

export class Worker {
  draining = false;
  readonly hello: Json;
  private runs = new Map<string, Run>(); // by job and epoch
  private seen = new Set<string>();
  private running = 0;
  private link: Link;

  constructor(private jobs: Record<string, (run: Run) => unknown>, private slots: number, addresses: string,
              token: string, name = hostname()) {
    const handlers = Object.keys(jobs).map((type) => ({ type, ...POLICY }));
    this.hello = { version: 1, name, boot: v7(), pool: "default", slots, handlers };
    this.link = new Link(this, addresses, token);
    setInterval(() => this.runs.forEach((run) => now() >= run.validUntil() && run.stop({ status: "lost" })), 100);
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => this.drain(0));
  }
  free = () => (this.draining ? 0 : this.slots - this.running);

  leased({ partition, lease }: Json, beatSentAt: number): void {
    const run = new Run(lease, partition, beatSentAt, this.link), handler = this.jobs[lease.type];
    if (this.seen.has(lease.run_id)) return;
    this.seen.add(lease.run_id);
    if (this.free() && handler && now() < run.validUntil()) void this.begin(run, handler);
    else void this.link.order(partition, "declined", { reason: "full", detail: "no slot" }, lease, run.expiresAt);
  }
  answered(reply: Json): void {
    const run = this.runs.get(`${reply.job_id}/${reply.epoch}`);
    if (reply.claim_id) run?.answers.get(reply.claim_id)?.(reply);
    else if (!reply.run_id || reply.run_id === run?.lease.run_id)
      run?.stop({ status: reply.kind === "cancel" ? "cancelled" : "lost", error: reply.message });
  }
  listed(partition: number): Json[] {
    const here = [...this.runs.values()].filter((run) => run.partition === partition && run.verdict?.status !== "lost");
    return here.map(({ lease }) => ({ job_id: lease.job_id, epoch: lease.epoch, waits: false }));
  }
  renew(leases: Json[], sentAt: number): void {
    for (const run of leases.map(({ job_id, epoch }) => this.runs.get(`${job_id}/${epoch}`)))
      if (run && now() < run.expiresAt()) run.basis = Math.max(run.basis, sentAt);
  }
  refused(reason: string, message: string): void {
    console.error(`refused: ${reason}: ${message}`);
    if (reason === "replaced") void this.drain(1);
  }
  /** Takes no more leases, lets runs end, gives back those that do not, and ends the process. */
  private async drain(code: number): Promise<void> {
    if (this.draining) return;
    this.draining = true;
    this.link.share();
    const crossed = Promise.allSettled([...this.link.owners.keys()].map((each) => this.link.heartbeat(each)));
    await Promise.race([crossed, until(() => false, FAREWELL_SECONDS)]); // all leases of before have come
    await until(() => !this.runs.size, DRAIN_SECONDS);
    this.runs.forEach((run) => run.stop({ status: "released", error: "the worker shut down" }));
    await until(() => !this.runs.size, WIND_UP_SECONDS);
    await until(this.link.isDone, FAREWELL_SECONDS);
    setImmediate(() => process.exit(code));
  }
  private async begin(run: Run, handler: (run: Run) => unknown): Promise<void> {
    const { lease, partition } = run, id = `${lease.job_id}/${lease.epoch}`;
    this.runs.set(id, run);
    this.running++;
    const verdict = await run.execute(handler);
    const ended = { run_id: lease.run_id, result: null, error: null, retry_after_seconds: null, traceback: null, ...verdict };
    const sent = verdict.status === "lost" || this.link.order(partition, "ended", ended, lease, run.validUntil);
    this.running--;
    this.link.share();
    await Promise.allSettled([sent]);
    this.runs.delete(id);
  }
}

async function until(done: () => boolean, seconds: number): Promise<void> {
  for (const end = now() + seconds; !done() && now() < end; ) await new Promise((go) => setTimeout(go, 20));
}
