// Check flows with yaml-language-server, as editors do:  node validate.mjs SCHEMA FILE... [--bad FILE...]
//
// The files before --bad must have no diagnostic, those behind it at least one. Exit status: 0 as it should
// be, 1 a file is judged otherwise or the server does not answer, 2 wrong usage.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const SECONDS = 60;
const [schema, ...rest] = process.argv.slice(2);
const split = rest.includes("--bad") ? rest.indexOf("--bad") : rest.length;
const files = rest.filter((word) => word !== "--bad").map((file, i) => ({ file, bad: i >= split }));
if (!schema || files.length === 0) {
  console.error("usage: node validate.mjs SCHEMA FILE... [--bad FILE...]");
  process.exit(2);
}

const folder = dirname(createRequire(import.meta.url).resolve("yaml-language-server/package.json"));
const server = spawn(process.execPath, [join(folder, "bin", "yaml-language-server"), "--stdio"], {
  stdio: ["pipe", "pipe", "inherit"],
});
const uri = (file) => pathToFileURL(resolve(file)).href;
const settings = { validate: true, yamlVersion: "1.2", schemas: { [uri(schema)]: files.map(({ file }) => uri(file)) } };
const waiting = new Map(files.map((each) => [uri(each.file), each]));
let failed = false;

function send(message) {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  server.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function finish(code) {
  server.kill();
  process.exit(code);
}

function judge({ uri: name, diagnostics }) {
  const each = waiting.get(name);
  if (!each) return;
  waiting.delete(name);
  const right = each.bad === diagnostics.length > 0;
  failed ||= !right;
  console.log(`${each.file}: ${diagnostics.length} diagnostics${right ? "" : ", which is wrong"}`);
  if (!each.bad) {
    for (const { range, message } of diagnostics) console.log(`  line ${range.start.line + 1}: ${message}`);
  }
  if (waiting.size === 0) finish(failed ? 1 : 0);
}

function open() {
  send({ method: "initialized", params: {} });
  send({ method: "workspace/didChangeConfiguration", params: { settings: { yaml: settings } } });
  for (const { file } of files) {
    const textDocument = { uri: uri(file), languageId: "yaml", version: 1, text: readFileSync(file, "utf8") };
    send({ method: "textDocument/didOpen", params: { textDocument } });
  }
}

function answer(message) {
  if (message.id === 1 && !message.method) open();
  else if (message.method === "textDocument/publishDiagnostics") judge(message.params);
  else if (message.method === "workspace/configuration") {
    const result = message.params.items.map(({ section }) => (section === "yaml" ? settings : null));
    send({ id: message.id, result });
  } else if (message.method && message.id !== undefined) send({ id: message.id, result: null });
}

let buffer = Buffer.alloc(0);
server.stdout.on("data", (data) => {
  buffer = Buffer.concat([buffer, data]);
  for (;;) {
    const end = buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/Content-Length: (\d+)/i.exec(buffer.toString("utf8", 0, end))[1]);
    if (buffer.length < end + 4 + length) return;
    const text = buffer.toString("utf8", end + 4, end + 4 + length);
    buffer = buffer.subarray(end + 4 + length);
    answer(JSON.parse(text));
  }
});
server.on("exit", () => finish(1));
setTimeout(() => {
  console.error(`no answer for ${[...waiting.values()].map(({ file }) => file).join(", ")}`);
  finish(1);
}, SECONDS * 1000);

const capabilities = { workspace: { configuration: true }, textDocument: { publishDiagnostics: {} } };
send({ id: 1, method: "initialize", params: { processId: process.pid, rootUri: uri("."), capabilities } });
