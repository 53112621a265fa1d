// The page: the key, the stream of events, and where each number goes.

const STORE = "brtheory.admin-key";
const SILENT_MS = 10000;
const MOST_POINTS = 720;
const HIDDEN_MS = 60000;
const CHARTS_MS = 450;
const TABLES_MS = 900;

const remembered = {
  get(store, name) { try { return window[store].getItem(name); } catch { return null; } },
  set(store, name, value) {
    try { if (value === null) window[store].removeItem(name); else window[store].setItem(name, value); } catch { /* only in memory then */ }
  },
};

let key = keyFromAddress() || remembered.get("sessionStorage", STORE);
let points = [], phases = [], newest = null, drawing = false, charted = 0, tabled = 0;

const barrier = new Barrier(byId("bars"));
const routers = new RouterForm(ask);
const charts = [
  chart("idle", { title: "Barrier idle", series: [{ key: "barrier_idle_ratio", style: "s-idle" }], format: percent, axis: wholePercent, least: 0.05 }),
  chart("imbalance", { title: "Imbalance in tokens", series: [{ key: "imbalance_tokens", style: "s-idle" }], format: compactOrDash, least: 100 }),
  chart("rate", { title: "Tokens a second", series: [{ key: "tokens_per_s", style: "s-work" }], format: compactOrDash, least: 10 }),
  chart("waiting", {
    title: "Requests waiting",
    series: [{ key: "pool_requests", label: "pool", style: "s-work" }, { key: "queue_requests", label: "line (dashed)", style: "s-second" }],
    format: compactOrDash, least: 4,
  }),
];

function chart(name, options) { return new Chart(byId(`c-${name}`), byId(`r-${name}`), options); }
function wholePercent(share) { return `${+(100 * share).toFixed(1)} %`; }
function compactOrDash(value) { return value === null ? "–" : compact(value); }

// A key after # is never sent to a server; it is taken out of the address at once.
function keyFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  remembered.set("sessionStorage", STORE, found);
  return found;
}

// What cannot stand in a header is no key.
function headers() { return key && /^[\x21-\x7e]+$/.test(key) ? { Authorization: `Bearer ${key}` } : {}; }

async function ask(path, body) {
  const options = { headers: headers(), cache: "no-store", credentials: "omit" };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let answer;
  try { answer = await fetch(path, options); } catch { throw new Error("The proxy does not answer."); }
  const document_ = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(document_.error ? document_.error.message : `Status ${answer.status}`);
  return document_;
}

// -- the stream -----------------------------------------------------------------------------------

async function follow() {
  let pause = 500, listed = false;
  for (;;) {
    await visible();
    const stop = new AbortController();
    const leave = () => { if (document.hidden) hiddenFor = setTimeout(() => stop.abort(), HIDDEN_MS); else clearTimeout(hiddenFor); };
    let hiddenFor;
    document.addEventListener("visibilitychange", leave);
    try {
      const answer = await fetch("dashboard/events", { headers: headers(), cache: "no-store", credentials: "omit", signal: stop.signal });
      if (answer.status === 401) { await askForKey(); continue; }
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      byId("forget").hidden = !key;
      if (!listed) { await routers.load(); listed = true; }
      pause = 500;
      await read(answer.body.getReader(), stop);
      status("lost", "connection ended");
    } catch (error) {
      status("lost", error.name === "TypeError" || error.name === "AbortError" ? "no connection" : error.message);
    } finally {
      stop.abort();
      clearTimeout(hiddenFor);
      document.removeEventListener("visibilitychange", leave);
    }
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(2 * pause, 8000);
  }
}

async function read(reader, stop) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const silent = setTimeout(() => stop.abort(), SILENT_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    const parts = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = parts.pop();
    for (const part of parts) take(part);
  }
}

function take(part) {
  const [name, data] = part.split("\n");
  const document_ = JSON.parse(data.slice("data: ".length));
  if (name === "event: history") {
    points = document_.time_s.map((_, index) => Object.fromEntries(Object.keys(document_).map((field) => [field, document_[field][index]])));
    return;
  }
  newest = document_;
  phases = document_.phases;
  const last = points[points.length - 1];
  if (!last || last.time_s < document_.time_s) points.push(document_);
  if (points.length > MOST_POINTS) points.splice(0, points.length - MOST_POINTS);
  status("live", document_.draining ? "draining" : "live");
  if (!drawing) { drawing = true; requestAnimationFrame(draw); }
}

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resume) => document.addEventListener("visibilitychange", resume, { once: true }));
}

function status(state, text) {
  const shown = byId("status");
  document.body.classList.toggle("stale", state !== "live");
  if (shown.dataset.state === state && shown.lastElementChild.textContent === text) return;
  shown.dataset.state = state;
  shown.lastElementChild.textContent = text;
}

// -- drawing --------------------------------------------------------------------------------------

function draw() {
  drawing = false;
  const now = newest;
  byId("router-now").textContent = now.router;
  byId("router-family").textContent = now.immediate ? "at arrival" : "late binding";
  byId("router-family").hidden = false;
  routers.running(now.router);
  drawTiles(now);
  barrier.show(now);
  if (Date.now() - charted > CHARTS_MS) drawCharts();
  if (Date.now() - tabled > TABLES_MS) drawTables(now);
}

function drawCharts() {
  charted = Date.now();
  for (const one of charts) one.show(points, phases);
}

function drawTables(now) {
  tabled = Date.now();
  drawPhases(now);
  drawWorkers(now);
  byId("counters").textContent = `Step ${seconds(now.step_s)} · ${whole(now.ticks)} ticks, ${whole(now.tick_fallbacks)} fell back · ` +
    `${whole(now.forced_bindings)} bound because a lease ran out · ${whole(now.kv_expired)} leases expired · ${whole(now.kv_stranded)} prefills stranded`;
}

function drawTiles(now) {
  const live = now.replicas.filter((one) => one.live);
  const set = (name, value, note) => { byId(`v-${name}`).textContent = value; if (note) byId(`n-${name}`).textContent = note; };
  set("idle", percent(now.barrier_idle_ratio));
  set("imbalance", now.imbalance_tokens === null ? "–" : compact(now.imbalance_tokens));
  set("rate", compact(now.tokens_per_s));
  const queued = now.engine_queue_requests ? `, ${whole(now.engine_queue_requests)} in the engines' queues` : "";
  set("decoding", whole(now.decoding_requests), `of ${whole(live.reduce((sum, one) => sum + one.slots, 0))} slots${queued}`);
  set("pool", whole(now.pool_requests), `waiting, ${whole(now.queue_requests)} before prefill`);
  for (const [name, from] of [["ttft", "ttft"], ["wait", "pool"], ["tpot", "tpot"]]) {
    set(name, seconds(now.waits[from].p50_s), `median; P99 ${seconds(now.waits[from].p99_s)}`);
  }
}

function requestsOf(replica) {
  const queued = replica.requests - replica.slots;
  return queued > 0 ? `${replica.slots} of ${replica.slots}, ${queued} queued` : `${replica.requests} of ${replica.slots}`;
}

function cells(row, values) {
  row.replaceChildren(...values.map((value, index) => {
    const cell = element(index ? "td" : "th", index ? "num" : "", value);
    if (!index) cell.scope = "row";
    return cell;
  }));
}

function drawPhases(now) {
  const rows = [...now.phases].reverse().map((phase) => {
    const row = element("tr", phase.number === now.phase ? "current" : "");
    cells(row, [phase.router, `${Math.round(phase.seconds)} s`, percent(phase.barrier_idle_ratio), whole(phase.imbalance_tokens), whole(phase.tokens_per_s)]);
    if (Object.keys(phase.params).length) row.title = Object.entries(phase.params).map(([name, value]) => `${name} = ${value}`).join(", ");
    return row;
  });
  byId("phases").replaceChildren(...rows);
}

function drawWorkers(now) {
  const decode = now.replicas.map((one) => [one, [requestsOf(one), whole(one.tokens), whole(one.tokens_per_s)]]);
  const prefill = now.prefill.map((one) => [one, [whole(one.legs), whole(one.kv_tokens_held), ""]]);
  const rows = [...decode, ...prefill].map(([worker, numbers]) => {
    const row = element("tr"), state = stateOf(worker);
    cells(row, [worker.name, "", ...numbers]);
    const cell = element("td", "state", state === "down" && worker.reason ? `down: ${worker.reason}` : state);
    cell.dataset.state = state;
    row.children[1].replaceWith(cell);
    return row;
  });
  byId("workers").replaceChildren(...rows);
  const live = (workers) => `${workers.filter((one) => one.live).length} of ${workers.length}`;
  byId("n-workers").textContent = `decode ${live(now.replicas)} live` + (now.prefill.length ? `, prefill ${live(now.prefill)} live` : "");
}

// -- key and colours ------------------------------------------------------------------------------

function askForKey() {
  const dialog = byId("ask"), refused = key !== null;
  status("lost", "needs the key");
  remembered.set("sessionStorage", STORE, null);
  byId("ask-result").textContent = refused ? "That key is not accepted." : "";
  byId("ask-key").value = "";
  if (!dialog.open) dialog.showModal();
  return new Promise((resume) => {
    byId("ask-form").onsubmit = (event) => {
      event.preventDefault();
      key = byId("ask-key").value.trim();
      remembered.set("sessionStorage", STORE, key);
      dialog.close();
      resume();
    };
  });
}

byId("ask").addEventListener("cancel", (event) => event.preventDefault());
byId("forget").addEventListener("click", () => { remembered.set("sessionStorage", STORE, null); location.reload(); });

const THEMES = [["auto", "Auto", "as the system"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let theme = remembered.get("localStorage", "brtheory.theme") || "auto";

function applyTheme() {
  const dark = theme === "dark" || (theme === "auto" && darkSystem.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const [, label, long] = THEMES.find(([name]) => name === theme) || THEMES[0];
  byId("theme").textContent = label;
  byId("theme").setAttribute("aria-label", `Colours: ${long}`);
}

byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.findIndex(([name]) => name === theme) + 1) % THEMES.length][0];
  remembered.set("localStorage", "brtheory.theme", theme);
  applyTheme();
});
darkSystem.addEventListener("change", applyTheme);
applyTheme();
follow();
