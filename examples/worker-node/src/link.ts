// The connections to the owners of partitions: what is sent again, slots and beats.
import { uptime } from "node:os";
import WebSocket from "ws";
import { type Json, JobError } from "./values.js";
import * as worker from "./worker.js";

type Owner = WebSocket & { received: number; limit: number; answeredAt: number };
type Order = { message: Json; until: () => number; settle: (result: Json) => void; answer?: Json };

const SILENT_SECONDS = 15;
export const now = uptime; // seconds; it counts the time in which the machine was suspended
export let terms = { margin_seconds: 0, heartbeat_seconds: 0, term_seconds: 0 }; // those of the newest welcome
const ownerOf = new Map<number, Owner>(); // by partition; the newest word counts
const orders = new Map<number, Order>(); // by number: commands and requests that are not settled
let owners: Owner[] = []; // those that welcomed this worker; one that wants slots comes first
let newest = 0;
let beatDue = 0;

/** Numbers orders and beats; that of a beat says when it was sent, in microseconds. */
const nextNumber = () => (newest = Math.max(newest + 1, Math.round(now() * 1e6)));
const send = (owner: Owner, message: Json) => owner.send(JSON.stringify([message]), () => {});

/** Keeps a connection to an owner. */
export function dial(url: string, token: string, pause = 100): void {
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(url, { headers, maxPayload: 16 << 20 });
  const owner = Object.assign(socket, { received: 0, limit: -1, answeredAt: now() });
  owner.on("open", () => send(owner, { type: "hello", ...worker.hello }));
  owner.on("error", (error) => console.error(`${url}: ${error.message}`));
  owner.on("pong", () => (owner.answeredAt = now()));
  owner.on("message", (frame) => {
    for (const message of JSON.parse(frame.toString())) read[message.type]?.(message, owner);
    share();
  });
  owner.on("close", () => {
    const next = owners.includes(owner) ? 100 : Math.min(5000, 2 * pause);
    owners = owners.filter((each) => each !== owner);
    owns(owner, []);
    share();
    setTimeout(dial, next, url, token, next);
  });
}

const read: Record<string, (message: Json, owner: Owner) => void> = {
  welcome(message, owner) {
    console.error(`${message.owner} takes this worker as ${message.worker_id}`);
    terms = message;
    owners.push(owner);
    owns(owner, message.owned);
  },
  owned: ({ partitions }, owner) => owns(owner, partitions),
  lease({ lease, beat }, owner) {
    owner.received++;
    worker.take(lease, beat / 1e6);
  },
  answer({ number, reply }) {
    if (number)
      settle(number, new JobError(reply.message)); // no owner can apply it
    else if (!reply.claim_id) worker.endRun(reply);
    for (const order of orders.values())
      if (order.message.body?.claim_id === reply.claim_id) order.answer = reply;
  },
  acked({ numbers }) {
    for (const [number, { message, answer }] of orders)
      if (message.kind && number <= numbers[message.partition]) settle(number, answer);
  },
  done: (answer) => settle(answer.request, answer),
  failed: ({ request, message }) => settle(request, new JobError(message, null)),
  wanted: (_, owner) => (owners = [owner, ...owners.filter((each) => each !== owner)]),
  refused({ reason, message }) {
    console.error(`refused: ${reason}: ${message}`);
    if (reason === "replaced") worker.drain(1);
  },
};

/** Notes which partitions an owner has, and sends it what is kept for them, in its order. */
function owns(owner: Owner, partitions: number[]): void {
  ownerOf.forEach((each, partition) => each === owner && ownerOf.delete(partition));
  for (const partition of partitions) {
    const kept = [...orders].filter(([, { message }]) => message.partition === partition);
    ownerOf.set(partition, owner);
    heartbeat(partition); // it introduces this process
    for (const [number, order] of kept) {
      orders.delete(number);
      if (order.message.kind !== "heartbeat") put(order);
    }
  }
}

/** Sends a message to whoever owns its partition; gives the answer once it is acknowledged. */
export function order(message: Json, until: () => number): Promise<Json> {
  const settled = new Promise<Json>((resolve, reject) => {
    const settle = (result: Json) => (result instanceof Error ? reject(result) : resolve(result));
    put({ message, until, settle });
  });
  settled.catch(() => {}); // for those who do not wait
  return settled;
}

/** Gives an order a new number, so that no acknowledgement of a former copy counts for it. */
function put(order: Order): void {
  const number = nextNumber();
  orders.set(number, order);
  const owner = ownerOf.get(order.message.partition);
  if (owner) send(owner, { ...order.message, number, request: number });
}

function settle(number: number, result: Json): void {
  orders.get(number)?.settle(result);
  orders.delete(number);
}

export const isSettled = () => [...orders.values()].every((o) => o.message.kind === "heartbeat");
export const introduce = () => Promise.all([...ownerOf.keys()].map(heartbeat));

/** Lists the runs of a partition to its owner: once it is acknowledged, terms count from now. */
function heartbeat(partition: number): Promise<void> {
  const at = now();
  const runs = worker.runsOf(partition);
  const leases = runs.map(({ lease: { job_id, epoch } }) => ({ job_id, epoch, waits: false }));
  const body = { leases };
  const sent = order({ type: "command", kind: "heartbeat", partition, body }, () => at + 60);
  return sent.then(() => runs.forEach((run) => run.renew(at))).catch(() => {});
}

/** Shares the free slots out among the owners, and tells each whose limit has changed. */
export function share(): void {
  for (const [place, owner] of owners.entries()) {
    const limit = owner.received + Math.ceil((worker.free() - place) / owners.length);
    if (limit === owner.limit) continue;
    owner.limit = limit;
    send(owner, { type: "beat", number: nextNumber(), limit, draining: worker.draining });
  }
}

/** Sends each owner a beat, and dials those anew that do not answer. */
export function beat(): void {
  for (const owner of owners) {
    if (now() > owner.answeredAt + SILENT_SECONDS) owner.terminate();
    owner.ping();
    owner.limit = -1;
  }
  share();
}

/** To be called several times a second. */
export function tick(): void {
  const late = [...orders].filter(([, { until }]) => now() >= until());
  for (const [number] of late) settle(number, new Error("it is too late"));
  if (now() < beatDue) return;
  beatDue = now() + terms.heartbeat_seconds;
  beat();
  [...ownerOf.keys()].filter((each) => worker.runsOf(each).length).forEach(heartbeat);
}
