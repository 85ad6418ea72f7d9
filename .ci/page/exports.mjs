// Every Mermaid export, drawn by Mermaid itself.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open } from "./browser.mjs";

const RENDERER = new URL("../../diagrams/turnchart/diagrams/assets/mermaid.min.js", import.meta.url);
const AT_ONCE = 2;

/** Draw all of them with the limits that Mermaid has by itself; each must say what it was to say. */
export async function renderExports(browser, folder, { exports }, check) {
  const bare = join(folder, "bare.html");
  writeFileSync(bare, `<!doctype html><meta charset="utf-8"><body><script src="${RENDERER}"></script>`);
  // Flows that differ in what no picture shows have the same one; it is drawn once, and must say what each was to say.
  const pictures = new Map();
  for (const { name, text, says } of exports) {
    const { names, words } = pictures.get(text) ?? pictures.set(text, { names: [], words: new Set() }).get(text);
    names.push(name);
    for (const each of says) words.add(each);
  }
  const waiting = [...pictures].map(([text, { names, words }]) => ({ name: names.join(", "), text, says: [...words] }));
  const results = [];
  const drawSome = async () => {
    const { page, wrong, close } = await open(browser, pathToFileURL(bare).href, { allowed: RENDERER.href });
    while (waiting.length) results.push(...await page.evaluate(drawInPage, waiting.splice(0, 20)));
    check(!wrong.length, `exports: ${[...new Set(wrong)].slice(0, 5).join("; ")}`);
    await close();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, drawSome));
  check(results.length === pictures.size, `exports: ${results.length} of ${pictures.size} were drawn`);
  for (const { name, problem } of results) check(!problem, `${name}: ${problem}`);
  console.log(`exports: ${exports.length} Mermaid exports are ${pictures.size} pictures, drawn by mermaid`);
}

// In the page: draw, and look whether the picture can be seen and holds the words.
async function drawInPage(exports) {
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });
  const letters = (text) => text.replace(/[\s\u00a0]+/g, "");
  const results = [];
  for (const { name, text, says } of exports) {
    let problem = "";
    try {
      const { svg } = await mermaid.render(`drawn${Math.random().toString(36).slice(2)}`, text);
      const place = document.createElement("div");
      place.innerHTML = svg;
      const nowhere = /[ ",(](-?Infinity|NaN|undefined)[ ",)]/.exec(svg.replace(/<(text|tspan|p|span)\b[^>]*>[^<]*/g, (part) => part.split(">")[0]));
      const shown = letters([...place.querySelectorAll("text, foreignObject")].map((part) => part.textContent).join(""));
      const missing = says.filter((words) => !shown.includes(letters(words)));
      if (/syntax error in text/i.test(svg)) problem = "a picture of an error";
      else if (nowhere) problem = `a picture with ${nowhere[1]} in it`;
      else if (place.querySelector("script, foreignObject script, iframe, image, a[href]")) problem = "a picture with more than text";
      else if (missing.length) problem = `the picture does not say ${JSON.stringify(missing.slice(0, 3))}`;
    } catch (error) {
      problem = String(error);
    }
    results.push({ name, problem });
  }
  return results;
}
