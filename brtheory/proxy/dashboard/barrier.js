// The loads of the replicas as bars, the peak across them, and what lies between: the barrier.

const DENSE = 24;
const FINE = [1, 1.2, 1.4, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10];
const NARROW_PX = 76;
const SPEAK_MS = 5000;

class Barrier {
  constructor(host) {
    this.host = host;
    this.bars = new Map();
    this.scale = 1;
    this.said = 0;
    this.line = element("div", "peak-line");
    this.label = element("span");
    this.line.append(this.label);
  }

  show(snapshot) {
    const replicas = snapshot.replicas;
    this.arrange(replicas);
    if (!replicas.length) return;
    const peak = Math.max(0, ...replicas.filter((one) => one.live).map((one) => one.tokens));
    const wanted = roundUp(Math.max(1, 1.02 * Math.max(...replicas.map((one) => one.tokens))), FINE);
    // Grows at once, shrinks only where much room is left, so that bars do not jump.
    if (wanted > this.scale || wanted < 0.8 * this.scale) this.scale = wanted;
    const narrow = this.host.clientWidth / replicas.length < NARROW_PX;
    for (const one of replicas) this.draw(one, peak, narrow ? this.common : 0);
    const bars = this.host.getBoundingClientRect(), track = this.bars.values().next().value.track.getBoundingClientRect();
    this.line.style.bottom = `${bars.bottom - track.bottom + track.height * peak / this.scale}px`;
    this.line.hidden = peak === 0;
    this.label.textContent = `peak ${whole(peak)}`;
    this.speak(snapshot, peak);
  }

  arrange(replicas) {
    const names = replicas.map((one) => one.name);
    if (names.length === this.bars.size && names.every((name) => this.bars.has(name))) return;
    this.bars.clear();
    this.common = commonBeginning(names);
    for (const name of names) this.bars.set(name, this.bar(name));
    this.host.classList.toggle("dense", names.length > DENSE);
    const shown = [...this.bars.values()].map((bar) => bar.root);
    this.host.replaceChildren(...(shown.length ? [...shown, this.line] : [element("p", "empty", "No decode replica")]));
  }

  bar(name) {
    const root = element("div", "bar"), track = element("div", "track");
    const bar = { root, track, fill: element("div", "fill"), gap: element("div", "gap"), load: element("div", "load"), name: element("div", "name"), slots: element("div", "slots") };
    track.append(bar.fill, bar.gap, bar.load);
    root.append(track, bar.name, bar.slots);
    root.title = name;
    return bar;
  }

  draw(one, peak, skipped) {
    const bar = this.bars.get(one.name), share = (tokens) => `${100 * tokens / this.scale}%`;
    const state = stateOf(one);
    bar.root.dataset.state = state;
    bar.name.textContent = one.name.slice(skipped);
    bar.fill.style.height = share(one.tokens);
    // Both ends move as the fill and the peak line do, so that they meet while they move.
    bar.gap.style.bottom = share(one.tokens);
    bar.gap.style.top = share(this.scale - peak);
    bar.gap.hidden = !one.live;
    bar.load.textContent = one.tokens / this.scale > 0.09 ? compact(one.tokens) : "";
    bar.slots.textContent = state !== "live" ? state
      : one.requests > one.slots ? `${one.slots}+${one.requests - one.slots}` : `${one.requests}/${one.slots}`;
  }

  speak(snapshot, peak) {
    if (Date.now() - this.said < SPEAK_MS) return;
    this.said = Date.now();
    const fullest = snapshot.replicas.find((one) => one.live && one.tokens === peak);
    const idle = snapshot.barrier_idle_ratio;
    this.host.setAttribute("aria-label", `${snapshot.replicas.length} replicas. ` +
      (fullest && peak ? `Fullest: ${fullest.name} with ${whole(peak)} KV tokens. ` : "Nothing is decoded. ") +
      (idle === null ? "" : `${percent(idle)} of the load-dependent step is waited at the barrier.`));
  }
}

// How many characters all names begin with, up to a dash or the like; what follows tells them apart.
function commonBeginning(names) {
  let length = 0;
  while (names.length > 1 && length < names[0].length && names.every((name) => name[length] === names[0][length])) length += 1;
  return names[0] === undefined ? 0 : names[0].slice(0, length).search(/[^-.:_/]*$/);
}

function stateOf(worker) {
  if (worker.draining) return "draining";
  return worker.live ? "live" : "down";
}

function compact(value) {
  if (value < 10000) return whole(value);
  return value < 1e6 ? `${(value / 1000).toFixed(value < 99950 ? 1 : 0)}k` : `${(value / 1e6).toFixed(2)}M`;
}
