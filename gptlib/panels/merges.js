// Byte-pair encoding, merge by merge: the text in pieces, which pair is next, how the list goes on.

import { COLOURS, PanelView, count, html } from "./kit.js";
import { LISTS } from "./merge_lists.js";
import { spoken } from "./words.js";

const PACE = 900; // milliseconds between two merges while it plays

// How GPT-2 cuts a text, as GPT2_PATTERN in gptlib/text/tokenizers.py; \s is another set here.
const CUT = new RegExp(
  String.raw`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+` +
    String.raw`|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+`,
  "gu",
);

// Bytes that have a sign of their own in Latin-1; GPT-2 counts them first.
const printed = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte !== 0xad);

const numbered = Array.from({ length: 256 }, (_, byte) => byte);
const LETTERS = {
  gpt2: [...numbered.filter(printed), ...numbered.filter((byte) => !printed(byte))],
  shakespeare: numbered,
};
const OFFERED = {
  gpt2: ["GPT-2’s", "of the 50,000 merges of GPT-2; rarer words stay in more pieces than there"],
  shakespeare: ["learned from Shakespeare", "merges, learned by this chapter’s trainer"],
};

const lists = new Map(); // what was unpacked, by its name

/** Return a list of merges: the id of each byte, the id that each pair becomes, all pairs. */
function listOf(name) {
  if (!lists.has(name)) {
    const bytes = Uint8Array.from(atob(LISTS[name]), (sign) => sign.codePointAt(0));
    const view = new DataView(bytes.buffer);
    const pairs = Array.from({ length: bytes.length / 4 }, (_, i) => [
      view.getUint16(4 * i, true),
      view.getUint16(4 * i + 2, true),
    ]);
    const ids = new Map(pairs.map(([a, b], i) => [a * 65536 + b, 256 + i]));
    const first = new Map(LETTERS[name].map((byte, id) => [byte, id]));
    lists.set(name, { pairs, ids, first, letters: LETTERS[name] });
  }
  return lists.get(name);
}

/** Return the bytes that an id stands for. */
function bytesOf({ pairs, letters }, id) {
  if (id < 256) return [letters[id]];
  return pairs[id - 256].flatMap((part) => bytesOf({ pairs, letters }, part));
}

function join(word, [left, right], id) {
  const out = [];
  for (const token of word) {
    if (token === right && out.at(-1) === left) out[out.length - 1] = id;
    else out.push(token);
  }
  return out;
}

/** Return the text before the first merge and after each one, and the id that each one made. */
function stagesOf({ text, merges }) {
  const list = listOf(merges);
  const encoder = new TextEncoder();
  const cut = text.match(CUT) ?? [];
  let words = cut.map((word) => [...encoder.encode(word)].map((byte) => list.first.get(byte)));
  const stages = [{ words, made: 0 }];
  for (;;) {
    let made = Infinity;
    for (const word of words) {
      for (let i = 1; i < word.length; i++)
        made = Math.min(made, list.ids.get(word[i - 1] * 65536 + word[i]) ?? Infinity);
    }
    if (made === Infinity) return { list, stages };
    words = words.map((word) => join(word, list.pairs[made - 256], made));
    stages.push({ words, made });
  }
}

/** Return what the panel shows at a step, which may lie beyond the last. */
function now(state) {
  const { list, stages } = stagesOf(state);
  const at = Math.min(state.step, stages.length - 1);
  const { words, made } = stages[at];
  const next = stages[at + 1];
  const size = (parts) => parts.flat().length;
  const places = next ? size(words) - size(next.words) : 0;
  return { list, words, made, next: next?.made ?? 0, places, at, all: stages.length - 1 };
}

function compute(state) {
  const { list, words, made, next, places, at, all } = now(state);
  const ids = words.flat();
  return {
    bytes: ids.reduce((sum, id) => sum + bytesOf(list, id).length, 0),
    words: words.length,
    "merges in all": all,
    "merges done": at,
    tokens: ids.length,
    "number of the last merge": made && made - 255,
    "number of the next merge": next && next - 255,
    "places of the next merge": places,
    ...Object.fromEntries(ids.map((id, i) => [`token ${i + 1}`, id])),
  };
}

const hex = (byte) => byte.toString(16).padStart(2, "0");
const SIGNS = { " ": "␣", "\n": "⏎", "\t": "⇥" };

/** Return the text of some bytes, nothing where they are no whole characters. */
function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return text.decode(Uint8Array.from(bytes));
  } catch {
    return "";
  }
}

/** Return a piece as it is seen: spaces have signs, parts of characters are their bytes. */
function seen(bytes) {
  const text = textOf(bytes);
  const signs = text.replace(/[ \n\t]/g, (sign) => SIGNS[sign]);
  return text && !/\p{C}/u.test(signs) ? signs : bytes.map(hex).join(" ");
}

const INKS = ["embed", "feedForward", "norm", "head", "attention", "residual"];

/** Return the box of one token; `joins` says whether the next merge takes it. */
function box(list, id, { joins, fresh, numbered: withId }) {
  const style =
    "display: inline-block; margin: 2px; padding: 0 3px; border-radius: 4px;" +
    `line-height: 1.35; text-align: center; background: ${COLOURS[INKS[id % INKS.length]]}47;` +
    (joins ? "outline: 2px dashed currentcolor; outline-offset: -1px;" : "") +
    (fresh ? "border-bottom: 3px solid currentcolor;" : "border-bottom: 3px solid transparent;");
  const number = html("span", { style: "display: block; font-size: 11px" }, String(id));
  return html("span", { style }, seen(bytesOf(list, id)), ...(withId ? [number] : []));
}

/** Return which tokens of a word the next merge joins. */
function joined(word, pair) {
  const taken = new Set();
  if (!pair) return taken;
  for (let i = 1; i < word.length; i++) {
    if (taken.has(i - 1) || word[i - 1] !== pair[0] || word[i] !== pair[1]) continue;
    taken.add(i - 1).add(i);
  }
  return taken;
}

function boxes({ list, words, made, next, at, all }) {
  const pair = next && list.pairs[next - 256];
  return words.map((word) => {
    const taken = joined(word, pair);
    const looks = (id, i) => ({ joins: taken.has(i), fresh: id === made, numbered: at === all });
    return html(
      "span",
      { style: "display: inline-block; margin-right: 8px; vertical-align: top" },
      ...word.map((id, i) => box(list, id, looks(id, i))),
    );
  });
}

const many = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

/** Say which merge made an id: both parts, the piece, and its number on the list. */
function told(list, id) {
  const [left, right] = list.pairs[id - 256].map((part) => seen(bytesOf(list, part)));
  return `“${left}” + “${right}”, number ${count(id - 255)} on the list`;
}

function sentence(shown, numbers) {
  const { list, made, next, places, at, all } = shown;
  if (numbers.bytes === 0) return "No text, no tokens.";
  const text = `${many(numbers.tokens, "token")} for ${many(numbers.bytes, "byte")}.`;
  const last = made ? ` Last merge: ${told(list, made)}.` : "";
  if (at === all) {
    return `After all ${many(all, "merge")} that fit: ${text}${last} No other pair is on the list.`;
  }
  const then = `Next: ${told(list, next)}, at ${many(places, "place")}.`;
  return `After ${at} of ${many(all, "merge")}: ${text}${last} ${then}`;
}

function tokenRows({ list, words }) {
  return words.flat().map((id, i) => {
    const bytes = bytesOf(list, id);
    return [i + 1, spoken(textOf(bytes)), bytes.map(hex).join(" "), count(id)];
  });
}

/** Return buttons that step, jump and play; playing stops where anything else is done. */
function player(view) {
  const at = () => now(view.state());
  let timer;
  const play = view.button("Play", () => (timer ? stop() : start()));
  const stop = () => {
    clearInterval(timer);
    timer = undefined;
    play.textContent = "Play";
  };
  const go = (step) => view.set("step", Math.max(0, Math.min(step, at().all)));
  const tick = () => {
    go(at().at + 1);
    if (at().at === at().all) stop();
  };
  const start = () => {
    if (at().at === at().all) go(0);
    play.textContent = "Stop";
    timer = setInterval(tick, PACE);
    tick();
  };
  const button = (name, step) =>
    view.button(name, () => {
      stop();
      go(step());
    });
  view.offs.push(stop);
  view.onReset = stop;
  return html(
    "div",
    { class: "gp-buttons" },
    button("Back", () => at().at - 1),
    button("Next", () => at().at + 1),
    play,
    button("To the end", () => at().all),
  );
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "Merge by merge" });
  view.group(
    "The text and the list",
    view.text("text", { label: "text", rows: 2, most: 120 }),
    view.select("merges", {
      label: "merges",
      options: Object.entries(OFFERED).map(([name, [text]]) => [name, text]),
    }),
  );
  const slider = view.range("step", { label: "done", min: 0, max: 1 });
  view.group("Merges", slider, player(view));
  const about = html("p", { class: "gp-caption", style: "min-height: calc(1.3em * 2)" });
  const caption = html(
    "p",
    { class: "gp-caption", style: "margin: 0.4rem 0 0" },
    "Dashed: the pair that comes next. Underlined: what the last merge made. " +
      "Gaps: the cuts that no token crosses. ␣ is a space; pairs of digits such as e4 are bytes.",
  );
  const region = { role: "region", "aria-label": "The text in tokens", tabindex: 0 };
  const tokens = html("div", {
    class: "gp-sample",
    ...region,
    style: "height: 12.5rem; white-space: normal; font-size: 0.92rem",
  });
  view.stage.append(
    html("div", { style: "grid-column: 1 / -1; min-width: 0" }, about, tokens, caption),
  );
  view.readout.style.setProperty("--gp-wide-lines", 3);
  view.readout.style.setProperty("--gp-narrow-lines", 6);
  return view.start((state) => {
    const shown = now(state);
    const numbers = compute(state);
    const { list, at, all, made } = shown;
    const speak = made ? `${at} of ${all}, ${spoken(textOf(bytesOf(list, made)))}` : `0 of ${all}`;
    view.setRange(slider, { max: Math.max(all, 1), value: at, text: `${at} of ${all}`, speak });
    slider.querySelector("input").disabled = all === 0;
    about.textContent = `The first ${count(list.pairs.length)} ${OFFERED[state.merges][1]}.`;
    tokens.replaceChildren(...boxes(shown));
    view.say(sentence(shown, numbers));
    view.setTable("The tokens now", ["token", "piece", "bytes", "id"], tokenRows(shown));
  });
}

export default { render, compute };
