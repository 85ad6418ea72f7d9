"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const entries = data.entries || [];
  const ROW = 30, AROUND = 15, SAVE = 500, SHOWN_MESSAGES = 40, AGAIN = 50, REDRAW = 1000, LEAST = 0.6;

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
  const shownState = (entry) => data.states.find((state) => state.id === entry.state)?.shown ?? entry.state;
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
    draw();
  });

  // -- pictures --------------------------------------------------------------------------------

  const DARK = {
    darkMode: true, background: "#14171c", noteBkgColor: "#37331f", noteTextColor: "#f2ecd0", noteBorderColor: "#8a8050",
    edgeLabelBackground: "#262c35", labelBackgroundColor: "#262c35", transitionLabelColor: "#e8ebf0", lineColor: "#9aa5b4", transitionColor: "#9aa5b4",
    primaryColor: "#1f2a3d", mainBkg: "#1f2a3d", primaryTextColor: "#e8ebf0", primaryBorderColor: "#6d86b0", textColor: "#e8ebf0",
    actorBkg: "#1f2a3d", actorTextColor: "#e8ebf0", actorBorder: "#6d86b0", actorLineColor: "#6d86b0",
    signalColor: "#9aa5b4", signalTextColor: "#e8ebf0", labelBoxBkgColor: "#1f2a3d", labelBoxBorderColor: "#6d86b0",
    labelTextColor: "#e8ebf0", loopTextColor: "#e8ebf0", titleColor: "#e8ebf0",
  };
  const boxes = new Map();
  let drawn = 0, zoom = 1, drawing = Promise.resolve();
  async function picture(where, text) {
    const id = `picture${++drawn}`;
    try {
      const { svg } = await mermaid.render(id, text);
      where.innerHTML = svg;
      where.firstElementChild.setAttribute("aria-hidden", "true");
      apart(where);
      fit(where);
    } catch (error) {
      document.getElementById(`d${id}`)?.remove();
      root.dataset.failed = String(error);
      where.replaceChildren(make("p", `This picture could not be drawn: ${error}`, "failed"), make("pre", text));
    }
  }
  // Labels of edges that lie side by side may cover each other: move them apart, sideways.
  function apart(where) {
    const labels = [...where.querySelectorAll("g.edgeLabel")].filter((label) => label.textContent.trim());
    const boxes = labels.map((label) => {
      const { e: x, f: y } = label.transform.baseVal.consolidate()?.matrix ?? { e: 0, f: 0 };
      const { width, height } = label.getBBox();
      return { label, x, y, width, height, moved: false };
    });
    for (let round = 0; round < 4; round++) {
      for (const [i, one] of boxes.entries()) {
        for (const other of boxes.slice(i + 1)) {
          const across = (one.width + other.width) / 2 + 4 - Math.abs(one.x - other.x);
          if (across <= 0 || Math.abs(one.y - other.y) >= (one.height + other.height) / 2) continue;
          const [left, right] = one.x <= other.x ? [one, other] : [other, one];
          left.x -= across / 2;
          right.x += across / 2;
          left.moved = right.moved = true;
        }
      }
    }
    for (const { label, x, y, moved } of boxes) if (moved) label.setAttribute("transform", `translate(${x}, ${y})`);
  }
  // As wide as its place, but no smaller than can be read.
  function fit(where) {
    const svg = where.querySelector("svg");
    const natural = svg?.viewBox.baseVal.width;
    if (!natural || !where.clientWidth) return;
    const scale = Math.min(1, Math.max(LEAST, (where.clientWidth - 18) / natural)) * zoom;
    svg.style.maxWidth = "none";
    svg.style.width = `${Math.floor(natural * scale)}px`;
  }
  const fitAll = () => { fit($("chart")); fit($("sequence")); };
  async function drawAll(chartAlone) {
    mermaid.initialize({
      startOnLoad: false, securityLevel: "strict", maxTextSize: 100000, maxEdges: 1000,
      theme: theme === "dark" ? "dark" : "default", themeVariables: theme === "dark" ? DARK : {},
    });
    const [left, top] = [$("chart").scrollLeft, $("chart").scrollTop];
    await picture($("chart"), data.state);
    $("chart").scrollTo(left, top);
    boxes.clear();
    for (const node of $("chart").querySelectorAll("g.node")) {
      for (const state of data.states) {
        if (new RegExp(`(^|-)state-${state.id}-\\d+$`).test(node.id)) boxes.set(state.id, node);
      }
    }
    if (data.sequence && !chartAlone) await picture($("sequence"), data.sequence);
    light();
    if (!entries.length && drawn <= 2) reveal(boxes.get("idle"));
    root.dataset.ready = "true";
  }
  function draw(chartAlone) {
    delete root.dataset.ready;
    return (drawing = drawing.then(() => drawAll(chartAlone)));
  }
  let lit = null;
  function light() {
    const box = entries.length ? boxes.get(entries[at].state) : undefined;
    if (box === lit) return;
    lit?.classList.remove("lit");
    lit = box;
    lit?.classList.add("lit");
    reveal(lit);
  }
  // Scroll the chart, and nothing around it, until a box can be seen.
  function reveal(box) {
    if (!box) return;
    const [frame, place] = [$("chart").getBoundingClientRect(), box.getBoundingClientRect()];
    const hidden = place.left < frame.left || place.right > frame.right || place.top < frame.top || place.bottom > frame.bottom;
    if (!hidden) return;
    $("chart").scrollBy(
      (place.left + place.right - frame.left - frame.right) / 2, (place.top + place.bottom - frame.top - frame.bottom) / 2,
    );
  }
  const resize = (factor) => {
    zoom = factor === 0 ? 1 : Math.min(4, Math.max(0.25, zoom * factor));
    fitAll();
    reveal(lit);
  };
  $("smaller").addEventListener("click", () => resize(1 / 1.25));
  $("larger").addEventListener("click", () => resize(1.25));

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

  let at = 0, matches = [], matched = new Set(), played = null;
  const place = (part) => ((data.parts.indexOf(part) + 0.5) / data.parts.length) * 100;
  const row = (index) => {
    const entry = entries[index];
    const made = make("div", undefined, "row");
    made.id = `row${index}`;
    made.style.top = `${index * ROW}px`;
    made.setAttribute("role", "option");
    made.setAttribute("aria-posinset", index + 1);
    made.setAttribute("aria-label", `${entry.seq}, ${shownState(entry)}: ${entry.from} to ${entry.to}, ${entry.label}`);
    const [from, to] = [place(entry.from), place(entry.to)];
    const words = make("span", entry.label, "words");
    words.title = `${entry.seq} ${entry.from} to ${entry.to}: ${entry.label}`;
    const left = Math.min(from, to);
    words.style.left = left > 55 ? "auto" : `${left}%`;
    words.style.maxWidth = `${left > 55 ? Math.max(from, to) : 100 - left}%`;
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
  const mark = (made, index) => {
    made.setAttribute("aria-setsize", entries.length);
    made.setAttribute("aria-selected", index === at);
    made.classList.toggle("now", index === at);
    made.classList.toggle("later", index > at);
    made.classList.toggle("match", matched.has(index));
    made.classList.toggle("refused", data.refused === entries[index].seq);
  };
  const rows = new Map();
  const inSight = () => {
    const box = $("scroll");
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - AROUND);
    const last = Math.min(entries.length - 1, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + AROUND);
    const height = `${entries.length * ROW}px`;
    if ($("rows").style.height !== height) $("rows").style.height = height;
    for (const [i, made] of rows) {
      if (i >= first && i <= last) continue;
      made.remove();
      rows.delete(i);
    }
    // They stand in the order of the entries, which is that in which they are read out.
    for (let i = last; i >= first; i--) {
      if (!rows.has(i)) {
        rows.set(i, row(i));
        $("rows").insertBefore(rows.get(i), rows.get(i + 1) ?? null);
      }
      mark(rows.get(i), i);
    }
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
  const SUMMARIES = { compaction: "summary", branch_summary: "summary of a branch" };
  function decisions() {
    const decided = [];
    for (let i = at; i >= 0; i--) {
      const { type, data: told } = entries[i];
      if (type === "hook/result") {
        const more = [told.decision, told.reason, told.error].filter(Boolean).join(": ");
        decided.unshift(`${told.point} ${told.id}${more ? ` ${more}` : told.changed ? " changed it" : ""}`);
      }
      if (type === "turn/start" || (type === "turn/end" && i < at)) break;
    }
    list($("hooks"), decided, "no hook decided anything");
  }
  let said;
  function conversation(entry) {
    // Up the branch, which need not be what was written right before.
    const lines = [];
    let on = entry.type === "leaf" ? entries[entry.data.target] : entry;
    for (; on && lines.length < SHOWN_MESSAGES; on = on.parent === null ? undefined : entries[on.parent]) {
      const talks = on.type in MESSAGES || on.type in SUMMARIES;
      if (talks && !lines.length && on === said) return; // it is shown already
      if (talks && !lines.length) said = on;
      if (on.type in MESSAGES) lines.unshift(`${MESSAGES[on.type]}: ${textOf(on.data.message)}`);
      else if (talks) lines.unshift(`${SUMMARIES[on.type]}: ${on.data.summary}`);
    }
    if (!lines.length) said = undefined;
    list($("messages"), lines, "nothing was said yet");
    requestAnimationFrame(() => { $("messages").scrollTop = $("messages").scrollHeight; });
  }
  function moment() {
    const entry = entries[at];
    const lists = waiting(at);
    const queued = Object.entries(lists).flatMap(([name, texts]) => texts.map((text) => `${name}: ${text}`));
    list($("inbox"), queued, "nothing waits");
    $("inbox-count").textContent = queued.length ? `(${queued.length})` : "";
    decisions();
    conversation(entry);
    $("entry").textContent = JSON.stringify({ seq: entry.seq, type: entry.type, time: entry.time, data: entry.data }, null, 2);
    const since = Math.max(0, entry.time - entries[0].time);
    $("where").textContent = `${at + 1} of ${entries.length}, ${since.toFixed(2)} s, ${shownState(entry)}: ${entry.type}`;
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
    if (!$("tables").hidden) markRow(true);
  }

  // -- playing ---------------------------------------------------------------------------------------

  const stop = () => {
    clearTimeout(played);
    played = null;
    $("where").setAttribute("aria-live", "polite");
    $("play").setAttribute("aria-label", "Play");
    $("play").textContent = "\u25B6";
  };
  const pause = () => {
    const next = entries[at + 1];
    return next ? Math.min(1200, Math.max(120, (next.time - entries[at].time) * 1000)) : 500;
  };
  const tick = () => {
    const end = at >= entries.length - 1;
    if (end && !data.live) return stop();
    if (!end) show(at + 1);
    played = setTimeout(tick, pause());
  };
  const play = () => {
    if (played !== null) return stop();
    if (at >= entries.length - 1) show(0);
    $("where").setAttribute("aria-live", "off");
    $("play").setAttribute("aria-label", "Pause");
    $("play").textContent = "\u275A\u275A";
    played = setTimeout(tick, pause());
  };

  // -- searching ---------------------------------------------------------------------------------------

  const haystack = [];
  const search = () => {
    const wanted = $("search").value.trim().toLowerCase();
    for (let i = haystack.length; i < entries.length; i++) {
      haystack.push(`${entries[i].label} ${entries[i].type} ${JSON.stringify(entries[i].data)}`.toLowerCase());
    }
    matches = wanted ? haystack.flatMap((text, i) => (text.includes(wanted) ? [i] : [])) : [];
    matched = new Set(matches);
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
  const markRow = (scroll) => {
    const body = $("entry-table").querySelector("tbody");
    body?.querySelector('tr[aria-current="true"]')?.removeAttribute("aria-current");
    const now = body?.rows[at];
    now?.setAttribute("aria-current", "true");
    if (scroll) now?.scrollIntoView({ block: "nearest" });
  };
  const fillTables = () => {
    const taken = entries.length ? ["taken"] : [];
    $("row-table").replaceChildren(table(["from", "event", "if", "to", "ends the turn as", ...taken], data.rows.map((cells) => cells.slice(0, 5 + taken.length)), "Every way from one state to another"));
    $("held-name").hidden = !data.held.length;
    $("held").replaceChildren(...data.held.flatMap(({ state, lines }) => [make("dt", state), ...lines.map((line) => make("dd", line))]));
    $("entries-name").hidden = !entries.length;
    $("entry-table").replaceChildren(...(entries.length ? [table(["entry", "state", "from", "to", "what"], entries.map((entry) => [String(entry.seq), shownState(entry), entry.from, entry.to, entry.label]), "The entries in their order")] : []));
    if (entries.length) markRow();
  };
  $("as-table").addEventListener("click", () => {
    const shown = $("tables").hidden;
    if (shown) fillTables();
    $("tables").hidden = !shown;
    $("pictures").hidden = shown;
    $("as-table").setAttribute("aria-pressed", String(shown));
    if (!shown) { fitAll(); if (entries.length) show(at); }
  });

  // -- keys ------------------------------------------------------------------------------------------------

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === $("search");
    if (typing) {
      if (event.key === "Enter") { event.preventDefault(); jump(!event.shiftKey); }
      if (event.key === "Escape") { $("search").value = ""; search(); $("search").blur(); $("scroll").focus(); }
      return;
    }
    if (!entries.length) return;
    if (event.target.classList.contains("picture") && event.key !== " " && event.key.length > 1) return; // it scrolls
    const box = $("tables").hidden ? $("scroll") : $("tables");
    const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 1);
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: page, PageUp: -page, j: 1, k: -1 };
    if (event.key in steps) { event.preventDefault(); stop(); show(at + steps[event.key]); }
    else if (event.key === "Home") { event.preventDefault(); stop(); show(0); }
    else if (event.key === "End") { event.preventDefault(); stop(); show(entries.length - 1); }
    else if (event.key === " " && event.target.tagName !== "BUTTON" && event.target.tagName !== "SUMMARY") { event.preventDefault(); play(); }
    else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "+") resize(1.25);
    else if (event.key === "-") resize(1 / 1.25);
    else if (event.key === "0") resize(0);
    else if (event.key === "n") jump(true);
    else if (event.key === "N") jump(false);
  });

  // -- entries that come later -------------------------------------------------------------------------------

  let redraw = null, before = "";
  const take = (more) => {
    const start = more.entries.length ? more.entries[0].seq : entries.length;
    const following = at >= entries.length - 1;
    more.entries.forEach((entry, i) => { entries[start + i] = entry; });
    said = undefined;
    rows.clear();
    $("rows").replaceChildren();
    saved.length = Math.min(saved.length, Math.floor(start / SAVE) + 1);
    haystack.length = Math.min(haystack.length, start);
    data.refused = more.refused;
    data.rows = more.rows;
    if (more.state !== data.state) {
      data.state = more.state;
      redraw ??= setTimeout(() => { redraw = null; draw(true); }, REDRAW);
    }
    if (!entries.length) return;
    $("slider").max = String(entries.length - 1);
    if (matches.length || $("search").value) search();
    if (!$("tables").hidden) fillTables();
    show(following && played === null ? entries.length - 1 : at);
  };
  const follow = async () => {
    const begun = performance.now();
    try {
      // What comes later can tell more of what was told last.
      const answer = await fetch(`${data.live}?from=${Math.max(0, entries.length - AGAIN)}`, { cache: "no-store" });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const text = await answer.text();
      if (text !== before) take(JSON.parse(text));
      before = text;
      root.dataset.live = "on";
      $("live").textContent = "following";
    } catch (error) {
      root.dataset.live = "off";
      $("live").textContent = `not following: ${error instanceof TypeError ? "the server is gone" : error.message}`;
    }
    setTimeout(follow, root.dataset.live === "on" ? Math.max(500, 3 * (performance.now() - begun)) : 3000);
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
    $("scroll").style.setProperty("--lanes", String(data.parts.length));
    $("scroll").addEventListener("scroll", inSight, { passive: true });
    $("slider").addEventListener("input", () => { stop(); show(Number($("slider").value)); });
    $("search").addEventListener("input", search);
    $("found-next").addEventListener("click", () => jump(true));
    $("found-before").addEventListener("click", () => jump(false));
    $("play").addEventListener("click", play);
    const moves = { first: () => 0, back: () => at - 1, next: () => at + 1, last: () => entries.length - 1 };
    for (const [id, to] of Object.entries(moves)) $(id).addEventListener("click", () => { stop(); show(to()); });
    new ResizeObserver(() => {
      $("lanes").style.marginRight = `${$("scroll").offsetWidth - $("scroll").clientWidth}px`;
      inSight();
    }).observe($("scroll"));
    if (!entries.length) $("where").textContent = "no entries yet";
    show(0);
    $("live").hidden = !data.live;
    if (data.live) follow();
  } else if (data.view === "sequence") {
    $("pictures").prepend($("sequence-side"));
  }
  new ResizeObserver(fitAll).observe($("chart"));
  draw();
})();
