// The machine as seventeen stages: what each does to the tensor's shape, and what it owns.

import { COLOURS, PanelView, count, html, svg } from "./kit.js";

const LAST = 17;
const SPLIT = 4; // place in the list of the stage that splits the width among the heads
const ROW = 22; // pixels
const WIDTHS = [64, 1600]; // the narrowest and the widest machine

/** Return the stages in order; a part inside a block stands aside of the stream. */
function stagesOf({ vocab_size: V, emb_dim: C, n_heads: H, batch: B, length: T, rest }) {
  const { context_length: N, n_layers: L } = rest; // as in GPTConfig()
  const D = C / H;
  const stream = [B, T, C];
  const [qkv, join] = [3 * C * C, C * C + C];
  const [widen, narrow] = [C * 4 * C + 4 * C, 4 * C * C + C];
  const block = qkv + join + widen + narrow + 4 * C;
  const { embed, norm, attention, feedForward, residual, head } = COLOURS;
  const three = `queries, keys, values for ${H} heads of ${D}`;
  const add = "what the part wrote is added to what was there";
  const level = "each token's numbers get mean 0 and variance 1";
  return [
    ["token table", embed, stream, V * C, `each id picks a row of ${C} numbers`],
    ["position table", embed, stream, N * C, "each position adds a row of its own"],
    ["dropout", residual, stream, 0, "off, except while training"],
    ["LayerNorm", norm, stream, 2 * C, level, true],
    ["Q, K, V in heads", attention, [3, B, H, T, D], qkv, three, true],
    ["scores, softmax", attention, [B, H, T, T], 0, "in each head, each token by each", true],
    ["weighted values", attention, [B, H, T, D], 0, "each head gathers what it looks at", true],
    ["heads joined", attention, stream, join, "side by side, and mixed once more", true],
    ["add to the stream", residual, stream, 0, add],
    ["LayerNorm", norm, stream, 2 * C, level, true],
    ["widen", feedForward, [B, T, 4 * C], widen, "four times as many numbers", true],
    ["GELU", feedForward, [B, T, 4 * C], 0, "each number is bent by itself", true],
    ["narrow", feedForward, stream, narrow, "back to the width of the stream", true],
    ["add to the stream", residual, stream, 0, add],
    [`${L - 1} more blocks`, residual, stream, (L - 1) * block, "the same again"],
    ["final LayerNorm", norm, stream, 2 * C, level],
    ["head", head, [B, T, V], V * C, "one score for each possible next token"],
  ].map(([name, colour, shape, parameters, does, aside = false]) => {
    const numbers = shape.reduce((product, n) => product * n, 1);
    return { name, colour, shape, parameters, does, aside, numbers };
  });
}

function compute(state) {
  const remainder = state.emb_dim % state.n_heads;
  if (remainder) return { remainder };
  const stages = stagesOf(state);
  const shown = stages.flatMap(({ shape, numbers, parameters }, i) => [
    ...shape.map((n, axis) => [`stage ${i + 1}, axis ${axis + 1}`, n]),
    [`stage ${i + 1}, numbers`, numbers],
    [`stage ${i + 1}, parameters`, parameters],
  ]);
  const all = stages.reduce((sum, { parameters }) => sum + parameters, 0);
  return { remainder, ...Object.fromEntries(shown), "parameters in all": all };
}

/** Return the widths that the heads divide: the first, the last, and the step between two. */
function widthsOf(heads) {
  const [min, max] = [heads * Math.ceil(WIDTHS[0] / heads), heads * Math.floor(WIDTHS[1] / heads)];
  return { min, max, step: heads };
}

/** Return the width nearest to `width` that the heads divide. */
function nearestWidth(width, heads) {
  const { min, max } = widthsOf(heads);
  return Math.max(min, Math.min(heads * Math.round(width / heads), max));
}

const written = (shape) => `(${shape.join(", ")})`;

const MUTED = { class: "gp-tick" };
const MONO = { ...MUTED, style: "font-family: ui-monospace, 'DejaVu Sans Mono', monospace" };
const middle = (row) => 10 + ROW * row;

const put = (picture, x, y, words, more) =>
  picture.append(svg("text", { x, y: y + 4, ...more }, words));

/** Return where the columns stand; a phone has no room for numbers and parameters. */
function columnsOf(width) {
  if (width < 600) return { shapeAt: 168, counts: [] };
  const counts = [
    { title: "numbers", textEnd: 0.56 * width, barEnd: 0.72 * width },
    { title: "parameters", textEnd: 0.86 * width, barEnd: width },
  ];
  return { shapeAt: 186, counts };
}

/** Draw the names of the columns, the ids that go in, and the stream that stages hang on. */
function drawFrame(picture, { shapeAt, counts }, ids) {
  put(picture, 24, middle(0), "stage", MUTED);
  put(picture, shapeAt, middle(0), "shape behind it", MUTED);
  for (const { title, textEnd } of counts)
    put(picture, textEnd, middle(0), title, { ...MUTED, "text-anchor": "end" });
  put(picture, 24, middle(1), "token ids");
  put(picture, shapeAt, middle(1), written(ids), MONO);
  const d = `M8 ${middle(3)}V${middle(17)}`; // from the position table to the final LayerNorm
  picture.append(svg("path", { d, stroke: COLOURS.residual, "stroke-width": 5 }));
}

/** Draw one stage's line: its colour, its name, and what stands in its place for a shape. */
function drawStage(picture, { name, colour, aside }, { y, present, shapeAt, beside }) {
  const x = aside ? 20 : 4;
  if (present) {
    const box = { x: 1, y: y - 10, width: picture.viewBox.baseVal.width - 2, height: 20, rx: 4 };
    picture.append(svg("rect", { ...box, fill: "none", stroke: "currentcolor" }));
  }
  picture.append(svg("rect", { x, y: y - 6, width: 8, height: 12, rx: 2, fill: colour }));
  put(picture, aside ? 34 : 24, y, name, present ? { "font-weight": 700 } : {});
  put(picture, shapeAt, y, beside, MONO);
}

/** Write a count and, to its right, draw it as a bar beside the largest one. */
function drawCount(picture, value, most, { y, textEnd, barEnd, colour }) {
  const width = ((barEnd - textEnd - 6) * value) / most;
  put(picture, textEnd, y, count(value), { ...MUTED, "text-anchor": "end" });
  picture.append(svg("rect", { x: textEnd + 6, y: y - 5, width, height: 10, fill: colour }));
}

/** Make a stage's line a place to click on. */
function drawHit(picture, y, onclick) {
  const { width } = picture.viewBox.baseVal;
  const place = { x: 0, y: y - ROW / 2, width, height: ROW, rx: 4 };
  picture.append(svg("rect", { ...place, class: "gp-hit", onclick }));
}

/** Draw the list of stages; `trouble` says why the heads do not get their share of the width. */
function drawStages(picture, stages, { at, ids, trouble, choose }) {
  const columns = columnsOf(picture.viewBox.baseVal.width);
  drawFrame(picture, columns, ids);
  stages.forEach((stage, i) => {
    const breaks = trouble && i === SPLIT;
    const colour = breaks ? COLOURS.broken : stage.colour;
    const shape = trouble && i > SPLIT ? "–" : written(stage.shape);
    const place = { y: middle(i + 2), present: i + 1 === at, shapeAt: columns.shapeAt };
    drawStage(picture, { ...stage, colour }, { ...place, beside: breaks ? trouble : shape });
    for (const { title, ...ends } of trouble ? [] : columns.counts) {
      const most = Math.max(...stages.map((each) => each[title]));
      drawCount(picture, stage[title], most, { y: place.y, colour, ...ends });
    }
    drawHit(picture, place.y, () => choose(i + 1));
  });
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "The machine by stages" });
  const go = (by) => view.set("stage", ((model.get("stage") - 1 + by + LAST) % LAST) + 1);
  const walk = view.range("stage", { label: "stage", min: 1, max: LAST });
  view.group(
    "The walk",
    walk,
    html(
      "div",
      { class: "gp-buttons" },
      view.button("Previous stage", () => go(-1)),
      view.button("Next stage", () => go(1)),
    ),
    view.range("batch", { label: "batch B", min: 1, max: 8 }),
    view.range("length", { label: "length T", min: 1, max: view.model.get("rest").context_length }),
  );
  const vocabulary = { label: "vocab V", min: 257, max: 100_257, step: 1000, show: count };
  const wide = view.range("emb_dim", { label: "width C", ...widthsOf(model.get("n_heads")) });
  const heads = view.range("n_heads", { label: "heads H", min: 1, max: 25 });
  const note = view.note();
  note.style.minHeight = "2.6em"; // two lines
  let moved = ""; // why the width is another one, until the reader sets it
  wide.addEventListener("input", () => (moved = ""));
  heads.addEventListener("input", () => {
    const [C, H] = [model.get("emb_dim"), model.get("n_heads")];
    moved = C % H ? `${H} heads do not divide ${C} (remainder ${C % H}), so the width moved: ` : "";
    if (C % H) view.set("emb_dim", nearestWidth(C, H));
  });
  view.onReset = () => (moved = "");
  view.group("The machine", view.range("vocab_size", vocabulary), wide, heads, note);
  const picture = view.picture("The stages from ids to logits, each with its shape", ROW * 19);
  view.readout.style.setProperty("--gp-narrow-lines", 5);
  return view.start((state) => {
    const { stage, emb_dim: C, n_heads: H } = state;
    const { remainder } = compute(state);
    view.setRange(wide, { ...widthsOf(H), value: C });
    const stages = stagesOf(state);
    const ids = [state.batch, state.length];
    const trouble = remainder ? `${C} / ${H}: remainder ${remainder}` : "";
    const choose = (place) => view.set("stage", place);
    drawStages(picture, stages, { at: stage, ids, trouble, choose });
    const speak = `${stage} of ${LAST}, ${stages[stage - 1].name}`;
    view.setRange(walk, { value: stage, speak });
    view.say(remainder ? "" : `${moved}${C} = ${H} × ${C / H}.`, note);
    if (remainder) {
      view.say(
        `No machine, so no stage ${stage}. GPTConfig says: n_heads must divide emb_dim, got ` +
          `n_heads=${H} and emb_dim=${C} (remainder ${remainder}).`,
      );
      view.setTable("No machine", ["width", "heads", "remainder"], [[C, H, remainder]]);
      return;
    }
    const { name, shape, does, parameters, numbers } = stages[stage - 1];
    const before = stage > 1 ? stages[stage - 2].shape : ids;
    view.say(
      `Stage ${stage} of ${LAST}, ${name}: ${written(before)} becomes ${written(shape)}, ` +
        `${does}. ${count(parameters)} parameters, ${count(numbers)} numbers on their way.`,
    );
    view.setTable(
      "From ids to logits",
      ["stage", "shape", "numbers", "parameters"],
      stages.map((each) => [
        each.name,
        written(each.shape),
        count(each.numbers),
        count(each.parameters),
      ]),
    );
  });
}

export default { render, compute };
