// Keeps pages current. Every page works without this: it adds nothing that a form or a link does not do.
// What comes from outside is put on the page as text, never as markup.
"use strict";

(() => {
  const FINAL = new Set(["succeeded", "failed", "cancelled", "expired", "lost"]);
  const KINDS = ["created", "awaiting_approval", "awaiting_result", "started", ...FINAL].map((one) => `call.${one}`);
  const MARKS = { queued: "○", awaiting_approval: "◐", awaiting_result: "◐", running: "◔", succeeded: "✓", failed: "✕", cancelled: "−", expired: "−", lost: "?" };
  const MOST_WAITING = 2000, MOST_OUTPUT = 200000, MOST_EVENTS = 500;
  const AGAIN = 3000;
  let stream = null, timer = null, again = null;

  const find = (selector, within = document) => within.querySelector(selector);
  const say = (text) => { const place = find("#said"); if (place) place.textContent = text; };

  // What nobody would see becomes an escape, as on every page the service writes; which characters those are, it says.
  const HIDDEN = new RegExp(document.documentElement.dataset.hidden, "gu");
  function escaped(one) {
    const code = one.codePointAt(0).toString(16);
    return code.length > 2 ? `\\u{${code}}` : `\\x${code.padStart(2, "0")}`;
  }
  const visible = (_, value) => (typeof value === "string" ? value.replace(/\r+\n/g, "\n").replace(HIDDEN, escaped) : value);

  function stop() {
    if (stream) stream.close();
    clearTimeout(timer);
    clearTimeout(again);
    stream = timer = again = null;
  }

  const signedOut = (answer) => answer.redirected && new URL(answer.url).pathname === "/sign-in";

  // Browsers connect again after a cut, but not after an answer that is no stream: the session has ended, or the service
  // is away for a moment. `resume` runs once the page can be had again.
  function whenClosed(resume) {
    if (!stream || stream.readyState !== EventSource.CLOSED) return;
    clearTimeout(again);
    again = setTimeout(async () => {
      try {
        const answer = await fetch(location.href);
        if (signedOut(answer)) { location.reload(); return; }
        if (answer.ok) { resume(); return; }
      } catch { /* not yet */ }
      whenClosed(resume);
    }, AGAIN);
  }

  const replaceMain = () => htmx.ajax("GET", location.pathname + location.search, { target: "#main", select: "#main", swap: "outerHTML" });

  // The list of calls. A row is known by its call, so that nothing is there twice; whatever may have been missed is
  // fetched again as a whole.
  function watchCalls(table) {
    const body = find("#rows"), template = find("#row-template"), pause = find("#pause"), shown = find("#connection"), older = find("#older");
    const filters = JSON.parse(table.dataset.filters), kinds = JSON.parse(table.dataset.kinds);
    const states = JSON.parse(table.dataset.states), most = Number(table.dataset.most);
    const rows = new Map();
    let waiting = [], paused = pause !== null && pause.getAttribute("aria-pressed") === "true", fetching = false, stale = false, connected = false;

    const learn = () => { rows.clear(); for (const row of body.rows) rows.set(row.dataset.call, row); };
    const show = () => { if (shown) shown.textContent = shown.dataset[!connected ? "off" : paused ? "paused" : "on"]; };
    // The next page begins behind the last row that is here; what left the list is on it.
    function leadOn() {
      const link = find("a", older), place = new URL(link.href);
      place.searchParams.set("cursor", body.rows[body.rows.length - 1].dataset.call);
      link.href = place.search;
      older.hidden = false;
    }

    async function refetch() {
      if (fetching) { stale = true; return; }
      fetching = true; stale = false;
      try {
        const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
        if (signedOut(answer)) { location.reload(); return; }
        if (answer.ok && !paused) {
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          const fresh = page.querySelector("#rows");
          if (fresh) {
            const held = document.activeElement.closest("#rows tr");
            body.replaceChildren(...fresh.children);
            learn();
            const next = page.querySelector("#older");
            if (older && next) { older.hidden = next.hidden; older.replaceChildren(...next.children); }
            const row = held && rows.get(held.dataset.call);
            if (row) find("a", row).focus({ preventScroll: true });
          }
        }
      } catch { stale = true; }
      fetching = false;
      if (stale) later(refetch, 1000); else flush();
    }
    const later = (what, after) => { clearTimeout(timer); timer = setTimeout(what, after); };

    function flush() {
      timer = null;
      if (fetching || paused) return;
      const events = waiting;
      waiting = [];
      for (const event of events) apply(event);
      const isFull = body.rows.length > most;
      while (body.rows.length > most) { const last = body.rows[body.rows.length - 1]; rows.delete(last.dataset.call); last.remove(); }
      if (isFull && older) leadOn();
      const none = find("#none");
      if (none) none.hidden = body.rows.length > 0;
    }

    function apply(event) {
      const name = event.type.slice(5);
      const status = event.type === "approval.decided" || name === "started" || name === "created" ? "running" : name;
      let row = rows.get(event.call);
      if (row && FINAL.has(row.dataset.status)) return;
      const fits = ["tool", "session", "batch"].every((one) => !filters[one] || filters[one] === event.data[one])
        && (!filters.user || filters.user === event.user);
      if (!fits) return;
      if (!row) {
        if (name !== "created" && !(filters.status && filters.status === status)) return;
        row = template.content.firstElementChild.cloneNode(true);
        row.dataset.call = event.call;
        // A filter may first let the end of a call in; when it began is the first part of its id.
        const created = name === "created" ? event.at : new Date(parseInt(event.call.slice(0, 12), 16)).toISOString();
        row.dataset.created = created;
        const cells = row.cells, link = find("a", row), time = find("time", row);
        link.textContent = event.data.tool;
        link.href = `/calls/${encodeURIComponent(event.call)}`;
        const kind = kinds[event.data.tool];
        cells[2].textContent = kind ? (table.dataset[`kind${kind}`] || kind) : "";
        cells[3].textContent = event.user || "";
        time.dateTime = created;
        time.textContent = created.slice(0, 19).replace("T", " ");
        rows.set(event.call, row);
        const next = [...body.rows].find((other) => other.dataset.call < event.call);
        body.insertBefore(row, next || null);
      }
      row.dataset.status = status;
      if (filters.status && filters.status !== status) { rows.delete(event.call); row.remove(); return; }
      const badge = find(".state", row);
      badge.className = `state ${status}`;
      const words = document.createElement("span"), mark = document.createElement("span");
      mark.setAttribute("aria-hidden", "true");
      mark.textContent = MARKS[status] || "·";
      words.textContent = states[status] || status;
      badge.replaceChildren(mark, " ", words);
      if (FINAL.has(status)) {
        const took = (Date.parse(event.at) - Date.parse(row.dataset.created)) / 1000;
        row.cells[5].textContent = took < 1 ? `${Math.round(took * 1000)} ms` : took < 120 ? `${took.toFixed(1)} s` : `${Math.round(took / 60)} min`;
      }
    }

    function hear(message) {
      const event = JSON.parse(message.data, visible);
      if (paused) { stale = true; return; }
      waiting.push(event);
      if (waiting.length > MOST_WAITING) { waiting = []; refetch(); return; }
      if (!timer) timer = setTimeout(flush, 100);
    }

    learn();
    stream = new EventSource("/events");
    let first = true;
    stream.onopen = () => { connected = true; show(); if (first) { first = false; refetch(); } };
    stream.onerror = () => { connected = false; show(); whenClosed(begin); };
    for (const kind of [...KINDS, "approval.decided"]) stream.addEventListener(kind, hear);
    stream.addEventListener("reset", () => { waiting = []; if (paused) stale = true; else refetch(); });
    if (pause) {
      pause.hidden = false;
      pause.onclick = () => {
        paused = !paused;
        pause.setAttribute("aria-pressed", String(paused));
        pause.textContent = paused ? pause.dataset.resume : pause.dataset.pause;
        show();
        if (!paused) { waiting = []; refetch(); }
      };
    }
  }

  // One call: its events, its output, its end.
  function watchCall(place) {
    const call = place.dataset.call, list = find("#timeline"), output = find("#output"), template = find("#event-template");
    const words = JSON.parse(place.dataset.words);
    let last = Number(place.dataset.last);
    const add = (event) => {
      if (list.children.length >= MOST_EVENTS) return;
      const item = template.content.firstElementChild.cloneNode(true);
      item.dataset.seq = event.id;
      find("time", item).textContent = (event.at || "").slice(11, 23);
      find("span", item).textContent = (words[event.type] || event.type) + (event.data.summary ? `: ${event.data.summary}` : "");
      list.append(item);
    };
    function hear(message) {
      const event = JSON.parse(message.data, visible);
      if (event.id <= last) return;
      last = place.dataset.last = event.id;
      if (event.type === "call.output") {
        const content = event.data.content;
        output.hidden = false;
        if (output.textContent.length < MOST_OUTPUT) output.append(typeof content === "string" ? content : JSON.stringify(content));
        output.scrollTop = output.scrollHeight;
      } else if (event.type === "call.progress") {
        const bar = find("#bar");
        find("#progress").hidden = false;
        if (event.data.total) { bar.max = event.data.total; bar.value = event.data.done; }
        find("#progress span").textContent = event.data.message || "";
      } else if (FINAL.has(event.type.slice(5))) {
        stop();
        say(place.dataset.said);
        replaceMain();
      } else {
        add(event);
        if (event.type === "call.awaiting_approval" || event.type === "approval.decided") {
          stop();
          replaceMain();
        }
      }
    }
    stream = new EventSource(`/calls/${encodeURIComponent(call)}/events?after=${last}`);
    stream.onerror = () => whenClosed(replaceMain);
    for (const kind of [...KINDS, "call.progress", "call.output", "approval.decided", "approval.expired"]) stream.addEventListener(kind, hear);
  }

  // The inbox. A card is replaced by what the service says of it, whoever decided.
  function watchApprovals(inbox) {
    const known = (id) => document.getElementById(`approval-${id}`);
    const notify = find("#notify");
    if (notify && "Notification" in window && Notification.permission === "default") {
      notify.hidden = false;
      notify.onclick = async () => { await Notification.requestPermission(); notify.hidden = true; };
    }
    const shown = find("#connection"), coming = new Set();
    const count = () => { const none = find("#none"); if (none) none.hidden = inbox.children.length > 0; };
    async function refresh(id) {
      if (coming.has(id)) return;
      coming.add(id);
      try { await fetchCard(id); } finally { coming.delete(id); }
    }
    async function fetchCard(id) {
      const card = known(id);
      const focused = card && card.contains(document.activeElement);
      const place = `/approvals/${encodeURIComponent(id)}`, select = `#approval-${id}`;
      if (card) await htmx.ajax("GET", place, { target: select, select, swap: "outerHTML" });
      else await htmx.ajax("GET", place, { target: "#inbox", select, swap: "beforeend" });
      count();
      if (focused && known(id)) known(id).focus();
    }
    function announce(event) {
      const text = event.data.summary || event.data.tool;
      say(`${inbox.dataset.title}: ${text}`);
      if ("Notification" in window && Notification.permission === "granted" && document.hidden) {
        try { new Notification(inbox.dataset.title, { body: text, tag: event.data.approval }); } catch { /* phones have none for a page */ }
      }
    }
    stream = new EventSource("/events");
    // What came, or was decided, while there was no stream. A reason that somebody is writing stays as it is.
    async function catchUp() {
      const answer = await fetch(location.pathname + location.search);
      if (signedOut(answer)) { location.reload(); return; }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const there = new Set([...page.querySelectorAll("#inbox .card")].map((card) => card.dataset.approval));
      for (const id of there) if (!known(id)) await refresh(id);
      for (const card of inbox.querySelectorAll(".card[data-status=pending]")) if (!there.has(card.dataset.approval)) await refresh(card.dataset.approval);
    }
    stream.onopen = async () => {
      await catchUp();
      if (shown) shown.textContent = shown.dataset.on;
    };
    stream.onerror = () => { if (shown) shown.textContent = shown.dataset.off; whenClosed(begin); };
    stream.addEventListener("call.awaiting_approval", (message) => {
      const event = JSON.parse(message.data, visible);
      if (known(event.data.approval)) return;
      announce(event);
      refresh(event.data.approval);
    });
    const settled = (message) => {
      const event = JSON.parse(message.data, visible);
      const card = event.data.approval ? known(event.data.approval) : find(`[data-call="${CSS.escape(event.call)}"]`, inbox);
      if (card && card.dataset.status === "pending") refresh(card.dataset.approval);
    };
    for (const kind of ["approval.decided", "approval.expired", "call.cancelled", "call.expired"]) stream.addEventListener(kind, settled);
    stream.addEventListener("reset", catchUp);
  }

  function move(step) {
    const cards = [...document.querySelectorAll("#inbox .card[data-status=pending]")];
    if (!cards.length) return;
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    const next = cards[at < 0 ? (step > 0 ? 0 : cards.length - 1) : Math.min(cards.length - 1, Math.max(0, at + step))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (!find("#inbox") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const card = document.activeElement.closest && document.activeElement.closest("#inbox .card");
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (card && (event.key === "a" || event.key === "d")) {
      const button = find(`button[value=${event.key === "a" ? "approve" : "deny"}]`, card);
      if (button) { event.preventDefault(); button.click(); }
    }
  });

  // A form that is on its way is not sent again by a second click, and one that could not be sent says so.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) { event.preventDefault(); event.stopImmediatePropagation(); }
    else if (event.target.method === "post") event.target.dataset.sent = "yes";
  }, true);
  document.addEventListener("htmx:finally:request", (event) => { if (event.target.dataset) delete event.target.dataset.sent; });
  document.addEventListener("htmx:error", (event) => {
    const form = event.target.closest && event.target.closest("form");
    if (!form) return;
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.setAttribute("role", "alert");
    problem.textContent = find("#said").dataset.unsent;
    for (const old of form.querySelectorAll(".problem[role=alert]")) old.remove();
    form.prepend(problem);
  });

  // Charts: lines differ by their dashes, so that no colour is needed to tell them apart.
  function draw() {
    const charts = find(".charts");
    if (!charts || typeof uPlot === "undefined") return;
    const times = JSON.parse(charts.dataset.times).map((one) => Date.parse(one) / 1000);
    const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--text").trim();
    const edge = style.getPropertyValue("--edge").trim();
    const dashes = [[], [8, 4], [2, 3]], widths = [2, 2.5, 3];
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      const chart = JSON.parse(figure.dataset.chart), place = find(".plot", figure);
      const axis = { stroke: ink, grid: { stroke: edge, width: 1 }, ticks: { stroke: edge } };
      const series = chart.series.map((one, index) => ({ label: one.label, stroke: ink, width: widths[index], dash: dashes[index], spanGaps: false, points: { show: true, size: 4 } }));
      place.replaceChildren();
      new uPlot({ width: Math.max(260, place.clientWidth), height: 180, legend: { show: false }, cursor: { show: false }, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"), series: [{}, ...series], axes: [axis, { ...axis, size: 60 }], scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } } },
        [times, ...chart.series.map((one) => one.values)], place);
    }
  }

  function begin() {
    stop();
    const calls = find("[data-live]"), call = find("#call[data-follow]"), inbox = find("[data-inbox]");
    if (calls) watchCalls(calls);
    else if (call) watchCall(call);
    else if (inbox) watchApprovals(inbox);
    draw();
  }

  let main = null;
  function look() {
    if (find("#main") !== main) { main = find("#main"); begin(); }
  }
  document.addEventListener("htmx:after:swap", () => {
    look();
    const answer = find("[role=alert], .good, .verdict", main);
    if (answer) answer.scrollIntoView({ block: "nearest" });
    if (document.activeElement !== document.body) return;
    if (find("[data-inbox]")) move(1);
    else main.focus({ preventScroll: true });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    if (event.persisted) begin();
  });
  look();
})();
