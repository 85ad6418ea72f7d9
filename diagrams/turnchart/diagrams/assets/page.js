"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const entries = data.entries || [];
  const ROW = 30, AROUND = 15, SAVE = 500, SHOWN_MESSAGES = 40;

  // -- small helpers ---------------------------------------------------------------------------

  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const textOf = (message) => {
    const parts = message && Array.isArray(message.content) ? message.content : [];
    return parts.map((part) => part.text ?? part.thinking ?? (part.name ? `${part.name}(${JSON.stringify(part.arguments)})` : `[${part.type}]`)).join(" ");
  };
  const list = (where, lines, empty) => {
    where.replaceChildren(...(lines.length ? lines.map((line) => make("li", line)) : [make("li", empty, "none")]));
  };

  // -- theme -----------------------------------------------------------------------------------

  const root = document.documentElement;
  const prefersDark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
  let theme = prefersDark ? "dark" : "light";
  const setTheme = (name) => {
    theme = name;
    root.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
  };
  setTheme(theme);
  $("theme").addEventListener("click", () => {
    setTheme(theme === "dark" ? "light" : "dark");
    draw().then(light);
  });

  // -- pictures --------------------------------------------------------------------------------

  const boxes = new Map();
  let drawn = 0;
  async function picture(where, text) {
    const id = `picture${++drawn}`;
    try {
      const { svg } = await mermaid.render(id, text);
      where.innerHTML = svg;
    } catch (error) {
      document.getElementById(`d${id}`)?.remove();
      root.dataset.failed = String(error);
      where.replaceChildren(make("p", `This picture could not be drawn: ${error}`, "failed"), make("pre", text));
    }
  }
  async function draw() {
    mermaid.initialize({
      startOnLoad: false, securityLevel: "strict", theme: theme === "dark" ? "dark" : "default",
      maxTextSize: 100000, maxEdges: 1000,
    });
    await picture($("chart"), data.state);
    boxes.clear();
    for (const node of $("chart").querySelectorAll("g.node")) {
      for (const state of data.states) {
        if (new RegExp(`(^|-)state-${state.id}-\\d+$`).test(node.id)) boxes.set(state.id, node);
      }
    }
    if (data.sequence) await picture($("sequence"), data.sequence);
  }
  function light() {
    for (const box of boxes.values()) box.classList.remove("lit");
    if (!entries.length) return;
    const box = boxes.get(entries[at].state);
    box?.classList.add("lit");
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // -- what waited at a moment: a fold over the entries, kept every so often ------------------------

  const saved = [];
  const waiting = (upTo) => {
    let from = Math.min(Math.floor((upTo + 1) / SAVE), saved.length - 1);
    let lists = from >= 0 ? structuredClone(saved[from]) : { "next-step": [], "next-turn": [], rider: [] };
    for (let i = Math.max(from, 0) * SAVE; i <= upTo; i++) {
      if (i % SAVE === 0 && i / SAVE === saved.length) saved.push(structuredClone(lists));
      const entry = entries[i];
      if (entry.type !== "agent/inbox/spliced") continue;
      const { target, start, removed_count: count = 0, inserted = [] } = entry.data;
      const texts = inserted.map((item) => (item.messages || []).map(textOf).join(" / "));
      (lists[target] ||= []).splice(start, count, ...texts);
    }
    return lists;
  };

  // -- the arrows of a session, only those in sight --------------------------------------------------

  let at = 0, matches = [], played = null;
  const place = (part) => ((data.parts.indexOf(part) + 0.5) / data.parts.length) * 100;
  const row = (index) => {
    const entry = entries[index];
    const made = make("div", undefined, "row");
    made.id = `row${index}`;
    made.style.top = `${index * ROW}px`;
    made.setAttribute("role", "option");
    made.setAttribute("aria-posinset", index + 1);
    made.setAttribute("aria-setsize", entries.length);
    made.setAttribute("aria-selected", index === at);
    made.classList.toggle("now", index === at);
    made.classList.toggle("later", index > at);
    made.classList.toggle("match", matches.includes(index));
    made.classList.toggle("refused", data.refused === entry.seq);
    const [from, to] = [place(entry.from), place(entry.to)];
    const words = make("span", `${entry.from} to ${entry.to}: ${entry.label}`, "words");
    words.textContent = entry.label;
    words.title = `${entry.seq} ${entry.from} to ${entry.to}: ${entry.label}`;
    const left = Math.min(from, to);
    words.style.left = left > 55 ? "auto" : `${left}%`;
    if (left > 55) words.style.right = `${100 - Math.max(from, to)}%`;
    made.append(words);
    if (from === to) {
      const dot = make("span", undefined, "dot");
      dot.style.left = `${from}%`;
      made.append(dot);
    } else {
      const shaft = make("span", undefined, `shaft ${to > from ? "right" : "left"}`);
      shaft.classList.toggle("dashed", entry.dashed);
      shaft.style.left = `${left}%`;
      shaft.style.width = `${Math.abs(to - from)}%`;
      made.append(shaft);
    }
    made.addEventListener("click", () => show(index));
    return made;
  };
  const inSight = () => {
    const box = $("scroll");
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - AROUND);
    const last = Math.min(entries.length - 1, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + AROUND);
    $("rows").style.height = `${entries.length * ROW}px`;
    const rows = [];
    for (let i = first; i <= last; i++) rows.push(row(i));
    $("rows").replaceChildren(...rows);
  };
  const scrollTo = (index) => {
    const box = $("scroll");
    const top = index * ROW;
    if (top < box.scrollTop + ROW || top > box.scrollTop + box.clientHeight - 3 * ROW) {
      box.scrollTop = Math.max(0, top - box.clientHeight / 2);
    }
  };

  // -- one moment ----------------------------------------------------------------------------------

  const MESSAGES = { "user/message": "user", "assistant/message": "assistant", "tool/result": "tool", "custom_message": "custom", "system/message": "system" };
  function moment() {
    const entry = entries[at];
    const lists = waiting(at);
    const queued = Object.entries(lists).flatMap(([name, texts]) => texts.map((text) => `${name}: ${text}`));
    list($("inbox"), queued, "nothing waits");
    $("inbox-count").textContent = queued.length ? `(${queued.length})` : "";
    const decided = [], said = [];
    let open = true;
    for (let i = at; i >= 0 && (open || said.length < SHOWN_MESSAGES); i--) {
      const { type, data: told } = entries[i];
      if (open && type === "hook/result") {
        const more = [told.decision, told.reason, told.error].filter(Boolean).join(": ");
        decided.unshift(`${told.point} ${told.id}${more ? ` ${more}` : told.changed ? " changed it" : ""}`);
      }
      if (type === "turn/start") open = false;
      if (type in MESSAGES && said.length < SHOWN_MESSAGES) said.unshift(`${MESSAGES[type]}: ${textOf(told.message)}`);
    }
    list($("hooks"), decided, "no hook decided anything");
    list($("messages"), said, "nothing was said yet");
    $("messages").scrollTop = $("messages").scrollHeight;
    $("entry").textContent = JSON.stringify({ seq: entry.seq, type: entry.type, time: entry.time, data: entry.data }, null, 2);
    const since = Math.max(0, entry.time - entries[0].time);
    const shown = data.states.find((state) => state.id === entry.state)?.shown ?? entry.state;
    $("where").textContent = `${at + 1} of ${entries.length}, ${since.toFixed(2)} s, ${shown}: ${entry.type}`;
  }
  function show(index) {
    if (!entries.length) return;
    at = Math.min(Math.max(0, index), entries.length - 1);
    $("slider").value = String(at);
    root.dataset.at = String(at);
    scrollTo(at);
    inSight();
    $("scroll").setAttribute("aria-activedescendant", `row${at}`);
    light();
    moment();
    if (!$("tables").hidden) markRow();
  }

  // -- playing ---------------------------------------------------------------------------------------

  const stop = () => {
    clearTimeout(played);
    played = null;
    $("play").setAttribute("aria-pressed", "false");
    $("play").setAttribute("aria-label", "Play");
    $("play").textContent = "\u25B6";
  };
  const tick = () => {
    if (at >= entries.length - 1 && !data.live) return stop();
    const before = entries[at].time;
    show(at + 1);
    const pause = Math.min(1200, Math.max(120, (entries[at].time - before) * 1000));
    played = setTimeout(tick, pause);
  };
  const play = () => {
    if (played !== null) return stop();
    if (at >= entries.length - 1) show(0);
    $("play").setAttribute("aria-pressed", "true");
    $("play").setAttribute("aria-label", "Pause");
    $("play").textContent = "||";
    played = setTimeout(tick, 120);
  };

  // -- searching ---------------------------------------------------------------------------------------

  const haystack = [];
  const search = () => {
    const wanted = $("search").value.trim().toLowerCase();
    for (let i = haystack.length; i < entries.length; i++) {
      haystack.push(`${entries[i].label} ${entries[i].type} ${JSON.stringify(entries[i].data)}`.toLowerCase());
    }
    matches = wanted ? haystack.flatMap((text, i) => (text.includes(wanted) ? [i] : [])) : [];
    $("found").textContent = wanted ? `${matches.length} found` : "";
    inSight();
    return matches;
  };
  const jump = (forward) => {
    if (!search().length) return;
    const next = forward ? matches.find((i) => i > at) ?? matches[0] : matches.findLast((i) => i < at) ?? matches.at(-1);
    stop();
    show(next);
  };

  // -- tables: the same in words -------------------------------------------------------------------------

  const table = (heads, rows, caption) => {
    const made = make("table");
    made.append(make("caption", caption));
    const head = make("tr");
    head.append(...heads.map((text) => { const cell = make("th", text); cell.scope = "col"; return cell; }));
    const top = make("thead");
    top.append(head);
    const body = make("tbody");
    for (const cells of rows) {
      const line = make("tr");
      line.append(...cells.map((text) => make("td", text)));
      body.append(line);
    }
    made.append(top, body);
    return made;
  };
  const markRow = () => {
    $("entry-table").querySelector('tr[aria-current="true"]')?.removeAttribute("aria-current");
    $("entry-table").querySelectorAll("tbody tr")[at]?.setAttribute("aria-current", "true");
  };
  const fillTables = () => {
    const taken = entries.length ? ["taken"] : [];
    $("row-table").replaceChildren(table(["from", "event", "if", "to", "ends the turn as", ...taken], data.rows.map((cells) => cells.slice(0, 5 + taken.length)), "Every way from one state to another"));
    $("held-name").hidden = !data.held.length;
    $("held").replaceChildren(...data.held.flatMap(({ state, lines }) => [make("dt", state), ...lines.map((line) => make("dd", line))]));
    $("entries-name").hidden = !entries.length;
    $("entry-table").replaceChildren(...(entries.length ? [table(["entry", "state", "from", "to", "what"], entries.map((entry) => [String(entry.seq), entry.state, entry.from, entry.to, entry.label]), "The entries in their order")] : []));
    if (entries.length) markRow();
  };
  $("as-table").addEventListener("click", () => {
    const shown = $("tables").hidden;
    if (shown) fillTables();
    $("tables").hidden = !shown;
    $("pictures").hidden = shown;
    $("as-table").setAttribute("aria-pressed", String(shown));
    if (!shown) inSight();
  });

  // -- keys ------------------------------------------------------------------------------------------------

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === $("search");
    if (typing) {
      if (event.key === "Enter") { event.preventDefault(); jump(!event.shiftKey); }
      if (event.key === "Escape") { $("search").value = ""; search(); $("scroll").focus(); }
      return;
    }
    if (!entries.length) return;
    const page = Math.max(1, Math.floor($("scroll").clientHeight / ROW) - 1);
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: page, PageUp: -page, j: 1, k: -1 };
    if (event.key in steps) { event.preventDefault(); stop(); show(at + steps[event.key]); }
    else if (event.key === "Home") { event.preventDefault(); stop(); show(0); }
    else if (event.key === "End") { event.preventDefault(); stop(); show(entries.length - 1); }
    else if (event.key === " " && event.target.tagName !== "BUTTON" && event.target.tagName !== "SUMMARY") { event.preventDefault(); play(); }
    else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "n") jump(true);
    else if (event.key === "N") jump(false);
  });

  // -- entries that come later -------------------------------------------------------------------------------

  const follow = async () => {
    try {
      const answer = await fetch(`${data.live}?from=${entries.length}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const more = await answer.json();
      if (more.entries.length) {
        const following = at >= entries.length - 1;
        entries.push(...more.entries);
        data.refused = more.refused;
        data.rows = more.rows;
        $("slider").max = String(entries.length - 1);
        show(following ? entries.length - 1 : at);
      }
      root.dataset.live = "on";
    } catch (error) {
      root.dataset.live = "off";
    }
    setTimeout(follow, root.dataset.live === "on" ? 500 : 3000);
  };

  // -- begin -----------------------------------------------------------------------------------------------------

  $("title").textContent = data.title;
  const session = data.entries !== null;
  if (session) {
    $("pictures").classList.add("played");
    for (const id of ["arrows", "moment", "player", "search-box"]) $(id).hidden = false;
    $("sequence").hidden = true;
    $("slider").max = String(Math.max(0, entries.length - 1));
    $("lanes").replaceChildren(...data.parts.map((part) => {
      const lane = make("span", part);
      lane.style.left = `${place(part)}%`;
      return lane;
    }));
    $("scroll").addEventListener("scroll", inSight, { passive: true });
    $("slider").addEventListener("input", () => { stop(); show(Number($("slider").value)); });
    $("search").addEventListener("input", search);
    $("found-next").addEventListener("click", () => jump(true));
    $("found-before").addEventListener("click", () => jump(false));
    $("play").addEventListener("click", play);
    const moves = { first: () => 0, back: () => at - 1, next: () => at + 1, last: () => entries.length - 1 };
    for (const [id, to] of Object.entries(moves)) $(id).addEventListener("click", () => { stop(); show(to()); });
    new ResizeObserver(inSight).observe($("scroll"));
    show(0);
    if (data.live) follow();
  } else if (data.view === "sequence") {
    $("pictures").prepend($("sequence-side"));
  }
  draw().then(() => { light(); root.dataset.ready = "true"; });
})();
