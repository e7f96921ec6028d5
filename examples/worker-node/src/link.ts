// The connections to the owners of partitions: numbers, acknowledgements, limits and beats.
import { uptime } from "node:os";
import WebSocket from "ws";
import type { Worker } from "./worker.js";

export type Json = any;
export const now = uptime; // seconds; it counts the time in which the machine was suspended
interface Order { number: number; command: Json; until: () => number; done: (late?: Error) => void }

class Connection {
  open = false;
  received = 0; // leases since it was opened
  limit = -1; // as the owner was last told
  pause = 100;
  private waiting: Json[] = [];
  constructor(readonly url: string, public socket: WebSocket | null = null) {}

  /** Sends a message in one frame with all others of this turn. */
  send(message: Json): void {
    if (this.waiting.push(message) === 1) setImmediate(() => {
      const frame = JSON.stringify(this.waiting.splice(0));
      if (this.open) this.socket!.send(frame);
    });
  }
}

export class Link {
  margin = 0;
  readonly owners = new Map<number, Connection>();
  private connections: Connection[]; // one that wants slots comes first
  private orders = new Map<number, Order[]>(); // by partition, those that are not acknowledged
  private numbers = new Map<number, number>();
  private beats = new Map<number, number>(); // when each was sent
  private lastBeat = 0;

  constructor(private worker: Worker, addresses: string, private token: string) {
    this.connections = addresses.split(",").map((each) => new Connection(new URL("/v1/link", each.trim()).href));
    for (const each of this.connections) this.dial(each);
    setInterval(() => this.dropLate(), 100);
  }
  /** Sends a command to whoever owns the partition, until it is acknowledged or too late. */
  order(partition: number, kind: string, body: Json, lease?: Json, until = () => Infinity): Promise<void> {
    const command = { kind, body, tenant_id: lease?.tenant_id, job_id: lease?.job_id, epoch: lease?.epoch };
    const sent = new Promise<void>((acknowledged, late) =>
      this.put(partition, { number: 0, command, until, done: (error) => (error ? late(error) : acknowledged()) }));
    sent.catch(() => {});
    return sent;
  }
  isDone = () => [...this.orders.values()].flat().every((each) => each.command.kind === "heartbeat");

  /** Shares the free slots out among the owners, and tells each whose limit has changed. */
  share(always?: Connection): void {
    const open = this.connections.filter((each) => each.open), free = this.worker.free();
    open.forEach((each, place) => {
      const limit = each.received + Math.floor((free + open.length - 1 - place) / open.length);
      if (limit === each.limit && each !== always) return;
      const number = ++this.lastBeat;
      this.beats.set(number, now()).delete(number - 10_000);
      each.send({ type: "beat", number, limit: (each.limit = limit), draining: this.worker.draining });
    });
  }
  /** Names the runs of a partition to its owner; their leases count from now once that is acknowledged. */
  async heartbeat(partition: number): Promise<void> {
    const leases = this.worker.listed(partition), at = now();
    await this.order(partition, "heartbeat", { leases, leaving: false }, null, () => at + 600);
    this.worker.renew(leases, at);
  }
  private dial(each: Connection): void {
    let beating: NodeJS.Timeout;
    const headers = { authorization: `Bearer ${this.token}` };
    const socket = (each.socket = new WebSocket(each.url, { headers, maxPayload: 16 << 20 }));
    socket.on("open", () => socket.send(JSON.stringify([{ type: "hello", ...this.worker.hello }])));
    socket.on("error", (error) => console.error(`${each.url}: ${error.message}`));
    socket.on("message", (frame) => JSON.parse(frame.toString()).forEach((message: Json) => {
      if (message.type === "welcome") {
        Object.assign(each, { open: true, received: 0, limit: -1, pause: 100 });
        this.margin = message.margin_seconds;
        this.owns(each, message.owned);
        beating = setInterval(() => this.beat(each), message.heartbeat_seconds * 1000);
      }
      if (message.type === "owned") this.owns(each, message.partitions);
      if (message.type === "acked") this.acknowledged(message.numbers);
      if (message.type === "answer") this.worker.answered(message.reply);
      if (message.type === "wanted") this.connections.sort((one) => (one === each ? -1 : 0));
      if (message.type === "lease" && ++each.received) this.worker.leased(message, this.beats.get(message.beat) ?? -1e9);
      if (message.type === "refused") this.worker.refused(message.reason, message.message);
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
  private beat(each: Connection): void {
    this.share(each);
    for (const [partition, owner] of this.owners)
      if (owner === each && this.worker.listed(partition).length) void this.heartbeat(partition).catch(() => {});
  }
  private owns(each: Connection, partitions: number[]): void {
    for (const [partition, owner] of this.owners)
      if (owner === each && !partitions.includes(partition)) this.owners.delete(partition);
    for (const partition of partitions.filter((one) => this.owners.get(one) !== each)) { // the newest word counts
      const waiting = (this.orders.get(partition) ?? []).filter((order) => order.command.kind !== "heartbeat");
      this.owners.set(partition, each);
      this.orders.set(partition, []);
      void this.heartbeat(partition).catch(() => {}); // introduces this process to the partition
      for (const order of waiting) this.put(partition, order);
    }
  }
  /** Keeps a command under a new number, so that no acknowledgement of a former copy counts for it. */
  private put(partition: number, order: Order): void {
    const number = (order.number = (this.numbers.get(partition) ?? 0) + 1);
    this.numbers.set(partition, number);
    this.orders.set(partition, [...(this.orders.get(partition) ?? []), order]);
    this.owners.get(partition)?.send({ type: "command", partition, number, ...order.command });
  }
  private acknowledged(numbers: Record<string, number>): void {
    for (const [partition, newest] of Object.entries(numbers)) {
      const orders = this.orders.get(Number(partition)) ?? [];
      while (orders.length && orders[0]!.number <= newest) orders.shift()!.done();
    }
  }
  private dropLate(): void {
    for (const [partition, orders] of this.orders) {
      const late = orders.filter((order) => now() >= order.until());
      this.orders.set(partition, orders.filter((order) => !late.includes(order)));
      for (const order of late) order.done(new Error("too late"));
    }
  }
}
