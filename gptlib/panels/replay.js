// A recorded training run: its loss and learning rate, and the text the model wrote on the way.

import { COLOURS, PanelView, chart, count, fixed, html, svg, ticks } from "./kit.js";

const UNIFORM = Math.log(256); // nats per byte of a model that knows nothing
const AXES = { left: 62, xLabel: "steps" }; // room for rates such as 0.0015
const HIGHEST = 1e300; // of the axis: room above it must be a number too
const ASIDE = 2; // batches taken on each side for the training loss at a step

/** Return the place of the last of some rising steps that is not above `most`. */
function lastUpTo(steps, most) {
  return steps.findLastIndex((step) => step <= most);
}

/** Return the run's row at a place of the slider, and what was recorded last before it. */
function recorded({ row, history }) {
  const { history: curve, validation, samples } = history;
  const at = Math.min(row, curve.step.length - 1);
  const steps = curve.step[at] + 1; // done, the row's own included
  const look = lastUpTo(validation.step, steps);
  const sample =
    samples[
      lastUpTo(
        samples.map(({ step }) => step),
        steps,
      )
    ];
  return { at, steps, look, sample };
}

/**
 * Return the training loss where the model had done `steps`: the mean of the recorded batch nearest
 * to that and of as many before as after it.
 */
function trainedAt({ step, loss }, steps) {
  const apart = step.map((at) => Math.abs(at - steps)); // a batch meets the model of `at` steps
  const near = apart.indexOf(Math.min(...apart));
  const aside = Math.min(ASIDE, near, step.length - 1 - near);
  const around = loss.slice(near - aside, near + aside + 1);
  return { mean: around.reduce((sum, v) => sum + v / around.length, 0), many: around.length };
}

function compute(state) {
  const { history: curve, validation } = state.history;
  const { at, steps, look, sample } = recorded(state);
  const trained = trainedAt(curve, validation.step[look]);
  return {
    steps,
    tokens: curve.tokens[at],
    loss: curve.loss[at],
    choices: Math.exp(curve.loss[at]),
    "learning rate": curve.learning_rate[at],
    "validation loss": validation.loss[look],
    "steps before it": validation.step[look],
    "training loss then": trained.mean,
    "batches in it": trained.many,
    "steps before the sample": sample.step,
  };
}

/** Return the axis of steps: where a step goes, and the ticks; 1 is the first. */
function stepAxis(last, log, width) {
  if (!log) return { place: (step) => step, x: [0, last] };
  const place = (step) => Math.log10(Math.max(step, 1));
  const powers = Array.from({ length: Math.floor(place(last)) + 1 }, (_, n) => 10 ** n);
  const shown = width < 300 && powers.length > 4 ? powers.filter((_, n) => n % 2 === 0) : powers;
  return { place, x: [0, place(last)], xTicks: shown.map((step) => [place(step), count(step)]) };
}

function drawMarker(plot, x, [low, high]) {
  plot.line(
    [
      [x, low],
      [x, high],
    ],
    COLOURS.broken,
    { "stroke-width": 1.5 },
  );
}

/** Name both losses above them, each behind a piece of its curve. */
function drawNames(picture) {
  const y = 8;
  const word = (x, text) => svg("text", { x, y: y + 4 }, text);
  const stroke = COLOURS.head;
  picture.append(
    svg("path", { d: `M${AXES.left} ${y}h18`, stroke, "stroke-width": 2 }),
    word(AXES.left + 23, "training batch"),
    svg("circle", { cx: AXES.left + 122, cy: y, r: 3, fill: COLOURS.attention }),
    word(AXES.left + 130, "validation"),
  );
}

function drawLoss(picture, state, now, axis) {
  const { history: curve, validation } = state.history;
  const { place, ...x } = axis;
  const final = validation.loss.at(-1);
  const low = Math.min(final, ...curve.loss);
  const high = Math.min(Math.max(UNIFORM, ...curve.loss, ...validation.loss), HIGHEST);
  const y = [low - 0.14 * (high - low), high + 0.05 * (high - low)];
  const plot = chart(picture, {
    ...x,
    y,
    yTicks: ticks(...y, 7),
    ...AXES,
    top: 22,
    yLabel: "loss (nats per byte)",
  });
  for (const level of [UNIFORM, final]) {
    const across = [
      [axis.x[0], level],
      [axis.x[1], level],
    ];
    plot.line(across, COLOURS.norm, { "stroke-dasharray": "6 4", "stroke-width": 1.5 });
  }
  plot.line(
    curve.step.map((step, i) => [place(step + 1), curve.loss[i]]),
    COLOURS.head,
  );
  // Dots without a line between them: nothing was measured there.
  validation.step.forEach((step, i) =>
    plot.dot(place(step), validation.loss[i], COLOURS.attention, 3),
  );
  plot.dot(place(now["steps before it"]), now["validation loss"], COLOURS.attention);
  drawMarker(plot, place(now.steps), y);
  const end = { "text-anchor": "end" };
  plot.text(axis.x[1], UNIFORM - (y[1] - y[0]) * 0.07, "ln 256: all bytes alike", end);
  plot.text(
    axis.x[0] + (axis.x[1] - axis.x[0]) * 0.02,
    final - (y[1] - y[0]) * 0.07,
    "final validation loss",
  );
  plot.dot(place(now.steps), now.loss, COLOURS.broken);
  drawNames(picture);
}

function drawRate(picture, state, now, axis) {
  const { history: curve } = state.history;
  const { place, ...x } = axis;
  const y = [0, 1.1 * Math.max(...curve.learning_rate)];
  const yTicks = [0, y[1] / 2.2, y[1] / 1.1].map((rate) => [rate, short(rate)]);
  const plot = chart(picture, { ...x, y, yTicks, ...AXES, yLabel: "rate" });
  plot.line(
    curve.step.map((step, i) => [place(step + 1), curve.learning_rate[i]]),
    COLOURS.residual,
  );
  drawMarker(plot, place(now.steps), y);
  plot.dot(place(now.steps), now["learning rate"], COLOURS.broken);
}

/** Show what cannot be printed as a dot, as chapter "Training" does. */
function printable(text) {
  return text.replace(/[^\P{C}\n]/gu, "·");
}

const many = (steps) => `${count(steps)} ${steps === 1 ? "step" : "steps"}`;
const few = (n) => (n < 1e6 ? fixed(n, 1) : n.toExponential(1).replace("+", ""));
const short = (rate) => String(Number(rate.toPrecision(3)));

/** Return the row on which the slider comes to a number of steps. */
function rowOf({ step }, steps) {
  const row = step.findIndex((at) => at + 1 >= steps);
  return row < 0 ? step.length - 1 : row;
}

/** Say what the last validation was, beside the training of the same step and no other. */
function compared(now) {
  const batches = now["batches in it"];
  const how = batches === 1 ? "one batch" : `mean of ${batches} recorded batches`;
  return (
    `Validation, last after ${many(now["steps before it"])}: ${fixed(now["validation loss"])}; ` +
    `training then: ${fixed(now["training loss then"])} (${how}).`
  );
}

const HEAD = ["steps", "batch", "rate", "validated at", "validation", "training then"];

/** Return the numbers where each jump leads, then those of the present moment. */
function tableRows(state, now) {
  const row = (name, of) => [
    name,
    fixed(of.loss),
    short(of["learning rate"]),
    count(of["steps before it"]),
    fixed(of["validation loss"]),
    fixed(of["training loss then"]),
  ];
  const rows = state.history.samples.map(({ step }) => {
    const there = compute({ ...state, row: rowOf(state.history.history, step) });
    return row(count(there.steps), there);
  });
  return [...rows, row(`now: ${count(now.steps)}`, now)];
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "A training run, replayed" });
  const show = (row) => {
    const { step } = model.get("history").history;
    return count(step[Math.min(row, step.length - 1)] + 1);
  };
  const jump = (steps) => view.set("row", rowOf(model.get("history").history, steps));
  const slider = view.range("row", { label: "steps", min: 0, max: 1, show });
  const buttons = html("div", { class: "gp-buttons" });
  const fit = () => {
    const { history: curve, samples } = model.get("history");
    const input = slider.querySelector("input");
    input.max = curve.step.length - 1;
    input.value = model.get("row");
    buttons.replaceChildren(
      ...samples.map(({ step }) => view.button(count(step), () => jump(step))),
    );
  };
  view.on("change:history", fit);
  fit();
  view.group("The moment", slider, view.check("log_steps", { label: "log scale of the steps" }));
  view.group("Jump to a text, written after so many steps", buttons);
  const pictures = html("div", { style: "min-width: 0" });
  const caption = html("p", { class: "gp-caption" });
  const region = { role: "region", "aria-label": "Text of the model", tabindex: 0 };
  const text = html("div", { class: "gp-sample gp-spoken", ...region });
  view.stage.append(pictures, html("div", { style: "min-width: 0" }, caption, text));
  const loss = view.picture("The loss of each batch and of the validation text by steps", 220);
  const rate = view.picture("The learning rate by steps", 120);
  pictures.append(loss, rate);
  view.readout.style.setProperty("--gp-wide-lines", 3);
  view.readout.style.setProperty("--gp-narrow-lines", 6);
  return view.start((state) => {
    const now = compute(state);
    const { sample } = recorded(state);
    const last = state.history.history.step.at(-1) + 1;
    const axis = stepAxis(last, state.log_steps, loss.viewBox.baseVal.width);
    drawLoss(loss, state, now, axis);
    drawRate(rate, state, now, axis);
    caption.textContent = `Written after ${many(sample.step)}`;
    text.textContent = printable(sample.text);
    view.say(
      `After ${many(now.steps)} and ${count(now.tokens)} bytes the batch costs ` +
        `${fixed(now.loss)} nats per byte, like a choice among ${few(now.choices)} bytes. ` +
        `${compared(now)} Rate ${short(now["learning rate"])}.`,
    );
    view.setTable(
      `The run where the jumps lead and now; steps on a ${state.log_steps ? "log" : "linear"} scale`,
      HEAD,
      tableRows(state, now),
    );
  });
}

export default { render, compute };
