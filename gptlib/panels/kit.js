// What every panel is built from: labelled native controls, a picture, and its numbers as text.
// Words of readers and models enter the page as text nodes only, never as markup.

import { count, fit, fixed, memory } from "./words.js";

// One colour per component, as in gptlib/figures/pictures.py.
const COLOURS = {
  embed: "#56b4e9",
  attention: "#0072b2",
  feedForward: "#e69f00",
  norm: "#009e73",
  residual: "#8c8c8c",
  head: "#cc79a7",
  broken: "#d55e00",
};

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// What the keyboard moves. JupyterLab would take its keys: x cuts the reader's cell.
const CONTROLS = new Set(["button", "input", "select", "summary", "textarea"]);

/** Make an HTML element; strings among the children become text. */
function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (CONTROLS.has(tag)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  return fill(node, attributes, children);
}

/** Make an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Return about `most` round numbers from `low` to `high`. */
function ticks(low, high, most = 5) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

/**
 * Draw axes into a picture and return where its data go.
 *
 * `x` and `y` are [low, high]; `log` makes y logarithmic. Ticks are numbers or [number, text].
 */
function chart(picture, options) {
  const { width, height } = picture.viewBox.baseVal;
  const {
    x,
    y,
    xLabel,
    yLabel,
    log = false,
    left = log ? 64 : 52,
    right = 12,
    top = 10,
    bottom = 40,
  } = options;
  const scale = log ? Math.log10 : (v) => v;
  const [low, high] = y.map(scale);
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (width - left - right);
  const Y = (v) => height - bottom - ((scale(v) - low) / (high - low)) * (height - bottom - top);
  const powers = () =>
    ticks(low, high, 6)
      .filter(Number.isInteger)
      .map((p) => [10 ** p, `1e${fixed(p, 0)}`]);
  const xTicks = options.xTicks ?? ticks(...x, Math.max(2, Math.floor(width / 90)));
  const yTicks = options.yTicks ?? (log ? powers() : ticks(...y));
  const long = (v) => (v < 1e6 ? count(v) : String(Number(v.toPrecision(2))));
  const name = (v) => (v < 1000 ? String(v).replace("-", "−") : long(v));
  const pair = (tick) => (Array.isArray(tick) ? tick : [tick, name(tick)]);
  const foot = height - bottom;
  const inside = (at, text) => Math.min(at, width - 3.2 * text.length); // half of what a tick takes
  picture.append(
    svg("path", { class: "gp-axis", d: `M${left} ${top}V${foot}H${width - right}` }),
    ...yTicks
      .map(pair)
      .flatMap(([v, text]) => [
        svg("path", { class: "gp-grid", d: `M${left} ${Y(v)}H${width - right}` }),
        svg("text", { class: "gp-tick", x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, text),
      ]),
    ...xTicks
      .map(pair)
      .map(([v, text]) =>
        svg(
          "text",
          { class: "gp-tick", x: inside(X(v), text), y: foot + 16, "text-anchor": "middle" },
          text,
        ),
      ),
    svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
    svg(
      "text",
      { transform: `translate(12 ${(top + foot) / 2}) rotate(-90)`, "text-anchor": "middle" },
      yLabel,
    ),
  );
  const add = (node) => (picture.append(node), node);
  return {
    X,
    Y,
    line: (points, colour, more = {}) =>
      add(
        svg("path", {
          d: points
            .map(([px, py], i) => `${i ? "L" : "M"}${X(px).toFixed(1)} ${Y(py).toFixed(1)}`)
            .join(""),
          fill: "none",
          stroke: colour,
          "stroke-width": 2,
          ...more,
        }),
      ),
    dot: (px, py, colour, r = 5) => add(svg("circle", { cx: X(px), cy: Y(py), r, fill: colour })),
    column: (px, value, wide, colour, more = {}) => {
      const [from, to] = [Y(log ? y[0] : 0), Y(value)];
      const size = { width: wide, height: Math.max(Math.abs(to - from), 1) };
      return add(
        svg("rect", { x: X(px) - wide / 2, y: Math.min(from, to), ...size, fill: colour, ...more }),
      );
    },
    text: (px, py, text, more = {}) =>
      add(svg("text", { class: "gp-word", x: X(px), y: Y(py), ...more }, text)),
  };
}

/** Return rows `label | bar | value` as one list; `share` in [0, 1] is the bar's length. */
function bars(rows) {
  return html(
    "ul",
    { class: "gp-bars" },
    ...rows.map(({ label, share, text, colour, off = false, title }) =>
      html(
        "li",
        { class: off ? "gp-off" : "", title },
        html("span", { class: "gp-bar-label" }, label),
        html(
          "span",
          { class: "gp-bar", "aria-hidden": "true" },
          html("span", { style: `width:${(100 * share).toFixed(2)}%;background:${colour}` }),
        ),
        html("span", { class: "gp-bar-text" }, text),
      ),
    ),
  );
}

/** Return the body of a table: a caption, a head row, then rows whose first cell is their head. */
function tableParts(caption, head, rows) {
  const cell = (text, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, String(text));
  return [
    html("caption", {}, caption),
    html("thead", {}, html("tr", {}, ...head.map((text) => html("th", { scope: "col" }, text)))),
    html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map(cell)))),
  ];
}

/**
 * One panel on the screen: title and reset, controls, pictures, a sentence, the numbers as a table.
 *
 * Controls are bound to traits of `model` by name; `start(draw)` draws now and after each change,
 * at most once a frame. Return `view.dispose` from `render`, so that nothing is left behind.
 */
class PanelView {
  constructor({ model, el, title }) {
    this.model = model;
    this.offs = [];
    this.pictures = [];
    this.controls = html("div", { class: "gp-controls" });
    this.stage = html("div", { class: "gp-stage" });
    this.readout = html("p", { class: "gp-readout", "aria-live": "polite" });
    this.table = html("table", {});
    const reset = html("button", { type: "button", onclick: () => this.reset() }, "Reset");
    this.root = html(
      "div",
      { class: "gp", role: "group", "aria-label": title },
      html("div", { class: "gp-head" }, html("strong", {}, title), reset),
      this.controls,
      this.stage,
      this.readout,
      html(
        "details",
        { class: "gp-text" },
        html("summary", {}, "The numbers as a table"),
        this.table,
      ),
    );
    el.replaceChildren(this.root);
    this.dispose = () => {
      this.offs.splice(0).forEach((off) => off());
      cancelAnimationFrame(this.frame);
    };
  }

  /** Follow a trait (or "msg:custom") until the panel goes. */
  on(event, handler) {
    this.model.on(event, handler);
    this.offs.push(() => this.model.off(event, handler));
  }

  /**
   * Return the packaged model, from the page's own script or from JupyterLab's kernel, which may
   * answer with the vocabulary of a model that it runs itself. Fails where the page has none.
   */
  weights() {
    return new Promise((resolve, reject) => {
      this.on("msg:custom", (message) => {
        if (message.weights || message.vocabulary) resolve(message.weights ?? message);
        else if (message.missing) reject(new Error(message.missing));
      });
      this.model.send({ ask: "weights" });
    });
  }

  set(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }

  reset() {
    for (const [name, value] of Object.entries(structuredClone(this.model.get("initial"))))
      this.model.set(name, value);
    this.model.save_changes();
    for (const note of this.root.querySelectorAll("[data-idle]")) this.say(note.dataset.idle, note);
    this.onReset?.();
  }

  /** Return the present values of all traits that Reset knows. */
  state() {
    const names = Object.keys(this.model.get("initial"));
    return Object.fromEntries(names.map((name) => [name, this.model.get(name)]));
  }

  /** Add a group of controls under a heading of its own. */
  group(legend, ...controls) {
    const set = html("fieldset", {}, html("legend", {}, legend), ...controls);
    this.controls.append(set);
    return set;
  }

  /**
   * Make a slider; `index` binds one item of a list, `show` writes the value for readers and
   * `speak` for those who hear it.
   */
  range(name, { label, min, max, step = 1, index, show = String, speak = show }) {
    const input = html("input", { type: "range", name, min, max, step });
    const shown = html("span", { class: "gp-value", "aria-hidden": "true" });
    const read = () => {
      const whole = this.model.get(name);
      return index === undefined ? whole : whole[index];
    };
    const update = () => {
      input.value = read();
      shown.textContent = show(read());
      input.setAttribute("aria-valuetext", speak(read()));
    };
    input.addEventListener("input", () => {
      const value = Number(input.value);
      if (index === undefined) this.set(name, value);
      else this.set(name, this.model.get(name).with(index, value));
    });
    return this.#bound(name, update, "gp-range", label, input, shown);
  }

  /** Move a slider whose ends, steps and words depend on more than its own trait. */
  setRange(control, { value, text = value, speak = text, ...ends }) {
    const input = control.querySelector("input");
    Object.assign(input, ends, { value });
    input.setAttribute("aria-valuetext", speak);
    control.querySelector(".gp-value").textContent = text;
  }

  /** Make a choice; `options` are [value, text]. */
  select(name, { label, options }) {
    const input = html("select", {}, ...options.map(([, text]) => html("option", {}, text)));
    const values = options.map(([value]) => value);
    const update = () => (input.selectedIndex = values.indexOf(this.model.get(name)));
    input.addEventListener("change", () => this.set(name, values[input.selectedIndex]));
    return this.#bound(name, update, "gp-select", label, input);
  }

  check(name, { label }) {
    const input = html("input", { type: "checkbox" });
    const update = () => (input.checked = this.model.get(name));
    input.addEventListener("change", () => this.set(name, input.checked));
    return this.#bound(name, update, "gp-check", label, input);
  }

  /**
   * Make a text field; several lines with `rows`. What is beyond `most` of a unit, characters or
   * bytes, is left out, and the line beside the field says how much that was.
   */
  text(name, { label, rows, most, unit = "characters" }) {
    const note = this.note(`up to ${most} ${unit}`);
    note.id = `gp-note-${Math.random()}`; // the page may have the panel twice
    const kind = rows ? { rows } : { type: "text" };
    const more = { "aria-describedby": note.id, "data-most": most, spellcheck: "false" };
    const input = html(rows ? "textarea" : "input", { ...kind, ...more, autocomplete: "off" });
    const fits = unit === "characters" ? most : `${most} ${unit}`;
    let composing = false; // a character of several keys: the field is not to be touched
    const update = () => {
      if (!composing && input.value !== this.model.get(name)) input.value = this.model.get(name);
    };
    const take = ({ isComposing = false }) => {
      composing = isComposing;
      const { kept, cursor, left } = fit(input.value, input.selectionEnd, most, unit);
      const many = left === 1 ? "1 character" : `${count(left)} characters`;
      this.say(left ? `${many} left out, ${fits} fit` : note.dataset.idle, note);
      this.set(name, kept);
      if (!left || composing) return;
      input.value = kept;
      input.setSelectionRange(cursor, cursor);
    };
    input.addEventListener("input", take);
    input.addEventListener("compositionend", () => take({}));
    const field = this.#bound(name, update, "gp-field", label, input);
    return html("div", { class: "gp-noted" }, field, note);
  }

  /** Make a line that says what a control did, aloud when that changes; Reset empties it. */
  note(idle = "") {
    return html("p", { class: "gp-caption gp-note", role: "status", "data-idle": idle }, idle);
  }

  button(label, onclick) {
    return html("button", { type: "button", onclick }, label);
  }

  #bound(name, update, kind, label, input, ...more) {
    this.on(`change:${name}`, update);
    update();
    return html("label", { class: `gp-control ${kind}` }, html("span", {}, label), input, ...more);
  }

  /** Add a picture of fixed height; it is as wide as its place, and `draw` fills it. */
  picture(label, height) {
    const node = svg("svg", { role: "img", "aria-label": label, height, width: "100%" });
    this.stage.append(node);
    this.pictures.push(node);
    return node;
  }

  /** Say in one sentence what the picture shows, or another line of the panel. */
  say(text, line = this.readout) {
    if (line.textContent !== text) line.textContent = text;
  }

  setTable(caption, head, rows) {
    this.table.replaceChildren(...tableParts(caption, head, rows));
  }

  /** Draw now and after every change of the state, which `draw` gets, or of the width. */
  start(draw) {
    const now = () => {
      for (const node of this.pictures) {
        const width = Math.max(node.clientWidth, 240);
        node.setAttribute("viewBox", `0 0 ${width} ${node.getAttribute("height")}`);
        node.replaceChildren();
      }
      draw(this.state());
    };
    this.redraw = () => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(now);
    };
    for (const name of Object.keys(this.state())) this.on(`change:${name}`, this.redraw);
    let width = this.stage.clientWidth;
    const watcher = new ResizeObserver(() => {
      if (this.stage.clientWidth !== width) this.redraw();
      width = this.stage.clientWidth;
    });
    watcher.observe(this.stage);
    this.offs.push(() => watcher.disconnect());
    now();
    return this.dispose;
  }
}

export { COLOURS, PanelView, bars, chart, count, fixed, html, memory, svg, ticks };
