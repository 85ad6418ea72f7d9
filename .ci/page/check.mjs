// Drive the HTML pages and render every export in a real Chromium:  node check.mjs FOLDER [--shots FOLDER]
//
// FOLDER is what inputs.py made. PYTHON names the interpreter of the session that is followed (.venv/bin/python),
// CHROMIUM the browser (/usr/bin/chromium). --shots keeps pictures of the pages, to be looked at.
// Exit status: 0 all is well, 1 something is wrong, 2 wrong usage.
import { mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { launch } from "./browser.mjs";
import { renderExports } from "./exports.mjs";
import { followLive } from "./live.mjs";
import { checkPages } from "./pages.mjs";

function readArguments() {
  try {
    const { positionals, values } = parseArgs({ allowPositionals: true, options: { shots: { type: "string" } } });
    if (positionals.length === 1) return { folder: resolve(positionals[0]), shots: values.shots && resolve(values.shots) };
  } catch (error) {
    console.error(`check.mjs: ${error.message}`);
  }
  console.error("usage: node check.mjs FOLDER [--shots FOLDER]");
  process.exit(2);
}

const { folder, shots } = readArguments();
if (shots) mkdirSync(shots, { recursive: true });
const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
const problems = [];
/** Note what does not hold, and go on. */
const check = (holds, what) => { if (!holds) problems.push(what); };

async function run(name, part) {
  const begun = performance.now();
  try {
    await part();
  } catch (error) {
    problems.push(`${name}: ${error.stack ?? error}`);
  }
  console.log(`${name}: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
}

const browser = await launch();
// The long session runs alone, since it is measured; all else shares the processors.
const measured = ({ name }) => name === "session-long";
await run("the long session", () => checkPages(browser, expected.pages.filter(measured), check, shots));
await Promise.all([
  run("the other pages", () => checkPages(browser, expected.pages.filter((page) => !measured(page)), check, shots)),
  run("a live session", () => followLive(browser, folder, check)),
  run("exports", () => renderExports(browser, folder, expected, check)),
]);
await browser.close();
for (const problem of problems) console.error(problem);
if (problems.length) console.error(`${problems.length} problems`);
process.exitCode = problems.length ? 1 : 0;
