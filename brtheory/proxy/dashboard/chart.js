"use strict";
// Elements made by hand and filled by textContent only: nothing a proxy or a worker is called can
// become markup.

const SVG = "http://www.w3.org/2000/svg";
const SPAN_S = 180;
const SHORTEST_S = 45;
const number = new Intl.NumberFormat("en");
const byId = (id) => document.getElementById(id);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function whole(value) { return value === null || value === undefined ? "–" : number.format(Math.round(value)); }
function percent(value) { return value === null || value === undefined ? "–" : (100 * value).toFixed(1) + " %"; }

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return (1000 * value).toFixed(value < 0.00995 ? 1 : 0) + " ms";
  return value < 99.5 ? value.toPrecision(3) + " s" : Math.round(value) + " s";
}

// The least of some steps times a power of ten that is not below a value.
function roundUp(value, steps = [1, 2, 4, 6, 10]) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of steps) if (step * power >= value) return step * power;
  return 10 * power;
}

// One quantity, or two, over the last three minutes; phases of routers are bands behind it.
class Chart {
  constructor(host, readout, { title, series, format, least, axis = format }) {
    Object.assign(this, { host, readout, title, series, format, least, axis });
    this.cursor = null;
    this.points = [];
    this.phases = [];
    host.tabIndex = 0;
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", title);
    this.svg = shape("svg", { "aria-hidden": "true" });
    host.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(host);
    host.addEventListener("pointermove", (event) => this.point(event));
    host.addEventListener("pointerleave", () => this.move(null));
    host.addEventListener("blur", () => this.move(null));
    host.addEventListener("keydown", (event) => this.step(event));
  }

  show(points, phases) {
    this.points = points;
    this.phases = phases;
    this.draw();
  }

  point(event) {
    const box = this.host.getBoundingClientRect();
    const share = (event.clientX - box.left - this.left) / (box.width - this.left);
    this.move(this.end - this.span * (1 - Math.min(1, Math.max(0, share))));
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.move((this.cursor === null ? this.end : this.cursor) + by);
    const said = this.say();
    if (said) this.host.setAttribute("aria-label", `${this.title}: ${said}`);
  }

  move(time) {
    this.cursor = time;
    this.draw();
  }

  // The newest point at or before the cursor, or the newest of all.
  chosen() {
    if (this.cursor === null) return this.points[this.points.length - 1];
    let found;
    for (const point of this.points) if (point.time_s <= this.cursor) found = point;
    return found || this.points[0];
  }

  say() {
    const point = this.chosen();
    if (!point) return "";
    const parts = this.series.map(({ key, label }) => `${label ? label + " " : ""}${this.format(point[key])}`);
    const ago = Math.round(this.end - point.time_s);
    return parts.join(" · ") + (this.cursor === null ? "" : `, ${ago} s ago`);
  }

  draw() {
    const width = this.host.clientWidth, height = this.host.clientHeight;
    if (!width || !height) return;
    const last = this.points[this.points.length - 1];
    this.end = last ? last.time_s : 0;
    const known = last ? this.end - this.points[0].time_s : 0;
    this.span = Math.min(SPAN_S, Math.max(SHORTEST_S, known));
    const start = this.end - this.span;
    let highest = this.least;
    for (const point of this.points) for (const { key } of this.series) highest = Math.max(highest, point[key] || 0);
    const top = roundUp(highest);
    this.left = 46;
    const bottom = height - 18, ceiling = 16;
    const x = (time) => this.left + (width - this.left) * (time - start) / this.span;
    const y = (value) => bottom - (bottom - ceiling) * value / top;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parts = [...this.bands(x, start, bottom), ...this.grid(y, top, width)];
    parts.push(shape("text", { x: this.left, y: height - 3 }, `${Math.round(this.span)} s ago`));
    parts.push(shape("text", { x: width, y: height - 3, "text-anchor": "end" }, "now"));
    for (const one of this.series) parts.push(this.curve(one, x, y, start));
    if (this.cursor !== null && this.chosen()) {
      const at = x(this.chosen().time_s);
      parts.push(shape("line", { class: "cursor", x1: at, x2: at, y1: ceiling, y2: bottom }));
    }
    this.svg.replaceChildren(...parts);
    this.readout.textContent = this.say();
  }

  bands(x, start, bottom) {
    const parts = [];
    this.phases.forEach((phase, index) => {
      const next = this.phases[index + 1];
      const from = Math.max(start, phase.since_s), to = next ? next.since_s : this.end;
      if (to <= from) return;
      if (phase.number % 2) parts.push(shape("rect", { class: "band", x: x(from), y: 0, width: x(to) - x(from), height: bottom }));
      if (phase.since_s > start) parts.push(shape("line", { class: "switch", x1: x(from), x2: x(from), y1: 0, y2: bottom }));
      if (x(to) - x(from) > 8 * phase.router.length) {
        parts.push(shape("text", { class: "router-name", x: x(from) + 4, y: 11 }, phase.router));
      }
    });
    return parts;
  }

  grid(y, top, width) {
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(top * share);
      parts.push(shape("line", { class: "grid", x1: this.left, x2: width, y1: at, y2: at }));
      parts.push(shape("text", { x: this.left - 6, y: at + 4, "text-anchor": "end" }, this.axis(top * share)));
    }
    return parts;
  }

  curve({ key, style }, x, y, start) {
    const group = shape("g", { class: style });
    let run = [];
    const finish = () => {
      if (run.length > 1) {
        const path = "M" + run.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");
        const ends = `L${run[run.length - 1][0].toFixed(1)} ${y(0)}L${run[0][0].toFixed(1)} ${y(0)}Z`;
        group.append(shape("path", { class: "area", d: path + ends }), shape("path", { class: "line", d: path }));
      }
      run = [];
    };
    for (const point of this.points) {
      if (point.time_s < start) continue;
      if (point[key] === null) finish();
      else run.push([x(point.time_s), y(point[key])]);
    }
    finish();
    return group;
  }
}
