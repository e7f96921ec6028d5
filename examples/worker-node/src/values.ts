// Values and names as the link has them.
import { createHash } from "node:crypto";
import { blake2b } from "@noble/hashes/blake2.js";

export type Json = any;

/** What a handler or a tool raises if nothing was done; with `seconds` it may be tried again. */
export class JobError extends Error {
  readonly name = "JobError";

  constructor(
    message: string,
    readonly seconds?: number | null,
  ) {
    super(message);
  }
}

/** The JSON text of a value that is kept with a job. */
export function json(value: unknown): string {
  const text = JSON.stringify(value ?? null);
  if (Buffer.byteLength(text) > 262_144) throw new JobError("a value has more than 256 KiB");
  return text;
}

/** JSON with sorted names and without blanks: see docs/link.md. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const size = typeof value === "number" ? Math.abs(value) : 1;
  if (size >= 1e16 || (size < 1e-5 && size > 0)) return value.toExponential();
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

export function digest(value: Json): string {
  return createHash("sha256").update(canonical(value)).digest("base64");
}

/** A name or a key as a part of an id. */
export function escaped(name: string): string {
  const hex = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return name.replace(/[%/#[\]()!]/g, hex);
}

/** The hash of parts in an id: each behind its length, in base32hex. */
export function hashed(...parts: string[]): string {
  const texts = parts.map((part) => Buffer.from(part).toString("hex"));
  const framed = texts.map((hex) => (hex.length / 2).toString(16).padStart(8, "0") + hex);
  const hash = blake2b(Buffer.from(framed.join(""), "hex"), { dkLen: 16 });
  const number = BigInt(`0x${Buffer.from(hash).toString("hex")}`) << 2n;
  return number.toString(32).padStart(26, "0");
}
