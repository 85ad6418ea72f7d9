// pi: `node --expose-gc pi.mjs KIND ROW SECONDS`, with the folder of its packages in PI_PACKAGES.
//
// KIND is "harness" (its session in memory, and in a JSONL file where a figure says so) or "agent", which keeps
// no session. What it prints and how it measures is that of measure.py. A compiler works while it runs, so it
// warms up for as long as it is measured.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const CHUNKS = 1_000;
const LENGTHS = [100, 10_000];
const AGENTS = 1_000;
const DELAY = 50;
const LEAST = 15;
const CROWDS = 3;
const KEPT_BEFORE = 100;
const KEPT = 200;
const PACKAGES = process.env.PI_PACKAGES;
const CORE = "@earendil-works/pi-agent-core";
const AI = "@earendil-works/pi-ai";
const [kind, row, given] = process.argv.slice(2);
const seconds = Number(given);
const figures = {};

const inside = (name, ...parts) => path.join(PACKAGES, "node_modules", ...name.split("/"), ...parts);
const manifest = (name) => JSON.parse(readFileSync(inside(name, "package.json"), "utf8"));
const load = (name, file) => import(pathToFileURL(inside(name, file)));
const { Agent, AgentHarness, InMemorySessionStorage, JsonlSessionRepo, Session } = await load(CORE, manifest(CORE).main);
const { createAssistantMessageEventStream } = await load(AI, manifest(AI).main ?? "dist/index.js");

// -- measuring, as measure.py does it

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const now = () => performance.now() / 1000;
const processor = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

async function time(name, make, turn, per = 1) {
  for (const end = now() + seconds; now() < end; ) await turn(await make());
  globalThis.gc();
  const wall = [];
  const cpu = [];
  for (const end = now() + seconds; wall.length < LEAST || now() < end; ) {
    const made = await make();
    const cpuBegun = processor();
    const begun = now();
    await turn(made);
    wall.push(now() - begun);
    cpu.push(processor() - cpuBegun);
  }
  const micro = 1e6 / per;
  const best = wall.reduce((a, b) => Math.min(a, b));
  figures[name] = { value: median(wall) * micro, best: best * micro, cpu: median(cpu) * micro, samples: wall.length };
}

async function size(name, make) {
  const kept = [];
  for (let i = 0; i < KEPT_BEFORE; i++) kept.push(await make());
  globalThis.gc();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < KEPT; i++) kept.push(await make());
  globalThis.gc();
  const after = process.memoryUsage().heapUsed;
  figures[name] = { value: (after - before) / (kept.length - KEPT_BEFORE) / 1024 };
}

async function together(name, make, turn) {
  const taken = [];
  for (let crowd = 0; crowd < CROWDS; crowd++) {
    const agents = [];
    for (let i = 0; i < AGENTS; i++) agents.push(await make());
    globalThis.gc();
    const begun = now();
    await Promise.all(agents.map(turn));
    taken.push(now() - begun);
  }
  figures[name] = { value: median(taken) };
}

// -- a model that answers at once

const nothing = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const model = {
  id: "bench",
  name: "bench",
  api: "bench",
  provider: "bench",
  baseUrl: "",
  reasoning: false,
  input: ["text"],
  cost: nothing,
  contextWindow: 1e9,
  maxTokens: 4096,
};

function said(content, stopReason = "stop") {
  const usage = { ...nothing, totalTokens: 0, cost: { ...nothing, total: 0 } };
  return { role: "assistant", content, api: "bench", provider: "bench", model: "bench", usage, stopReason, timestamp: Date.now() };
}

function text(chunks, word) {
  const stream = createAssistantMessageEventStream();
  const partial = said([{ type: "text", text: "" }]);
  stream.push({ type: "start", partial });
  stream.push({ type: "text_start", contentIndex: 0, partial });
  for (let i = 0; i < chunks; i++) {
    partial.content[0].text += word;
    stream.push({ type: "text_delta", contentIndex: 0, delta: word, partial });
  }
  stream.push({ type: "text_end", contentIndex: 0, content: partial.content[0].text, partial });
  stream.push({ type: "done", reason: "stop", message: partial });
  stream.end(partial);
  return stream;
}

function asking(calls) {
  const stream = createAssistantMessageEventStream();
  const content = Array.from({ length: calls }, (_, i) => ({ type: "toolCall", id: `c${i}`, name: "add", arguments: { a: 1, b: 2 } }));
  const message = said(content, "toolUse");
  stream.push({ type: "start", partial: message });
  content.forEach((toolCall, contentIndex) => {
    stream.push({ type: "toolcall_start", contentIndex, partial: message });
    stream.push({ type: "toolcall_end", contentIndex, toolCall, partial: message });
  });
  stream.push({ type: "done", reason: "toolUse", message });
  stream.end(message);
  return stream;
}

const answering = ({ calls = 0, chunks = 0, delay = 0 } = {}) => {
  const answer = (context) => {
    if (calls && context.messages.at(-1).role !== "toolResult") return asking(calls);
    return chunks ? text(chunks, "tok ") : text(1, "ok");
  };
  return delay ? (_model, context) => sleep(delay).then(() => answer(context)) : (_model, context) => answer(context);
};

const number = { type: "number" };
const add = {
  name: "add",
  label: "add",
  description: "Add two numbers.",
  parameters: { type: "object", properties: { a: number, b: number }, required: ["a", "b"] },
  execute: async (_id, { a, b }) => ({ content: [{ type: "text", text: String(a + b) }], details: {} }),
};

const messages = (length) =>
  Array.from({ length }, (_, i) => {
    const content = [{ type: "text", text: `message number ${i} ${"x".repeat(80)}` }];
    return i % 2 ? said(content) : { role: "user", content, timestamp: Date.now() };
  });

// -- the two kinds

async function inMemory() {
  return new Session(new InMemorySessionStorage());
}

function harness(session, stream) {
  const models = { streamSimple: stream };
  return new AgentHarness({ models, session, model, tools: [add], systemPrompt: "be brief" });
}

function agent(stream, history = []) {
  return new Agent({ streamFn: stream, initialState: { model, systemPrompt: "be brief", tools: [add], messages: history } });
}

const turn = (used) => used.prompt("hi");

/** Makes what takes one turn: an agent, or a harness with a session of its own. */
async function fresh(stream, session = inMemory) {
  return kind === "agent" ? agent(stream) : harness(await session(), stream);
}

async function check(stream, expected) {
  const session = await inMemory();
  const made = await fresh(stream, async () => session);
  await turn(made);
  const found = kind === "agent" ? made.state.messages : (await session.buildContext()).messages;
  if (found.length !== expected) throw new Error(`${found.length} messages, not ${expected}`);
}

async function timed(name, answer, expected, per = 1) {
  const stream = answering(answer);
  await check(stream, expected);
  await time(name, () => fresh(stream), turn, per);
  if (kind === "agent") return;
  const root = mkdtempSync(path.join(tmpdir(), "pi-bench-"));
  try {
    const { NodeExecutionEnv } = await load(CORE, "dist/node.js");
    const repo = new JsonlSessionRepo({ fs: new NodeExecutionEnv({ cwd: root }), sessionsRoot: root });
    await time(`${name} jsonl`, () => fresh(stream, () => repo.create({ cwd: "/bench" })), turn, per);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function long(length) {
  const stream = answering();
  const before = messages(length);
  if (kind === "agent") {
    await time(`e${length}`, async () => agent(stream, before), turn);
    return;
  }
  const session = await inMemory();
  for (const message of before) await session.appendMessage(message);
  const leaf = await session.getLeafId();
  const used = harness(session, stream);
  const back = async () => {
    await session.getStorage().setLeafId(leaf);
    return used;
  };
  await time(`e${length}`, back, turn);
}

const ROWS = {
  a: () => timed("a", {}, 2),
  b: () => timed("b", { calls: 1 }, 4),
  c: () => timed("c", { calls: 10 }, 13),
  d: () => timed("d", { chunks: CHUNKS }, 2, CHUNKS),
  e: async () => {
    for (const length of LENGTHS) await long(length);
  },
  f: async () => turn(await fresh(answering())),
  g: async () => {
    const stream = answering();
    await size("g agent", () => fresh(stream));
    await size("g conversation", async () => {
      const used = await fresh(stream);
      await turn(used);
      return used;
    });
  },
  h: () => together("h", () => fresh(answering({ delay: DELAY })), turn),
};

await ROWS[row]();
const versions = { "pi-agent-core": manifest(CORE).version, node: process.versions.node };
console.log(JSON.stringify({ versions, figures }));
