// Parse Mermaid files with Mermaid itself:  node parse.mjs [--expect-lines N] FILE...
//
// One line a file: its diagram type and what Mermaid made of it. For a sequence diagram `lines` is the number
// of messages, notes and block lines (alt, else, opt, loop, end, ...), counted in the parsed diagram, not in
// the text. Exit status: 0 all parse, 1 a file does not, is too long to be drawn, or has another number of
// lines than --expect-lines says, 2 wrong usage.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { JSDOM } from "jsdom";

function usage(problem) {
  console.error(`parse.mjs: ${problem}\nusage: node parse.mjs [--expect-lines N] FILE...`);
  process.exit(2);
}

function readArguments() {
  let parsed;
  try {
    parsed = parseArgs({ allowPositionals: true, options: { "expect-lines": { type: "string" } } });
  } catch (error) {
    usage(error.message);
  }
  const files = parsed.positionals;
  const given = parsed.values["expect-lines"];
  if (files.length === 0) usage("no file given");
  if (given === undefined) return { files };
  if (!/^\d+$/.test(given)) usage(`--expect-lines takes a number, not ${given}`);
  if (files.length > 1) usage("--expect-lines goes with one file");
  return { files, expected: Number(given) };
}

// Mermaid cleans labels with the document of a browser, so it needs one before it is loaded.
async function loadMermaid() {
  const { window } = new JSDOM("<!doctype html><body></body>");
  globalThis.window = window;
  globalThis.document = window.document;
  return (await import("mermaid")).default;
}

// What a sequence diagram holds; the names of the kinds are those of Mermaid's LINETYPE.
function countSequence(db) {
  const names = Object.fromEntries(Object.entries(db.LINETYPE).map(([name, number]) => [number, name]));
  const counts = { messages: 0, notes: 0, blocks: 0 };
  for (const { type } of db.getMessages()) {
    const name = names[type];
    if (name === undefined) throw new Error(`Mermaid knows no line of type ${type}`);
    if (/^(ACTIVE|AUTONUMBER|CENTRAL)/.test(name)) continue; // marks on a line, not lines
    if (name === "NOTE") counts.notes += 1;
    else if (/_(START|END|ELSE|AND|OPTION)$/.test(name)) counts.blocks += 1;
    else counts.messages += 1;
  }
  return { lines: counts.messages + counts.notes + counts.blocks, ...counts };
}

function count(diagram) {
  if (diagram.type === "sequence") return countSequence(diagram.db);
  if (diagram.type.startsWith("state")) {
    return { states: diagram.db.getStates().size, transitions: diagram.db.getRelations().length };
  }
  return {};
}

async function check(mermaid, file, expected) {
  const text = readFileSync(file, "utf8");
  const limit = mermaid.mermaidAPI.getConfig().maxTextSize;
  if (text.length > limit) throw new Error(`${text.length} characters, and Mermaid draws ${limit} at most`);
  await mermaid.parse(text);
  const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
  const counts = count(diagram);
  const shown = Object.entries(counts).map(([name, number]) => ` ${name}=${number}`);
  console.log(`${file}: ${diagram.type}${shown.join("")}`);
  if (expected !== undefined && counts.lines !== expected) {
    throw new Error(`lines=${counts.lines ?? "none"}, expected ${expected}`);
  }
}

const { files, expected } = readArguments();
const mermaid = await loadMermaid();
for (const file of files) {
  try {
    await check(mermaid, file, expected);
  } catch (error) {
    console.error(`${file}: ${error.message ?? error}`);
    process.exitCode = 1;
  }
}
