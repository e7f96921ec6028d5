// The connections to the owners of partitions: numbers, acknowledgements, limits and beats.
import { uptime } from "node:os";
import WebSocket from "ws";
import type { Worker } from "./worker.js";

export type Json = any;
export const now = uptime; // seconds; it counts the time in which the machine was suspended
type Until = () => number;
interface Order { partition: number; number: number; command: Json; until: Until; done: (error?: Error) => void }
interface Connection { url: string; open: boolean; received: number; limit: number; pause: number; send: (message: Json) => void }

/** What a handler or a tool raises: nothing was done, and no attempt can succeed unless it gives `seconds` or null. */
export class JobError extends Error {
  constructor(message: string, readonly seconds?: number | null) { super(message); }
}

export class Link {
  margin = 0;
  readonly owners = new Map<number, Connection>(); // by partition; the newest word counts
  private orders: Order[] = []; // those that are not acknowledged
  private numbers: Record<number, number> = {};
  private beats = new Map<number, number>(); // when each was sent
  private lastBeat = 0;
  private connections: Connection[]; // one that wants slots comes first

  constructor(private worker: Worker, addresses: string, private token: string) {
    const closed = { open: false, received: 0, limit: -1, pause: 100, send: () => {} };
    this.connections = addresses.split(",").map((each) => ({ url: new URL("/v1/link", each.trim()).href, ...closed }));
    this.connections.slice().forEach((each) => this.dial(each));
    setInterval(() => this.settle((order) => now() >= order.until(), new Error("it is too late")), 100);
  }
  /** Sends a command to whoever owns the partition, until it is acknowledged or too late. */
  order(partition: number, kind: string, body: Json, lease?: Json, until: Until = () => Infinity): Promise<void> {
    const command = { kind, body, tenant_id: lease?.tenant_id, job_id: lease?.job_id, epoch: lease?.epoch };
    const sent = new Promise<void>((ok, no) =>
      this.put({ partition, number: 0, command, until, done: (error) => (error ? no(error) : ok()) }));
    sent.catch(() => {});
    return sent;
  }
  isDone = () => this.orders.every((order) => order.command.kind === "heartbeat");
  /** Shares the free slots out among the owners, and tells each whose limit has changed. */
  share(always?: Connection): void {
    const open = this.connections.filter((each) => each.open), free = this.worker.free();
    open.forEach((each, place) => {
      const limit = each.received + Math.floor((free + open.length - 1 - place) / open.length);
      if (limit === each.limit && each !== always) return;
      this.beats.set(++this.lastBeat, now()).delete(this.lastBeat - 10_000);
      each.send({ type: "beat", number: this.lastBeat, limit: (each.limit = limit), draining: this.worker.draining });
    });
  }
  /** Names the runs of a partition to its owner; once that is acknowledged, their terms count from now. */
  async heartbeat(partition: number): Promise<void> {
    const runs = this.worker.runsOf(partition), at = now();
    const leases = runs.map(({ lease }) => ({ job_id: lease.job_id, epoch: lease.epoch, waits: false }));
    await this.order(partition, "heartbeat", { leases, leaving: false }, null, () => at + 600);
    for (const run of runs) if (now() < run.expiresAt()) run.basis = Math.max(run.basis, at);
  }
  private dial(each: Connection): void {
    const socket = new WebSocket(each.url, { headers: { authorization: `Bearer ${this.token}` }, maxPayload: 16 << 20 });
    let beating: NodeJS.Timeout;
    each.send = (message) => socket.send(JSON.stringify([message]), () => {});
    socket.on("open", () => each.send({ type: "hello", ...this.worker.hello }));
    socket.on("error", (error) => console.error(`${each.url}: ${error.message}`));
    socket.on("message", (frame) => JSON.parse(frame.toString()).forEach((message: Json) => {
      if (message.type === "welcome") beating = setInterval(() => this.beat(each), message.heartbeat_seconds * 1000);
      this.read(each, message);
      this.share();
    }));
    socket.on("close", () => {
      each.open = false;
      clearInterval(beating);
      this.owns(each, []);
      this.share();
      setTimeout(() => this.dial(each), (each.pause = Math.min(5000, 2 * each.pause)));
    });
  }
  private read(each: Connection, { type, partition, ...message }: Json): void {
    if (type === "welcome") Object.assign(each, { open: true, received: 0, limit: -1, pause: 100 });
    if (type === "welcome") this.margin = message.margin_seconds;
    if (type === "welcome" || type === "owned") this.owns(each, message.owned ?? message.partitions);
    if (type === "lease" && ++each.received) this.worker.leased(partition, message.lease, this.beats.get(message.beat) ?? -1e9);
    if (type === "answer" && !message.number) this.worker.answered(message.reply);
    if (type === "answer" && message.number) // no owner can apply the command of this number
      this.settle((order) => order.partition === partition && order.number === message.number, new JobError(message.reply.message));
    if (type === "acked") this.settle((order) => order.number <= (message.numbers[order.partition] ?? 0));
    if (type === "wanted") this.connections.sort((one) => (one === each ? -1 : 0));
    if (type === "refused") console.error(`refused: ${message.reason}: ${message.message}`);
    if (type === "refused" && message.reason === "replaced") void this.worker.drain(1);
  }
  private beat(each: Connection): void {
    this.share(each);
    for (const [partition, owner] of this.owners)
      if (owner === each && this.worker.runsOf(partition).length) this.heartbeat(partition).catch(() => {});
  }
  private owns(each: Connection, partitions: number[]): void {
    for (const [partition, owner] of this.owners)
      if (owner === each && !partitions.includes(partition)) this.owners.delete(partition);
    for (const partition of partitions.filter((one) => this.owners.get(one) !== each)) {
      const waiting = this.orders.filter((order) => order.partition === partition);
      this.orders = this.orders.filter((order) => order.partition !== partition);
      this.owners.set(partition, each);
      this.heartbeat(partition).catch(() => {}); // introduces this process to the partition
      waiting.filter((order) => order.command.kind !== "heartbeat").forEach((order) => this.put(order));
    }
  }
  /** Keeps a command under a new number, so that no acknowledgement of a former copy counts for it. */
  private put(order: Order): void {
    const { partition } = order, number = (this.numbers[partition] = (this.numbers[partition] ?? 0) + 1);
    this.orders.push(Object.assign(order, { number }));
    this.owners.get(partition)?.send({ type: "command", partition, number, ...order.command });
  }
  private settle(over: (order: Order) => boolean, error?: Error): void {
    const settled = this.orders.filter(over);
    this.orders = this.orders.filter((order) => !settled.includes(order));
    settled.forEach((order) => order.done(error));
  }
}
