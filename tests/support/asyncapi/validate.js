// Parses an AsyncAPI document with the official parser; prints each diagnostic and the channels.
import { readFileSync } from "node:fs";
import { AvroSchemaParser } from "@asyncapi/avro-schema-parser";
import { Parser } from "@asyncapi/parser";

const parser = new Parser();
parser.registerSchemaParser(AvroSchemaParser());
const parsed = await parser.parse(readFileSync(process.argv[2], "utf8"));
const diagnostics = parsed.diagnostics.map(({ severity, code, path, message }) => ({
  severity, code, path: path.join("."), message,
}));
const channels = parsed.document?.channels().all().map((channel) => channel.address()) ?? null;
console.log(JSON.stringify({ diagnostics, channels }));
