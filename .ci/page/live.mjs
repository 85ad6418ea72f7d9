// `turnchart view --live`: a page that follows a session while another process writes it.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "./browser.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PYTHON = resolve(ROOT, process.env.PYTHON ?? ".venv/bin/python");
const TURNS = 6;

export async function followLive(browser, folder, check) {
  const says = (holds, what) => check(holds, `live: ${what}`);
  const file = join(folder, "live.db");
  const writer = start(PYTHON, [join(ROOT, ".ci/page/inputs.py"), "write", file, "live", String(TURNS)]);
  const turn = async () => {
    writer.process.stdin.write("\n");
    return Number(await writer.line());
  };
  const first = await turn();
  const server = start(join(dirname(PYTHON), "turnchart"), ["view", "live", "--store", file, "--live", "--no-open"]);
  try {
    const url = await server.line();
    says(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{32,}\/$/.test(url), `the address is ${url}`);
    const opened = await open(browser, url, { allowed: url });
    await follow(opened.page, first, turn, says);
    says(!opened.wrong.length, opened.wrong.slice(0, 5).join("; "));
    server.process.kill("SIGINT");
    const [code, signal] = await server.ended;
    says(code === 130 || signal === "SIGINT", `after Ctrl-C the server ends with ${code ?? signal}: ${server.errors()}`);
    says(!/Traceback/.test(server.errors()), `the server says ${server.errors()}`);
    await opened.page.waitForFunction(() => document.getElementById("live").textContent.startsWith("not following"));
    await opened.close();
    writer.process.stdin.end();
    const [written] = await writer.ended;
    says(written === 0, `the writer was disturbed: ${writer.errors()}`);
  } finally {
    for (const each of [writer, server]) if (each.process.exitCode === null) each.process.kill("SIGKILL");
  }
}

async function follow(page, first, turn, says) {
  const shows = (place, count) => page.waitForFunction(
    (want) => document.getElementById("where").textContent.startsWith(want), `${place} of ${count},`, { timeout: 30_000 },
  );
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  await shows(1, first);
  says(await page.locator("#chart").getByText("wake: once").count() === 1, "the chart does not say what happened so far");
  await page.keyboard.press("End");
  let count = first;
  for (let i = 2; i <= 3; i++) {
    count = await turn();
    await shows(count, count); // at the end it goes along
  }
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  count = await turn();
  await shows(2, count); // elsewhere it stays
  await page.waitForFunction(() => document.getElementById("chart").textContent.includes("wake: 4 times"), null, { timeout: 30_000 });
  await page.locator("#search").fill("live question 5");
  await page.locator("#as-table").click();
  count = await turn();
  await page.waitForFunction((want) => document.querySelectorAll("#entry-table tbody tr").length === want, count, { timeout: 30_000 });
  says(/^[1-9]\d* found$/.test(await page.locator("#found").textContent()), "a search does not find what came later");
  const taken = await page.getByRole("row", { name: /^idle wake/ }).textContent();
  says(taken.endsWith("5 times"), `the table of the rows says ${taken}`);
  says(await page.locator("#live").textContent() === "following", "it does not say that it follows");
  count = await turn();
  await page.locator("#as-table").click();
  await page.keyboard.press("End");
  await shows(count, count);
}

function start(program, args) {
  const child = spawn(program, args, { cwd: ROOT, env: { ...process.env, PYTHONPATH: ROOT } });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let errors = "";
  child.stderr.on("data", (data) => { errors += data; });
  return {
    process: child,
    ended: once(child, "exit"),
    errors: () => errors,
    line: async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${program} ${args.join(" ")} ended: ${errors}`);
      return value;
    },
  };
}
