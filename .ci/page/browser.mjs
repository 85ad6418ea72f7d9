// A real Chromium that reaches nothing but this machine, and that tells everything that goes wrong in a page.
import { chromium } from "playwright-core";

const PROGRAM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const SWITCHES = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/** Start the browser, with a profile of its own that is empty. */
export function launch() {
  return chromium.launch({ executablePath: PROGRAM, headless: true, args: SWITCHES });
}

/**
 * Open a page in a window of its own.
 *
 * `wrong` gathers errors of scripts, errors in the console and requests that leave the page; `allowed` is the
 * beginning of the addresses that it may ask beside its own file.
 */
export async function open(browser, url, { allowed, ...window } = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, reducedMotion: "reduce", ...window });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(`console: ${message.text()}`);
  });
  context.on("request", (request) => {
    const asked = request.url();
    const own = asked === url || asked.startsWith("data:") || (allowed && asked.startsWith(allowed));
    if (!own) wrong.push(`request: ${asked}`);
  });
  const begun = performance.now();
  await page.goto(url);
  return { page, wrong, begun, close: () => context.close() };
}
