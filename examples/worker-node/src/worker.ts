// The worker: takes leases, runs their handlers, reports the ends, and drains.
import { hostname } from "node:os";
import { setTimeout as after } from "node:timers/promises";
import { v7 } from "uuid";
import * as link from "./link.js";
import { type Handler, Run } from "./run.js";
import type { Json } from "./values.js";

type Handlers = Record<string, Handler>;
const POLICY = { max_attempts: 5, backoff: [1, 10, 60], timeout_seconds: 300 };
const NO_END = { result: null, error: null, retry_after_seconds: null, traceback: null };

export let hello: Json;
export let draining = false;
const runs = new Map<string, Run>(); // by job and epoch
const seen = new Set<string>();
let handlers: Handlers = {};

/** Runs jobs of these types until the process is told to end. */
export function serve(jobs: Handlers, slots: number, addresses: string, token: string): void {
  handlers = jobs;
  const name = process.env.TIDEGATE_INSTANCE || hostname();
  const types = Object.keys(jobs).map((type) => ({ type, ...POLICY }));
  hello = { version: 1, name, boot: v7(), pool: "default", slots, handlers: types };
  for (const each of addresses.split(",")) link.dial(new URL("/v1/link", each.trim()).href, token);
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => drain(0));
  setInterval(() => runs.forEach((run) => run.expire()), 100);
  setInterval(link.tick, 100);
}

/** How many more runs may begin. */
export function free(): number {
  return draining ? 0 : hello.slots - [...runs.values()].filter((run) => run.isBusy).length;
}

/** The runs of a partition that go on, or whose end is not acknowledged. */
export function runsOf(partition: number): Run[] {
  const mine = [...runs.values()].filter((run) => run.lease.home_partition === partition);
  return mine.filter((run) => run.end()?.status !== "lost");
}

export function take(lease: Json, beatSentAt: number): void {
  if (seen.has(lease.run_id)) return;
  if (seen.add(lease.run_id).size > 10_000) seen.delete(seen.values().next().value!);
  const run = new Run(lease, beatSentAt);
  const handler = handlers[lease.type];
  if (free() > 0 && handler && link.now() < run.validUntil()) begin(run, handler);
  else run.say("declined", { detail: "no slot" }, run.expiresAt);
}

export function endRun({ job_id, epoch, kind, message }: Json): void {
  const status = kind === "cancel" ? "cancelled" : "lost";
  runs.get(`${job_id}/${epoch}`)?.stop({ status, error: message });
}

async function begin(run: Run, handler: Handler): Promise<void> {
  const id = `${run.lease.job_id}/${run.lease.epoch}`;
  runs.set(id, run);
  const end = await run.execute(handler);
  run.isBusy = false;
  link.share();
  if (end.status !== "lost") await run.say("ended", { ...NO_END, ...end }).catch(() => {});
  runs.delete(id);
}

/** Takes no more leases, lets runs end, gives back those that do not, and ends the process. */
export async function drain(code: number): Promise<void> {
  if (draining) return;
  draining = true;
  link.beat();
  await Promise.race([link.introduce(), after(3000)]); // what was sent before has come
  await until(() => !runs.size, 20);
  runs.forEach((run) => run.stop({ status: "released", error: "the worker shut down" }));
  await until(() => !runs.size && link.isSettled(), 9);
  process.exit(code);
}

async function until(met: () => boolean, seconds: number): Promise<void> {
  for (const end = link.now() + seconds; !met() && link.now() < end;) await after(20);
}
