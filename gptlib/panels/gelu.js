// GELU and ReLU: both curves and slopes at a point, and the signal that twelve inputs still get.

import { ACTIVATIONS } from "./activations.js";
import { COLOURS, PanelView, chart, fixed, svg } from "./kit.js";

// As in gelu.py.
const INPUTS = [-1.64, -1.61, -0.65, -0.62, -0.17, -0.01, 0.15, 0.24, 0.24, 0.66, 1.58, 1.66];
const LEARNS = 1e-3;

const FAINTEST = 1e-6; // where the axis of the twelve begins
const ENLARGED = 1000; // how much the gap between the two forms is

// Where the curves are drawn: densely, and on both sides of ReLU's step.
const GRID = [...Array.from({ length: 181 }, (_, i) => i / 20 - 5), 1e-9].toSorted((a, b) => a - b);

const { relu } = ACTIVATIONS;
const gap = (x) => ACTIVATIONS.gelu_tanh.value(x) - ACTIVATIONS.gelu.value(x);
const learns = (slope) => Math.abs(slope) >= LEARNS;

function compute({ x, form, bias }) {
  const gelu = ACTIVATIONS[form];
  const slopes = INPUTS.map((z) => gelu.slope(z + bias));
  return {
    GELU: gelu.value(x),
    "slope of GELU": gelu.slope(x),
    ReLU: relu.value(x),
    "slope of ReLU": relu.slope(x),
    "tanh form minus erf form": gap(x),
    ...Object.fromEntries(slopes.map((v, i) => [`slope of GELU at input ${i + 1}`, v])),
    "inputs that learn with GELU": slopes.filter(learns).length,
    "inputs that learn with ReLU": INPUTS.filter((z) => learns(relu.slope(z + bias))).length,
  };
}

/** Name the colours in a row above a picture. */
function legend(picture, items) {
  let left = 60;
  for (const [name, colour] of items) {
    picture.append(
      svg("rect", { x: left, y: 2, width: 12, height: 9, fill: colour }),
      svg("text", { x: left + 16, y: 11 }, name),
    );
    left += 30 + 6.5 * name.length;
  }
}

/** Draw one of the two functions of each curve, "value" or "slope", and the point at x. */
function drawCurves(picture, { x, form, y, which, yLabel }) {
  const plot = chart(picture, {
    x: [-5, 4],
    y,
    xTicks: [-4, -2, 0, 2, 4],
    xLabel: "input x",
    yLabel,
    top: 20,
  });
  const curves = [
    [ACTIVATIONS[form][which], COLOURS.feedForward],
    [relu[which], COLOURS.residual],
  ];
  const faint = { "stroke-width": 1, opacity: 0.6 };
  const level = [
    [-5, 0],
    [4, 0],
  ];
  const upright = y.map((v) => [x, v]);
  plot.line(level, "currentcolor", faint);
  plot.line(upright, "currentcolor", { ...faint, "stroke-dasharray": "4 4" });
  for (const [f, colour] of curves.toReversed()) {
    const points = GRID.map((v) => [v, f(v)]);
    plot.line(points, colour);
    plot.dot(x, f(x), colour);
  }
  return plot;
}

/** Draw how much signal each input gets, on a log axis where 0 has no column. */
function drawInputs(picture, { bias, form }) {
  const inputs = INPUTS.map((z) => z + bias);
  const roomy = picture.clientWidth > 480;
  const plot = chart(picture, {
    x: [0.3, INPUTS.length + 0.7],
    y: [FAINTEST, 3],
    log: true,
    xTicks: inputs.map((v, i) => [i + 1, fixed(v, 1)]).filter((_, i) => roomy || i % 2 === 0),
    xLabel: "the twelve inputs, bias included",
    yLabel: "size of slope (log)",
    top: 20,
  });
  const wide = 0.32 * (plot.X(2) - plot.X(1));
  inputs.forEach((v, i) => {
    [
      [relu, COLOURS.residual, -0.18],
      [ACTIVATIONS[form], COLOURS.feedForward, 0.18],
    ].forEach(([curve, colour, aside]) => {
      const size = Math.abs(curve.slope(v));
      if (size > FAINTEST) plot.column(i + 1 + aside, size, wide, colour);
    });
  });
  const limit = [
    [0.3, LEARNS],
    [INPUTS.length + 0.7, LEARNS],
  ];
  plot.line(limit, COLOURS.broken, { "stroke-width": 1.5, "stroke-dasharray": "5 4" });
}

function verdict(withGelu, withRelu) {
  if (withGelu === 0) return "both are deaf";
  if (withRelu === 0) return "ReLU is deaf";
  return withRelu === INPUTS.length ? "both hear all" : "ReLU is partly deaf";
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "GELU and ReLU" });
  view.group(
    "The curves at one point",
    view.range("x", { label: "x", min: -5, max: 4, step: 0.05, show: (v) => fixed(v, 2) }),
    view.select("form", {
      label: "form of GELU",
      options: [
        ["gelu_tanh", "tanh (GPT-2)"],
        ["gelu", "erf"],
      ],
    }),
    view.check("gap", { label: "show tanh − erf, 1,000 times enlarged" }),
  );
  view.group(
    "Twelve inputs of a unit",
    view.range("bias", { label: "bias", min: -6, max: 3, step: 0.1, show: (v) => fixed(v, 1) }),
  );
  const curve = view.picture("GELU and ReLU, with a point on each", 210);
  const slope = view.picture("Their slopes, with the same points", 210);
  const twelve = view.picture("For each of twelve inputs, the size of the slope of both", 210);
  twelve.style.gridColumn = "1 / -1";
  const names = [
    ["GELU", COLOURS.feedForward],
    ["ReLU", COLOURS.residual],
  ];
  view.readout.style.setProperty("--gp-narrow-lines", 4);
  return view.start((state) => {
    const now = compute(state);
    const { x, form, bias } = state;
    const value = { x, form, y: [-0.6, 4], which: "value", yLabel: "output" };
    const plot = drawCurves(curve, value);
    if (state.gap) {
      plot.line(
        GRID.map((v) => [v, ENLARGED * gap(v)]),
        COLOURS.head,
      );
      plot.dot(x, ENLARGED * gap(x), COLOURS.head);
    }
    drawCurves(slope, { x, form, y: [-0.3, 1.3], which: "slope", yLabel: "slope" });
    drawInputs(twelve, state);
    legend(curve, state.gap ? [...names, ["gap × 1,000", COLOURS.head]] : names);
    legend(slope, names);
    legend(twelve, [...names, ["limit of learning", COLOURS.broken]]);
    const [withGelu, withRelu] = ["GELU", "ReLU"].map((n) => now[`inputs that learn with ${n}`]);
    view.say(
      `At x = ${fixed(x, 2)} GELU gives ${fixed(now.GELU, 3)} with slope ` +
        `${fixed(now["slope of GELU"], 3)}, ReLU ${fixed(now.ReLU, 3)} with slope ` +
        `${now["slope of ReLU"]}. Of 12 inputs ${withGelu} still learn with GELU and ` +
        `${withRelu} with ReLU: ${verdict(withGelu, withRelu)}.`,
    );
    view.setTable(
      state.gap
        ? `Slopes; tanh form minus erf form at x: ${fixed(now["tanh form minus erf form"], 6)}`
        : "Slopes",
      ["input", "slope of GELU", "slope of ReLU"],
      INPUTS.map((z, i) => [
        fixed(z + bias, 2),
        fixed(now[`slope of GELU at input ${i + 1}`], 6),
        relu.slope(z + bias),
      ]),
    );
  });
}

export default { render, compute };
