// The playground: a prompt, a model that continues it, and each token's alternatives.

import { COLOURS, PanelView, bars, fixed, html } from "./kit.js";
import { spoken } from "./words.js";
import { KernelWriter, PageWriter } from "./writers.js";
import { loadModel } from "../page_gpt/gpt.js";
import { encodeText, entropy, traceFilters } from "../page_gpt/sampling.js";

const SHOWN = 10; // tokens in the list of bars
const LAST = 251; // of the slider that shows tokens: the one after the text
const REDRAW_MS = 50; // between two pictures while the model writes; one takes longer than a token

function follow(logits, { temperature, top_k, top_p }) {
  const trace = traceFilters(logits, { temperature, top_k, top_p });
  const summary = {
    entropy: entropy(trace.raw),
    "entropy at temperature": entropy(trace.temperature),
    "entropy left": entropy(trace.top_p),
    "kept by top-k": trace.kept.top_k,
    "kept by top-p": trace.kept.top_p,
  };
  return { trace, summary };
}

function compute(state, packed) {
  const model = loadModel(packed);
  const { vocab_size, context_length } = model.config;
  const ids = encodeText(state.prompt).slice(-context_length);
  if (!ids.length) return {};
  const logits = model.forward(ids).slice(-vocab_size);
  const { trace, summary } = follow(logits, state);
  const best = [...trace.ranked].slice(0, SHOWN).map((id, i) => [`rank ${i + 1}`, trace.raw[id]]);
  return { ...summary, ...Object.fromEntries(best) };
}

/** Describe the best tokens, and the drawn one: chance after the filters, or what removed it. */
function rowsOf(trace, drawn, label) {
  const ids = trace.ranked.slice(0, SHOWN);
  if (drawn !== undefined && !ids.includes(drawn)) ids[SHOWN - 1] = drawn;
  return ids.map((id) => {
    const rank = trace.ranked.indexOf(id);
    const stage = ["temperature", "top_k", "top_p"].find((name) => rank >= trace.kept[name]);
    const share = stage ? trace.temperature[id] : trace.top_p[id];
    const text = stage ? `cut by ${stage.replace("_", "-")}` : fixed(share, 3);
    const mark = id === drawn ? " ←" : "";
    return {
      label: label(id) + mark,
      share,
      text,
      colour: COLOURS.head,
      off: Boolean(stage),
      id,
    };
  });
}

// How the dials are written, in the order of the panel.
const DIALS = {
  temperature: (value) => (value === 0 ? "0, greedy" : fixed(value)),
  top_k: (k) => (k ? String(k) : "all"),
  top_p: (p) => fixed(p),
  seed: String,
  length: String,
};

/** Write the named dials, such as "temperature 0.80, seed 1". */
function dials(state, names) {
  return names.map((name) => `${name.replace("_", "-")} ${DIALS[name](state[name])}`).join(", ");
}

/** Say how the text was written; `stale` names the dials that stand elsewhere now. */
function history(settings, stale) {
  if (!settings) return "Nothing is written yet.";
  if (!stale.length) return `Written with ${dials(settings, Object.keys(DIALS))}.`;
  return (
    `This text is older than the dials: written with ${dials(settings, stale)}. ` +
    "Write makes a new one."
  );
}

async function render({ model, el }) {
  const view = new PanelView({ model, el, title: "Playground" });
  const written = []; // steps of the text on the screen
  let [writer, running, next] = [null, null, {}]; // next: the scores of the token after the text
  let done = ""; // what to say of a text that was written
  let settings = null; // what wrote it

  const write = view.button("Write", () => start());
  const stop = view.button("Stop", () => running?.abort());
  write.disabled = stop.disabled = true;
  const buttons = html("div", { class: "gp-buttons" }, write, stop);
  const age = view.note();
  age.classList.add("gp-age");
  view.group(
    "The text",
    view.text("prompt", { label: "prompt", rows: 3, most: 400 }),
    buttons,
    age,
  );
  view.group(
    "How a token is drawn",
    view.range("temperature", {
      label: "temperature",
      min: 0,
      max: 2,
      step: 0.05,
      show: DIALS.temperature,
    }),
    view.range("top_k", { label: "top-k", min: 0, max: 256, show: DIALS.top_k }),
    view.range("top_p", { label: "top-p", min: 0, max: 1, step: 0.01, show: DIALS.top_p }),
    view.range("seed", { label: "seed", min: 0, max: 999 }),
    view.range("length", { label: "length", min: 10, max: 250, step: 10 }),
  );
  const look = view.range("look", { label: "show token", min: 1, max: LAST, show: place });
  const slider = look.querySelector("input");
  slider.addEventListener("input", () => {
    if (slider.value > written.length) view.set("look", LAST);
  });
  const paper = html("div", {
    class: "gp-paper gp-spoken",
    tabindex: 0,
    role: "region",
    "aria-label": "The text; a click on a letter shows what else was possible",
  });
  const list = html("div", {});
  view.stage.append(paper, html("div", {}, look, list));

  function place(n) {
    return n <= written.length ? `${n} of ${written.length}` : "next";
  }

  function heard(n) {
    return n <= written.length ? `${place(n)}, ${spoken(written[n - 1].piece)}` : place(n);
  }

  function letter(step) {
    const sign = /^\n*$/.test(step.piece) ? { class: step.piece ? "gp-return" : "gp-part" } : {};
    const onclick = () => view.set("look", written.indexOf(step) + 1);
    return html("span", { ...sign, onclick }, step.piece);
  }

  function showPrompt() {
    paper.replaceChildren(html("span", { class: "gp-prompt" }, model.get("prompt")));
  }

  /** Begin again with nothing written. */
  function clear() {
    running?.abort();
    [running, next, done, settings] = [null, {}, "", null];
    written.length = 0;
    showPrompt();
    view.set("look", LAST);
    view.redraw?.();
  }

  async function start() {
    clear();
    const { look: _, ...asked } = view.state();
    if (!asked.prompt) return;
    settings = asked;
    const mine = (running = new AbortController());
    const began = performance.now();
    let due = began;
    view.redraw();
    try {
      for await (const step of writer.write(asked, mine.signal)) {
        if (mine.signal.aborted) break;
        written.push(step);
        if (performance.now() < due) continue;
        view.redraw();
        due = performance.now() + REDRAW_MS;
      }
      const rate = (1000 * written.length) / (performance.now() - began);
      if (running === mine) done = `${Math.round(rate)} ${writer.unit}s a second. `;
    } catch (error) {
      if (running === mine) done = `${error.message}. `;
    }
    if (running === mine) [running, next] = [null, {}];
    view.redraw();
  }

  /** Ask for the scores of the token after the text, once for each text. */
  async function ask() {
    const mine = (next = { asked: true });
    const text = { prompt: model.get("prompt"), written: written.map(({ id }) => id) };
    try {
      mine.logits = await writer.next(text);
    } catch (error) {
      mine.fault = error.message;
    }
    if (next === mine) view.redraw?.();
  }

  function showButtons(state) {
    const focused = document.activeElement;
    write.disabled = Boolean(running) || !state.prompt;
    stop.disabled = !running;
    if (focused === write && running) stop.focus(); // a disabled button would lose it
    if (focused === stop && !running) write.focus();
    slider.disabled = !written.length;
    const [text, speak] = [place(state.look), heard(state.look)];
    view.setRange(look, { max: written.length + 1, value: state.look, text, speak });
  }

  /** Add what was written since, and mark the letter that is looked at. */
  function showText(state) {
    const fresh = written.slice(paper.children.length - 1).map(letter); // the prompt is the first
    paper.append(...fresh);
    if (fresh.length) paper.scrollTop = paper.scrollHeight;
    paper.querySelector(".gp-here")?.classList.remove("gp-here");
    if (state.look <= written.length) paper.children[state.look].classList.add("gp-here");
  }

  /** Say which dials wrote the text; return whether they stand elsewhere now. */
  function showAge(state) {
    const moved = Object.keys(DIALS).filter((name) => settings && settings[name] !== state[name]);
    age.classList.toggle("gp-stale", moved.length > 0);
    view.say(history(settings, moved), age);
    return moved.length > 0;
  }

  /** Show a token's alternatives: those of a written `step`, or else of the one after the text. */
  function showToken(state, logits, step, stale) {
    const { trace, summary } = follow(logits, state);
    const rows = rowsOf(trace, step?.id, (id) => writer.label(id));
    list.replaceChildren(bars(rows));
    const [byK, byP] = [summary["kept by top-k"], summary["kept by top-p"]];
    const idle = `${done}Write adds ${state.length} ${writer.unit}s with seed ${state.seed}.`;
    const tail = running ? "It is writing." : idle;
    view.readout.setAttribute("aria-live", running ? "off" : "polite"); // not every token aloud
    const by = step && stale ? " by the new dials" : "";
    const left =
      state.temperature > 0 ? `top-k leaves ${byK}, top-p ${byP}` : "temperature 0 leaves 1";
    view.say(
      `${step ? `Token ${written.indexOf(step) + 1}` : "The next token"}${by}: entropy ` +
        `${fixed(summary.entropy)} nats, ${fixed(summary["entropy at temperature"])} at this ` +
        `temperature, ${fixed(summary["entropy left"])} after the filters: of ${logits.length} ` +
        `${left}. ${writer.limit(state.prompt, written)}${tail}`,
    );
    view.setTable(
      `The best tokens, after temperature and after the filters${by}`,
      ["token", "raw", "temperature", by ? "would be drawn with" : "drawn with"],
      rows.map(({ label, id, text }) => [
        label,
        fixed(trace.raw[id], 3),
        fixed(trace.temperature[id], 3),
        text,
      ]),
    );
  }

  /** Say why there is nothing to show; while it reads, what stood there stays. */
  function showNone({ prompt }) {
    if (next.fault || !prompt) {
      list.replaceChildren();
      view.setTable("No prompt", ["token"], []);
    }
    view.say(prompt ? (next.fault ?? "Reading …") : "Type at least one character.");
  }

  view.on("change:prompt", () => clear());
  view.onReset = clear;
  view.readout.style.setProperty("--gp-wide-lines", 3);
  view.readout.style.setProperty("--gp-narrow-lines", 7);
  view.offs.push(() => running?.abort());
  showPrompt();
  view.say("Waiting for the model. In JupyterLab it comes when the cell is run.");
  const reply = await view.weights();
  writer = reply.vocabulary ? new KernelWriter(view, reply) : new PageWriter(reply);
  list.style.setProperty("--gp-bar-label", writer.unit === "byte" ? "4rem" : "7rem");
  await ask();

  return view.start((state) => {
    showButtons(state);
    showText(state);
    const newest = running ? written.at(-1) : undefined; // stands for the next one meanwhile
    const step = state.look <= written.length ? written[state.look - 1] : newest;
    if (!step && !running && !next.asked) ask();
    const logits = step?.logits ?? next.logits;
    const stale = showAge(state);
    if (logits) showToken(state, logits, step, stale);
    else showNone(state);
  });
}

export default { render, compute };
