// The ledger: a machine's parameters by component, its bytes by type, its caches by length.

import { COLOURS, PanelView, bars, chart, count, fixed, html, memory } from "./kit.js";

const DTYPES = [
  ["fp32", "float32"],
  ["bf16", "bfloat16"],
  ["int8", "int8"],
  ["int4", "int4"],
];
const GROUP = 128; // weights that share one scale in int4
const SCALE_BYTES = 2; // fp16

const PARTS = [
  ["token table", COLOURS.embed],
  ["position table", COLOURS.embed],
  ["attention", COLOURS.attention],
  ["feed-forward", COLOURS.feedForward],
  ["norms", COLOURS.norm],
  ["head", COLOURS.head],
];

/** Return the matrices as [copies, outputs, inputs]; a table's rows are its outputs. */
function matrices({ vocab_size, emb_dim: C, n_layers: L, tie_weights }) {
  const square = [L, C, C]; // of query, key, value and output
  const blocks = [square, square, square, square, [L, 4 * C, C], [L, C, 4 * C]];
  const table = [1, vocab_size, C];
  return tie_weights ? [table, ...blocks] : [table, ...blocks, table];
}

function parameters({ vocab_size, context_length, emb_dim: C, n_layers: L, ...switches }) {
  const biases = switches.qkv_bias ? 4 * C : C;
  const owned = {
    "token table": vocab_size * C,
    "position table": context_length * C,
    attention: L * (4 * C * C + biases),
    "feed-forward": L * (8 * C * C + 5 * C),
    norms: (2 * L + 1) * 2 * C,
    head: switches.tie_weights ? 0 : vocab_size * C,
  };
  return { ...owned, total: Object.values(owned).reduce((sum, n) => sum + n, 0) };
}

/** Return all weights' bytes; below 16 bits matrices have scales and the rest keeps 16 bits. */
function bytes(state, total, dtype) {
  if (dtype === "fp32") return 4 * total;
  if (dtype === "bf16") return 2 * total;
  let [stored, plain] = [0, total];
  for (const [copies, outputs, inputs] of matrices(state)) {
    const weights = copies * outputs * inputs;
    const scales = copies * outputs * (dtype === "int4" ? Math.ceil(inputs / GROUP) : 1);
    stored += (dtype === "int4" ? Math.ceil(weights / 2) : weights) + SCALE_BYTES * scales;
    plain -= weights;
  }
  return stored + 2 * plain;
}

function compute(state) {
  const owned = parameters(state);
  const weights = Object.fromEntries(
    DTYPES.map(([dtype]) => [`weights in ${dtype}`, bytes(state, owned.total, dtype)]),
  );
  const wide = state.dtype === "fp32" ? 4 : 2;
  const cached = 2 * state.n_layers * state.emb_dim * wide * state.texts; // one more token
  const caches = Object.fromEntries(
    [1, 2, 3, 4].map((n) => [
      `caches at ${n}/4 of the window`,
      cached * Math.floor((n * state.context_length) / 4),
    ]),
  );
  const from = Math.floor(weights[`weights in ${state.dtype}`] / cached) + 1;
  return { ...owned, ...weights, ...caches, "length from which caches outweigh weights": from };
}

const percent = (part, whole) => `${fixed((100 * part) / whole, 1)}\u00a0%`;

/** Make the choice of a named machine: it sets the sliders, and shows which name they match. */
function presets(view) {
  const all = Object.entries(view.model.get("presets"));
  const names = Object.keys(all[0][1]);
  const custom = html("option", { disabled: true }, "custom");
  const options = all.map(([name]) => html("option", {}, name));
  const choice = html("select", {}, custom, ...options);
  const match = (sizes) => names.every((name) => view.model.get(name) === sizes[name]);
  const update = () => (choice.selectedIndex = 1 + all.findIndex(([, sizes]) => match(sizes)));
  choice.addEventListener("change", () => {
    for (const [name, value] of Object.entries(all[choice.selectedIndex - 1][1]))
      view.model.set(name, value);
    view.model.save_changes();
  });
  names.forEach((name) => view.on(`change:${name}`, update));
  update();
  return html("label", { class: "gp-control" }, html("span", {}, "machine"), choice);
}

function drawCaches(picture, state, now) {
  const weights = now[`weights in ${state.dtype}`];
  const full = now["caches at 4/4 of the window"];
  const from = now["length from which caches outweigh weights"];
  const [unit, name] = Math.max(weights, full) < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  const N = state.context_length;
  const xTicks = [0, 1, 2, 3, 4].map((n) => Math.floor((n * N) / 4)).map((v) => [v, count(v)]);
  const top = (1.15 * Math.max(weights, full)) / unit;
  const box = { x: [0, N], y: [0, top], xTicks };
  const plot = chart(picture, { ...box, xLabel: "length (tokens)", yLabel: `memory (${name})` });
  const level = weights / unit;
  const across = [
    [0, level],
    [N, level],
  ];
  plot.line(across, COLOURS.residual, { "stroke-dasharray": "6 4" });
  plot.line(
    [
      [0, 0],
      [N, full / unit],
    ],
    COLOURS.attention,
  );
  // Each name where the other line is far: the caches' line rises from the lower left corner.
  const [side, anchor] = level > top / 3 ? [0.02, "start"] : [0.98, "end"];
  plot.text(N * side, level + top * 0.045, "all weights", { "text-anchor": anchor });
  const end = full / unit;
  const below = Math.abs(level - 0.6 * end) < top * 0.1 ? 0.3 * end : 0.6 * end;
  const height = end < top / 3 ? end + top * 0.05 : below;
  const many = `${state.texts} ${state.texts === 1 ? "cache" : "caches"}`;
  plot.text(N * 0.98, height, many, { "text-anchor": "end" });
  if (from <= N) plot.dot(from, level, COLOURS.broken);
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "The ledger of a GPT" });
  view.group(
    "The machine",
    presets(view),
    // From 256 bytes in steps that meet GPT-2's 50,257.
    view.range("vocab_size", {
      label: "vocabulary",
      min: 256,
      max: 131211,
      step: 2381,
      show: count,
    }),
    view.range("context_length", { label: "window", min: 128, max: 8192, step: 128, show: count }),
    view.range("emb_dim", { label: "width", min: 64, max: 4096, step: 64, show: count }),
    view.range("n_layers", { label: "layers", min: 1, max: 96 }),
  );
  view.group(
    "Its switches, and how it is used",
    view.check("tie_weights", { label: "the head shares the token table" }),
    view.check("qkv_bias", { label: "biases on query, key and value" }),
    view.select("dtype", { label: "weights in", options: DTYPES }),
    view.range("texts", { label: "texts at once", min: 1, max: 64 }),
  );
  view.readout.style.setProperty("--gp-narrow-lines", 4);
  const owned = html("div");
  const stored = html("div");
  const caption = (text) => html("p", { class: "gp-caption" }, text);
  const widths = "--gp-bar-label: 6.6rem; --gp-bar-text: 7rem";
  view.stage.append(
    html("div", { style: `${widths}; grid-column: 1 / -1` }, caption("Parameters"), owned),
    html("div", { style: widths }, caption("Bytes of all weights"), stored),
  );
  const caches = view.picture("Bytes of the caches by length, beside those of the weights", 210);
  return view.start((state) => {
    const now = compute(state);
    const { total } = now;
    const weights = DTYPES.map(([dtype, name]) => [name, now[`weights in ${dtype}`], dtype]);
    const tied = (name) => name === "head" && state.tie_weights;
    owned.replaceChildren(
      bars(
        PARTS.map(([name, colour]) => ({
          label: name,
          share: now[name] / total,
          text: tied(name) ? "tied" : count(now[name]),
          colour,
          off: tied(name),
        })),
      ),
    );
    stored.replaceChildren(
      bars(
        weights.map(([name, n, dtype]) => ({
          label: name,
          share: n / weights[0][1],
          text: memory(n),
          colour: COLOURS.residual,
          off: dtype !== state.dtype,
        })),
      ),
    );
    drawCaches(caches, state, now);
    const held = now[`weights in ${state.dtype}`];
    const from = now["length from which caches outweigh weights"];
    const who =
      state.texts === 1 ? "One text's cache outweighs" : `${state.texts} texts' caches outweigh`;
    view.say(
      `${count(total)} parameters: attention ${percent(now.attention, total)}, feed-forward ` +
        `${percent(now["feed-forward"], total)}. They fill ${memory(held)}, or ` +
        `${count(Number(fixed(held / 2 ** 20, 1)))}\u00a0MiB. ${who} them ` +
        (from <= state.context_length
          ? `from token ${count(from)} on.`
          : "nowhere in this window."),
    );
    const { context_length: N } = state;
    view.setTable(
      "Parameters, then bytes",
      ["what", "number", "share or size"],
      [
        ...PARTS.map(([name]) => [name, count(now[name]), percent(now[name], total)]),
        ["total", count(total), percent(total, total)],
        ...weights.map(([name, n]) => [`bytes in ${name}`, count(n), memory(n)]),
        ...[1, 2, 3, 4].map((n) => {
          const cached = now[`caches at ${n}/4 of the window`];
          const place = count(Math.floor((n * N) / 4));
          return [`bytes of the caches at token ${place}`, count(cached), memory(cached)];
        }),
      ],
    );
  });
}

export default { render, compute };
