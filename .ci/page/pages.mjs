// The pages as people use them: pictures, player, search, keys, themes, table, and what a screen reader is told.
import { createServer } from "node:http";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open } from "./browser.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const STATES = 8;
const MOST = { ready: 30_000, step: 100, megabytes: 8 };

export async function checkPages(browser, pages, check, shots) {
  for (const each of pages) {
    const { name, file, entries } = each;
    const says = (holds, what) => check(holds, `${name}: ${what}`);
    const opened = await open(browser, pathToFileURL(file).href);
    const { page } = opened;
    try {
      if (entries?.length) await page.waitForSelector("html[data-at]", { timeout: 60_000, state: "attached" }).catch(() => says(false, "no entry is shown"));
      const usable = performance.now() - opened.begun;
      await ready(page);
      if (entries && !entries.length) says(await page.evaluate(() => !("at" in document.documentElement.dataset)), "an entry is shown, and there is none");
      await pictures(page, each, says);
      if (entries?.length) await player(page, each, says, usable);
      if (each.moments) await moments(page, each.moments, says);
      if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
      if (/demo|long/.test(name)) await themes(page, says);
      await table(page, each, says);
      if (/demo/.test(name)) await heard(page, says);
      if (name === "session-demo") await nothingLeaves(page, opened.wrong, says);
      if (name === "session-demo") await playing(page, each, says); // last: it takes the clock
      says(!opened.wrong.length, opened.wrong.slice(0, 5).join("; "));
    } finally {
      await opened.close();
    }
    if (shots) await looks(browser, each, shots);
  }
  console.log(`pages that work: ${pages.map((each) => each.name).join(", ")}`);
}

const ready = (page) => page.waitForSelector("html[data-ready]", { timeout: 60_000, state: "attached" });
const at = (page) => page.evaluate(() => Number(document.documentElement.dataset.at));

async function pictures(page, { entries }, says) {
  const seen = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll("#chart g.edgeLabel")].filter((one) => one.textContent.trim()).map((one) => [one.textContent.trim(), one.getBoundingClientRect()]);
    const covered = [];
    boxes.forEach(([text, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (across > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) covered.push(`${text} / ${other}`);
    }));
    return {
      failed: document.documentElement.dataset.failed,
      states: document.querySelectorAll("#chart g.node[id*='state-']").length,
      sequence: document.querySelectorAll("#sequence svg text").length,
      small: Math.min(...[...document.querySelectorAll(".picture svg")].map((svg) => svg.clientWidth / svg.viewBox.baseVal.width)),
      covered,
    };
  });
  says(!seen.failed, `a picture failed: ${seen.failed}`);
  says(seen.states >= STATES, `the chart has ${seen.states} states`);
  says(entries || seen.sequence > 50, `the sequence has ${seen.sequence} texts`);
  says(seen.small >= 0.55, `a picture is drawn at ${seen.small} of its size`);
  says(!seen.covered.length, `labels cover each other: ${seen.covered.join("; ")}`);
}

// Move the slider to every entry; all that the page shows must be of that entry.
async function player(page, { file, name, entries, arrows, search }, says, usable) {
  const begun = performance.now();
  const shown = await page.evaluate(everyEntry);
  const step = (performance.now() - begun) / entries.length;
  says(shown.length === entries.length, `${shown.length} of ${entries.length} entries are shown`);
  const wrong = entries.flatMap(([seq, type, state], i) => {
    const { told, counted, lit, row, inSight, slider, listed } = shown[i] ?? {};
    const right = told?.[0] === seq && told[1] === type && lit === state && row?.startsWith(`${seq} `) && inSight
      && counted === `${i + 1} of ${entries.length}` && slider === i && listed === `row${i}`;
    return right ? [] : [`entry ${seq} ${type} ${state} is shown as ${JSON.stringify(shown[i])}`];
  });
  says(!wrong.length, `${wrong.length} entries are shown wrongly; ${wrong[0]}`);
  if (arrows) {
    const drawn = shown.map(({ row }) => row.replace(/^\d+ /, ""));
    const want = arrows.map(([from, to, label]) => `${from} to ${to}: ${label}`);
    says(JSON.stringify(drawn) === JSON.stringify(want), `the arrows are not those of the export: ${drawn.find((one, i) => one !== want[i])}`);
  }
  const megabytes = statSync(file).size / 1e6;
  console.log(`${name}: ${entries.length} entries, ${megabytes.toFixed(1)} MB, usable after ${usable.toFixed(0)} ms, ${step.toFixed(1)} ms a step`);
  says(megabytes < MOST.megabytes, `the page has ${megabytes} MB`);
  says(usable < MOST.ready, `it can be used after ${usable} ms`);
  says(step < MOST.step, `a step takes ${step} ms`);
  await keys(page, entries.length, says);
  await searching(page, search, entries.length, says);
}

// The last line of the inbox, the hook decisions or the conversation, as they were at an entry.
async function moments(page, wanted, says) {
  for (const { at: index, ...boxes } of wanted) {
    for (const [box, words] of Object.entries(boxes)) {
      const last = await page.evaluate(([index, box]) => {
        const slider = document.getElementById("slider");
        slider.value = String(index);
        slider.dispatchEvent(new Event("input"));
        return document.getElementById(box).lastElementChild?.textContent ?? "";
      }, [index, box]);
      says(last.includes(words), `the ${box} at entry ${index} ends with ${JSON.stringify(last)}, not with ${words}`);
    }
  }
}

async function everyEntry() {
  const [slider, box] = [document.getElementById("slider"), document.getElementById("scroll")];
  const shown = [];
  for (let i = 0; i <= Number(slider.max); i++) {
    slider.value = String(i);
    slider.dispatchEvent(new Event("input"));
    const now = document.querySelectorAll(".row.now");
    const [frame, place] = [box.getBoundingClientRect(), now[0]?.getBoundingClientRect()];
    const lit = document.querySelectorAll("#chart .lit");
    const { seq, type } = JSON.parse(document.getElementById("entry").textContent);
    shown.push({
      told: [seq, type],
      counted: document.getElementById("where").textContent.split(",")[0],
      lit: lit.length === 1 ? /state-(\w+)-\d+$/.exec(lit[0].id)[1] : `${lit.length} states`,
      row: now.length === 1 ? now[0].querySelector(".words").title : `${now.length} rows`,
      inSight: place !== undefined && place.top >= frame.top - 1 && place.bottom <= frame.bottom + 1,
      slider: Number(slider.value),
      listed: box.getAttribute("aria-activedescendant"),
    });
    if (i % 100 === 99) await new Promise(requestAnimationFrame); // let it be painted
  }
  return shown;
}

async function keys(page, count, says) {
  const last = count - 1;
  const press = async (key, want) => {
    await page.keyboard.press(key);
    const now = await at(page);
    says(now === want, `${key} leads to ${now}, not to ${want}`);
  };
  await page.locator("#scroll").focus();
  await press("Home", 0);
  await press("ArrowRight", 1);
  await press("ArrowDown", 2);
  await press("j", 3);
  await press("k", 2);
  await press("ArrowLeft", 1);
  await press("ArrowUp", 0);
  await press("ArrowUp", 0);
  await page.keyboard.press("PageDown");
  says(await at(page) > 5, "PageDown goes no page down");
  await press("PageUp", 0);
  await press("End", last);
  await press("ArrowRight", last);
  for (const [button, want] of [["First entry", 0], ["Next entry", 1], ["Last entry", last], ["Entry before", last - 1]]) {
    await page.getByRole("button", { name: button }).click();
    says(await at(page) === want, `the button ${button} leads to ${await at(page)}`);
  }
  const bar = await page.locator("#slider").boundingBox();
  await page.mouse.click(bar.x + bar.width / 2, bar.y + bar.height / 2);
  says(Math.abs(await at(page) - last / 2) <= Math.max(1, count * 0.02), `the middle of the slider is entry ${await at(page)}`);
  await page.locator(".row.now + .row").click();
  says(Math.abs(await at(page) - last / 2) <= Math.max(2, count * 0.02 + 1), "a click on an arrow does not lead to it");
}

async function searching(page, search, count, says) {
  for (const [word, found] of Object.entries(search)) {
    await page.keyboard.press("Home");
    await page.keyboard.press("/");
    await page.keyboard.type(word);
    const told = await page.locator("#found").textContent();
    says(told === `${found.length} found`, `${word}: ${told}, and ${found.length} entries hold it`);
    const behind = found.filter((i) => i > 0);
    for (const want of behind.slice(0, 3)) {
      await page.keyboard.press("Enter");
      says(await at(page) === want, `${word} is found at ${await at(page)}, not at ${want}`);
    }
    if (found.length) {
      const before = found.filter((i) => i < behind[Math.min(2, behind.length - 1)]).at(-1) ?? found.at(-1);
      await page.keyboard.press("Shift+Enter");
      says(await at(page) === before, `the match before is at ${await at(page)}, not at ${before}`);
      says(await page.locator(".row.match").count() > 0, `the matches of ${word} are not marked`);
    } else {
      await page.keyboard.press("Enter");
      says(await at(page) === 0, "nothing is found, and the entry changes");
    }
    await page.keyboard.press("Escape");
    says(await page.locator("#search").inputValue() === "", "Escape does not empty the search");
    says(await page.evaluate(() => document.activeElement.id) === "scroll", "Escape does not lead out of the search");
    says(await page.locator(".row.match").count() === 0, "matches stay marked");
  }
  says(count === Number(await page.locator("#slider").getAttribute("max")) + 1, "the slider does not end at the last entry");
}

async function themes(page, says) {
  const looks = () => page.evaluate(() => ({
    theme: document.documentElement.dataset.theme,
    back: getComputedStyle(document.body).backgroundColor,
    box: getComputedStyle(document.querySelector("#chart g.node rect")).fill,
    lit: document.querySelectorAll("#chart .lit").length,
  }));
  const light = await looks();
  await page.getByRole("button", { name: "Dark" }).click();
  await ready(page);
  const dark = await looks();
  says(light.theme === "light" && dark.theme === "dark", `the themes are ${light.theme} and ${dark.theme}`);
  says(light.back !== dark.back && light.box !== dark.box, "the dark theme looks like the light one");
  says(light.lit === dark.lit, "the lit state is lost with the theme");
  await page.getByRole("button", { name: "Light" }).click();
  await ready(page);
  says(JSON.stringify(await looks()) === JSON.stringify(light), "the light theme does not come back");
}

async function table(page, { entries }, says) {
  const button = page.getByRole("button", { name: "Table" });
  await button.click();
  says(await button.getAttribute("aria-pressed") === "true", "the button Table is not pressed");
  const data = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
  const cellsOf = (name) => page.getByRole("table", { name }).evaluate((made) => [...made.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
  const rows = await cellsOf("Every way from one state to another");
  says(JSON.stringify(rows) === JSON.stringify(data.rows.map((cells) => cells.slice(0, entries?.length ? 6 : 5))), "the table of the rows says something else");
  for (const { state, lines } of data.held) {
    const told = await page.locator("dt", { hasText: state }).first().evaluate((term) => {
      const found = [];
      for (let next = term.nextElementSibling; next?.tagName === "DD"; next = next.nextElementSibling) found.push(next.textContent);
      return found;
    });
    says(JSON.stringify(told) === JSON.stringify(lines), `what holds in ${state} is not in the table`);
  }
  if (entries?.length) {
    const listed = await cellsOf("The entries in their order");
    const want = entries.map(([seq, , state]) => `${seq} ${state.replace("_", "-")}`);
    says(JSON.stringify(listed.map(([seq, state]) => `${seq} ${state}`)) === JSON.stringify(want), "the table of the entries says something else");
    says(listed.every(([, , from, to, label], i) => [from, to, label].join() === [data.entries[i].from, data.entries[i].to, data.entries[i].label].join()), "the table has other arrows than the picture");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    const current = page.locator("tr[aria-current]");
    says(await current.count() === 1 && (await current.textContent()).startsWith("1"), "the current entry is not marked in the table");
  }
  await button.click();
  says(await page.locator("#chart").isVisible(), "the pictures do not come back");
}

async function playing(page, { entries }, says) {
  await page.locator("#scroll").focus();
  await page.keyboard.press("Home");
  await page.clock.install();
  await page.keyboard.press(" ");
  says(await page.getByRole("button", { name: "Pause" }).isVisible(), "it does not play");
  await page.clock.runFor(5_000);
  const some = await at(page);
  says(some > 2 && some < entries.length, `after five seconds it plays entry ${some}`);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.clock.runFor(5_000);
  says(await at(page) === some, "it plays on after the pause");
  await page.getByRole("button", { name: "Play" }).click();
  await page.clock.runFor(entries.length * 1_300);
  says(await at(page) === entries.length - 1, `it plays to entry ${await at(page)} only`);
  says(await page.getByRole("button", { name: "Play" }).isVisible(), "it does not stop at the end");
}

// What a screen reader is told: names, headings, roles, contrasts; in the pictures' view and in the table's.
async function heard(page, says) {
  await page.evaluate(AXE);
  for (const view of ["pictures", "table", "dark"]) {
    if (view !== "pictures") await page.locator(view === "table" ? "#as-table" : "#theme").click();
    await ready(page);
    const options = { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] };
    const { violations } = await page.evaluate((given) => axe.run({ exclude: [["svg"], ["#entry-table tbody"]] }, given), options);
    for (const { id, help, nodes } of violations) says(false, `${view}: ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`);
  }
  await page.locator("#as-table").click();
  await page.locator("#theme").click();
  await ready(page);
  const unnamed = (await page.locator("body").ariaSnapshot()).split("\n").filter((line) => /^\s*- (button|slider|searchbox|listbox|img|table|option|textbox)( \[.*\])?:?$/.test(line));
  says(!unnamed.length, `controls without a name: ${unnamed.join(", ")}`);
}

// The page may ask nobody, not even this machine.
async function nothingLeaves(page, wrong, says) {
  const asked = [];
  const server = createServer((request, answer) => { asked.push(request.url); answer.end("x"); });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${server.address().port}`;
  const before = wrong.length;
  await page.evaluate(async (there) => {
    await fetch(`${there}/fetch`).catch(() => {});
    for (const [tag, key] of [["img", "src"], ["script", "src"], ["iframe", "src"], ["link", "href"]]) {
      const made = document.createElement(tag);
      if (tag === "link") made.rel = "stylesheet";
      made[key] = `${there}/${tag}`;
      document.body.append(made);
    }
    navigator.sendBeacon(`${there}/beacon`);
    await new Promise((later) => setTimeout(later, 200));
  }, url);
  says(!asked.length, `the page could ask for ${asked.join(", ")}`);
  says(wrong.length > before, "the browser said nothing of what it refused");
  wrong.length = before;
  server.close();
  server.closeAllConnections();
}

async function looks(browser, { name, file, entries }, shots) {
  const ways = { dark: { colorScheme: "dark" }, narrow: { viewport: { width: 400, height: 800 } }, table: {} };
  for (const [way, window] of Object.entries(ways)) {
    const { page, close } = await open(browser, pathToFileURL(file).href, window);
    await ready(page);
    if (way === "table") await page.locator("#as-table").click();
    else if (entries?.length) await page.locator("#slider").fill(String(Math.floor(entries.length / 2)));
    await page.screenshot({ path: join(shots, `${name}-${way}.png`) });
    await close();
  }
}
