// Gradients at depth: a real net of 16 numbers, run forward and back at every move of a slider.

import { ACTIVATIONS } from "./activations.js";
import { COLOURS, PanelView, chart, fixed } from "./kit.js";

const WIDTH = 16;
const BATCH = 8;
const EPSILON = 1e-5;
const WARM_UP = 8; // numbers thrown away: those of neighbouring seeds begin alike
const LOWEST = 1e-13;
const HIGHEST = 1e7;

const zip = (rows, others, f) => rows.map((row, b) => row.map((v, i) => f(v, others[b][i])));
const total = (row) => row.reduce((sum, v) => sum + v, 0);
const typical = (rows) => Math.hypot(...rows.flat()) / Math.sqrt(BATCH * WIDTH);

/** Return a function that draws matrices (rows, columns), uniform in ±size; as in depth.py. */
function drawing(seed) {
  let state = (2654435761 * seed + 12345) % 2 ** 32;
  const next = () => (state = (1664525 * state + 1013904223) % 2 ** 32); // products below 2^53
  for (let i = 0; i < WARM_UP; i++) next();
  return (rows, columns, size) =>
    Array.from({ length: rows }, () =>
      Array.from({ length: columns }, () => size * ((2 * next()) / 2 ** 32 - 1)),
    );
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** Multiply (n, k) by the transpose of (m, k). */
const timesTransposed = (a, b) => a.map((row) => b.map((other) => dot(row, other)));

const transposed = (a) => a[0].map((_, i) => a.map((row) => row[i]));

/** Normalise each row; return the rows and what the way back needs, 1 / their spread. */
function normalise(x) {
  const centred = x.map((row) => {
    const mean = total(row) / WIDTH;
    return row.map((v) => v - mean);
  });
  const rates = centred.map((row) => 1 / Math.sqrt(dot(row, row) / WIDTH + EPSILON));
  return [centred.map((row, b) => row.map((v) => v * rates[b])), rates];
}

/** Return the gradient before the norm, from the one behind it (chapter "Every gradient"). */
function normaliseBack(d, normal, rates) {
  return d.map((row, b) => {
    const mean = total(row) / WIDTH;
    const along = dot(row, normal[b]) / WIDTH;
    return row.map((v, i) => rates[b] * (v - mean - along * normal[b][i]));
  });
}

/** Run the net; return input, output, targets and what each layer has to remember. */
function forward({ depth, activation, residual, norm, seed }) {
  const draw = drawing(seed);
  const input = draw(BATCH, WIDTH, Math.sqrt(3)); // variance near 1
  const targets = draw(BATCH, WIDTH, Math.sqrt(3));
  const layers = [];
  let x = input;
  for (let layer = 0; layer < depth; layer++) {
    const weight = draw(WIDTH, WIDTH, 0.25);
    const [bias] = draw(1, WIDTH, 0.25);
    const [read, rates] = norm ? normalise(x) : [x, undefined];
    const before = timesTransposed(read, weight).map((row) => row.map((v, i) => v + bias[i]));
    const out = before.map((row) => row.map(ACTIVATIONS[activation].value));
    x = residual ? zip(x, out, (a, b) => a + b) : out;
    layers.push({ weight, read, rates, before });
  }
  return { input, output: x, targets, layers };
}

/** Return the norm of each layer's gradient, weights and bias together: the chain rule. */
function backward({ output, targets, layers }, { activation, residual }) {
  const sizes = [];
  let d = zip(output, targets, (a, b) => (2 * (a - b)) / BATCH);
  for (const { weight, read, rates, before } of layers.toReversed()) {
    const dBefore = zip(d, before, (v, z) => v * ACTIVATIONS[activation].slope(z));
    const columns = transposed(dBefore); // (16, 8)
    const dWeight = timesTransposed(columns, transposed(read)); // (16, 8) × (8, 16)
    const dBias = columns.map(total);
    sizes.unshift(Math.hypot(...dWeight.flat(), ...dBias));
    const dRead = timesTransposed(dBefore, transposed(weight)); // (8, 16) × (16, 16)
    const through = rates ? normaliseBack(dRead, read, rates) : dRead;
    d = residual ? zip(d, through, (a, b) => a + b) : through;
  }
  return sizes;
}

function compute(state) {
  const net = forward(state);
  const sizes = backward(net, state);
  return {
    ...Object.fromEntries(sizes.map((v, i) => [`gradient of layer ${i + 1}`, v])),
    "first over last": sizes[0] / sizes.at(-1),
    "size of the input": typical(net.input),
    "size of the output": typical(net.output),
  };
}

/** Write a number of any size in few characters. */
function brief(value) {
  if (value === 0) return "0";
  if (value >= 0.01 && value < 1000) return fixed(value, value < 10 ? 2 : 0);
  return value.toExponential(1).replace("+", "").replace("-", "−");
}

function verdict(ratio) {
  if (ratio < 1e-3) return "it vanishes";
  if (ratio < 0.1) return "it fades";
  return ratio <= 10 ? "it is level" : "it grows";
}

function drawBars(picture, sizes, colour) {
  const depth = sizes.length;
  const every = Math.ceil(depth / Math.max(1, picture.clientWidth / 40));
  const numbers = sizes.map((_, i) => i + 1);
  const plot = chart(picture, {
    x: [0.4, depth + 0.6],
    y: [LOWEST, HIGHEST],
    log: true,
    xTicks: numbers.filter((n) => (depth - n) % every === 0),
    xLabel: "layer (1 reads the input)",
    yLabel: "gradient norm (log scale)",
    left: 70,
  });
  const wide = Math.min(34, 0.7 * (plot.X(2) - plot.X(1)));
  sizes.forEach((size, i) => {
    if (size > LOWEST) plot.column(i + 1, Math.min(size, HIGHEST), wide, colour);
  });
  const level = [
    [0.4, sizes.at(-1)],
    [depth + 0.6, sizes.at(-1)],
  ];
  plot.line(level, "currentcolor", { "stroke-width": 1, "stroke-dasharray": "4 4" });
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "Gradients at depth" });
  view.group(
    "The net",
    view.range("depth", { label: "layers", min: 1, max: 24 }),
    view.select("activation", {
      label: "activation",
      options: [
        ["gelu_tanh", "GELU"],
        ["relu", "ReLU"],
        ["tanh", "tanh"],
      ],
    }),
    view.range("seed", { label: "seed", min: 0, max: 9 }),
  );
  view.group(
    "Its two devices",
    view.check("residual", { label: "add the input: x + f(x)" }),
    view.check("norm", { label: "LayerNorm before each layer" }),
  );
  const picture = view.picture("The gradient norm of each layer as a column, on a log axis", 250);
  view.readout.style.setProperty("--gp-narrow-lines", 4);
  return view.start((state) => {
    const now = compute(state);
    const sizes = Array.from({ length: state.depth }, (_, i) => now[`gradient of layer ${i + 1}`]);
    const alone = state.norm ? COLOURS.norm : COLOURS.broken;
    drawBars(picture, sizes, state.residual ? COLOURS.residual : alone);
    view.say(
      `Layer 1 gets ${brief(now["first over last"])} times layer ${state.depth}'s gradient ` +
        `(dashed): ${verdict(now["first over last"])} on its way back. Numbers of size ` +
        `${brief(now["size of the input"])} came in, numbers of size ` +
        `${brief(now["size of the output"])} came out.`,
    );
    view.setTable(
      "Gradient norm of each layer",
      ["layer", "gradient norm", `share of layer ${state.depth}'s`],
      sizes.map((size, i) => [i + 1, brief(size), brief(size / sizes.at(-1))]),
    );
  });
}

export default { render, compute };
