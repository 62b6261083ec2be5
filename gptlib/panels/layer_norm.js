// LayerNorm: five numbers of one token in, five out; and what the other rows of a batch change.

import { COLOURS, PanelView, chart, fixed, svg } from "./kit.js";

const EPSILON = 1e-5;
const SIZE = 5;

// The row's company in a batch: batch norm looks down the columns, layer norm does not.
const NEIGHBOURS = {
  alone: [],
  quiet: [
    [0.2, -0.1, 0.1, 0, -0.2],
    [-0.1, 0.2, 0, -0.2, 0.1],
  ],
  loud: [
    [8, -6, 4, 9, -7],
    [-9, 5, 7, -8, 6],
  ],
};

const mean = (row) => row.reduce((sum, v) => sum + v, 0) / row.length;

function variance(row, divisor) {
  const centre = mean(row);
  return row.reduce((sum, v) => sum + (v - centre) ** 2, 0) / divisor;
}

function compute({ values, scale, shift, unbiased, neighbours }) {
  const spread = variance(values, unbiased ? SIZE - 1 : SIZE);
  const normal = values.map((v) => (v - mean(values)) / Math.sqrt(spread + EPSILON));
  const out = normal.map((v) => scale * v + shift);
  const batch = values.map((v, i) => {
    const column = [v, ...NEIGHBOURS[neighbours].map((row) => row[i])];
    const below = Math.sqrt(variance(column, column.length) + EPSILON);
    return (scale * (v - mean(column))) / below + shift;
  });
  return {
    mean: mean(values),
    variance: spread,
    ...Object.fromEntries(out.map((v, i) => [`output ${i + 1}`, v])),
    "mean of outputs": mean(out),
    "variance of outputs": variance(out, SIZE),
    ...Object.fromEntries(batch.map((v, i) => [`batch norm ${i + 1}`, v])),
  };
}

function drawRow(picture, rows, yLabel) {
  const all = rows.flatMap((row) => row.values);
  const reach = Math.max(2, ...all.map(Math.abs)) * 1.08;
  const box = { x: [0.4, SIZE + 0.6], y: [-reach, reach], xTicks: [1, 2, 3, 4, 5] };
  const plot = chart(picture, { ...box, xLabel: "component", yLabel });
  const wide = Math.min(34, picture.clientWidth / 18);
  rows.forEach(({ values, colour, hatch }, at) => {
    const offset = rows.length === 1 ? 0 : (at - 0.5) * (wide + 4);
    values.forEach((v, i) => {
      const look = { transform: `translate(${offset} 0)`, "fill-opacity": hatch ? 0.45 : 1 };
      plot.column(i + 1, v, wide, colour, look);
    });
  });
  return plot;
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "Layer norm, by hand" });
  const number = (v) => fixed(v, 1);
  view.group(
    "One token's five numbers",
    ...Array.from({ length: SIZE }, (_, index) =>
      view.range("values", {
        label: `x${index + 1}`,
        min: -5,
        max: 5,
        step: 0.1,
        index,
        show: number,
      }),
    ),
  );
  view.group(
    "What the norm does",
    view.range("scale", { label: "scale γ", min: -3, max: 3, step: 0.1, show: number }),
    view.range("shift", { label: "shift β", min: -3, max: 3, step: 0.1, show: number }),
    view.check("unbiased", { label: "divide by n − 1" }),
    view.select("neighbours", {
      label: "in the same batch",
      options: [
        ["alone", "nobody"],
        ["quiet", "two quiet rows"],
        ["loud", "two loud rows"],
      ],
    }),
  );
  const before = view.picture("The five inputs as columns, their mean and spread", 190);
  const after = view.picture("The five outputs of layer norm beside those of batch norm", 190);
  return view.start((state) => {
    const now = compute(state);
    const out = state.values.map((_, i) => now[`output ${i + 1}`]);
    const batch = state.values.map((_, i) => now[`batch norm ${i + 1}`]);
    const inputs = drawRow(before, [{ values: state.values, colour: COLOURS.residual }], "input");
    const spread = Math.sqrt(now.variance);
    const [from, to] = [inputs.X(0.5), inputs.X(SIZE + 0.5)];
    const [high, low] = [inputs.Y(now.mean + spread), inputs.Y(now.mean - spread)];
    before.append(
      svg("rect", {
        x: from,
        y: high,
        width: to - from,
        height: low - high,
        fill: COLOURS.norm,
        opacity: 0.18,
      }),
    );
    inputs.line(
      [
        [0.5, now.mean],
        [SIZE + 0.5, now.mean],
      ],
      COLOURS.norm,
    );
    const both = [
      { values: out, colour: COLOURS.norm },
      { values: batch, colour: COLOURS.residual, hatch: true },
    ];
    drawRow(after, both, "output");
    const alike = out.every((v, i) => Math.abs(v - batch[i]) < 5e-3);
    view.say(
      `Mean ${fixed(now.mean)}, variance ${fixed(now.variance)} before; mean ` +
        `${fixed(now["mean of outputs"])}, variance ${fixed(now["variance of outputs"])} after ` +
        `(green). Batch norm (grey) ${alike ? "agrees here" : "gives something else"}.`,
    );
    view.setTable(
      "Inputs and outputs",
      ["component", "input", "layer norm", "batch norm"],
      state.values.map((v, i) => [`x${i + 1}`, fixed(v, 1), fixed(out[i], 3), fixed(batch[i], 3)]),
    );
  });
}

export default { render, compute };
