// The KV cache: which rows of Q, K and V a step computes, reads again, or computes again.

import { COLOURS, PanelView, count, fixed, html, memory, svg } from "./kit.js";
import { spoken } from "./words.js";

const KINDS = ["rows", "scores", "multiply-adds"];
const WAYS = [
  ["no cache", false],
  ["cache", true],
];

// What is being written; its letters are the tokens.
const TEXT = "To be, or not to";
const MOST_STEPS = 8;

/** Return how many tokens a step has in front of it and how many rows it computes. */
function reach(prompt_length, step, cached) {
  const seen = prompt_length + step - 1;
  return { seen, fresh: cached && step > 1 ? 1 : seen };
}

/** Count one step over all layers; every new query meets every key. */
function work({ L, H, C, V, Q, M }, { seen, fresh }) {
  const attention = 2 * L * fresh * seen * Q;
  return {
    rows: 3 * L * fresh,
    scores: L * H * fresh * seen,
    "multiply-adds": L * fresh * M + attention + fresh * C * V,
  };
}

function compute({ model, prompt_length, new_tokens, step, sizes: all }) {
  const sizes = all[model];
  const present = Math.min(step, new_tokens);
  const found = {};
  for (const [way, cached] of WAYS) {
    const steps = Array.from({ length: present }, (_, i) =>
      work(sizes, reach(prompt_length, i + 1, cached)),
    );
    for (const kind of KINDS) {
      found[`${way}: ${kind} now`] = steps.at(-1)[kind];
      found[`${way}: ${kind} so far`] = steps.reduce((sum, one) => sum + one[kind], 0);
    }
    const held = cached ? prompt_length + present - 1 : 0;
    found[`${way}: bytes held`] = 2 * sizes.L * sizes.K * 4 * held;
  }
  return found;
}

/** Write a large count in words that stay short. */
function short(n) {
  if (n < 1e6) return count(n);
  return n < 1e9 ? `${fixed(n / 1e6, 1)} million` : `${fixed(n / 1e9, 2)} billion`;
}

const tokens = (n) => `${n} ${n === 1 ? "token" : "tokens"}`;

const LOOKS = {
  fresh: { fill: COLOURS.attention },
  again: { fill: COLOURS.broken },
  kept: { fill: "none", stroke: COLOURS.attention, "stroke-width": 1.5 },
  later: { class: "gp-grid" },
};

/** Say what happens to one token's row at a step: "fresh", "again", "kept" or nothing. */
function fate(token, step, prompt_length, cached, name) {
  const { seen } = reach(prompt_length, step, cached);
  if (token >= seen) return undefined;
  if (token === seen - 1 || step === 1) return "fresh";
  if (!cached) return "again";
  return name === "Q" ? undefined : "kept"; // an old query is never asked again
}

function drawRow(picture, { top, cell, many, kind }) {
  for (let token = 0; token < many; token++) {
    const look = LOOKS[kind(token)];
    if (!look) continue;
    const place = { x: 46 + token * cell.wide + 1.5, y: top + 1.5, rx: 1.5 };
    picture.append(svg("rect", { ...place, width: cell.wide - 3, height: cell.high - 3, ...look }));
  }
}

/** Draw the letters, this step's rows of Q, K and V, then all steps, then the counts. */
function drawWay(picture, state, now, [way, cached]) {
  const { prompt_length, new_tokens, step } = state;
  const { width } = picture.viewBox.baseVal;
  const cell = { wide: Math.min(22, (width - 46) / TEXT.length), high: 17 };
  const { seen } = reach(prompt_length, step, cached);
  const text = (x, y, words, more = {}) => picture.append(svg("text", { x, y, ...more }, words));
  const end = { "text-anchor": "end" };
  text(0, 12, way === "cache" ? "With a cache" : "Without a cache", { "font-weight": "bold" });
  for (let token = 0; token <= seen; token++) {
    const look = { "text-anchor": "middle", "font-weight": token === seen ? "bold" : "normal" };
    text(46 + (token + 0.5) * cell.wide, 33, TEXT[token].replace(" ", "␣"), look);
  }
  ["Q", "K", "V"].forEach((name, i) => {
    const top = 41 + i * cell.high;
    text(42, top + 12, name, end);
    const kind = (token) => fate(token, step, prompt_length, cached, name);
    drawRow(picture, { top, cell, many: seen, kind });
  });
  const below = 41 + 3 * cell.high + 10;
  const low = { ...cell, high: 13 };
  for (let row = 1; row <= new_tokens; row++) {
    const top = below + (row - 1) * low.high;
    const look = row === step ? { "font-weight": "bold" } : { class: "gp-tick" };
    text(42, top + 10, row === 1 ? "step 1" : String(row), { ...end, ...look });
    const many = reach(prompt_length, row, cached).seen;
    const kind = (token) => (row > step ? "later" : fate(token, row, prompt_length, cached, "K"));
    drawRow(picture, { top, cell: low, many, kind });
  }
  const table = below + MOST_STEPS * low.high + 20;
  const line = (i, label, ...values) => {
    const look = i ? {} : { class: "gp-tick" };
    text(0, table + i * 17, label, look);
    values.forEach((value, at) =>
      text(width * (at ? 1 : 0.66), table + i * 17, value, { ...end, ...look }),
    );
  };
  const shown = (kind) => ["now", "so far"].map((when) => short(now[`${way}: ${kind} ${when}`]));
  line(0, "in all layers", "this step", "so far");
  line(1, "rows of Q, K, V", ...shown("rows"));
  line(2, "attention scores", ...shown("scores"));
  line(3, "multiply-adds", ...shown("multiply-adds"));
  line(4, "kept of K and V", "", memory(now[`${way}: bytes held`]));
}

/** Explain the three looks in words beside samples of them. */
function legend() {
  const sample = (kind, words) =>
    html(
      "span",
      { style: "display: inline-flex; gap: 0.35rem; align-items: center; margin-right: 1rem" },
      svg(
        "svg",
        { width: 14, height: 14, "aria-hidden": "true" },
        svg("rect", { x: 1.5, y: 1.5, width: 11, height: 11, rx: 1.5, ...LOOKS[kind] }),
      ),
      words,
    );
  return html(
    "p",
    { class: "gp-caption", style: "grid-column: 1 / -1; margin: 0" },
    sample("fresh", "computed for the first time"),
    sample("kept", "read from the cache"),
    sample("again", "known before, computed again"),
    html("span", { style: "display: block" }, "Above: rows of Q, K and V. Below: all steps."),
  );
}

function sentence({ prompt_length, step }, now) {
  const { seen } = reach(prompt_length, step, true);
  const all = now["no cache: multiply-adds so far"] / now["cache: multiply-adds so far"];
  const held = memory(now["cache: bytes held"]);
  if (step === 1)
    return (
      `Step 1, the prefill, reads the whole prompt at once: ${tokens(prompt_length)}. Both ways ` +
      `compute the same; one of them keeps the keys and values, ${held}.`
    );
  const times = now["no cache: multiply-adds now"] / now["cache: multiply-adds now"];
  return (
    `Step ${step}, a decode, reads token ${seen}. Without the cache it multiplies ` +
    `${Number(fixed(times, 1))} times as much, once for each token; over all steps so far, ` +
    `${fixed(all, 1)} times. The cache keeps ${held}.`
  );
}

function render({ model, el }) {
  const view = new PanelView({
    model,
    el,
    title: "What a step computes, with and without a cache",
  });
  const go = (by) => {
    const step = model.get("step") + by;
    view.set("step", Math.max(1, Math.min(step, model.get("new_tokens"))));
  };
  view.group(
    "The text to write",
    view.range("prompt_length", { label: "prompt", min: 1, max: 8, show: tokens }),
    view.range("new_tokens", { label: "new tokens", min: 1, max: MOST_STEPS }),
    view.select("model", {
      label: "model",
      options: Object.keys(view.model.get("sizes")).map((name) => [
        name,
        name.replace("gpt2-", "GPT-2 "),
      ]),
    }),
  );
  const slider = view.range("step", { label: "step", min: 1, max: MOST_STEPS });
  const buttons = html(
    "div",
    { class: "gp-buttons" },
    view.button("Previous step", () => go(-1)),
    view.button("Next step", () => go(1)),
  );
  view.group("Where it is", slider, buttons);
  const fit = () => {
    slider.querySelector("input").max = model.get("new_tokens");
    if (model.get("step") > model.get("new_tokens")) go(0);
  };
  view.on("change:new_tokens", fit);
  fit();
  view.readout.style.setProperty("--gp-narrow-lines", 4);
  view.stage.append(legend());
  const without = view.picture("Rows computed without a cache, for each token and step", 300);
  const using = view.picture("Rows computed and kept with a cache, for each token and step", 300);
  return view.start((asked) => {
    const state = { ...asked, step: Math.min(asked.step, asked.new_tokens) };
    const now = compute(state);
    drawWay(without, state, now, WAYS[0]);
    drawWay(using, state, now, WAYS[1]);
    const { seen } = reach(state.prompt_length, state.step, true);
    const reads = state.step === 1 ? "the prompt" : spoken(TEXT[seen - 1]);
    const speak = `${state.step}, reads ${reads}, writes ${spoken(TEXT[seen])}`;
    view.setRange(slider, { value: state.step, speak });
    view.say(sentence(state, now));
    const exact = (name) => WAYS.map(([way]) => count(now[`${way}: ${name}`]));
    view.setTable(
      `${state.model}, after step ${state.step} of ${state.new_tokens}`,
      ["all layers", "without a cache", "with a cache"],
      [
        ...KINDS.flatMap((kind) => [
          [`${kind}, this step`, ...exact(`${kind} now`)],
          [`${kind}, so far`, ...exact(`${kind} so far`)],
        ]),
        ["bytes held", ...exact("bytes held")],
      ],
    );
  });
}

export default { render, compute };
