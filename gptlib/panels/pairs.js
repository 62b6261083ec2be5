// A table of pairs at work: the chances of the next letter, a number thrown on them, the bill.

import { COLOURS, PanelView, bars, fixed, html, svg } from "./kit.js";
import { COUNTED } from "./pair_counts.js";
import { spoken } from "./words.js";

// As in pairs.py.
const MOST = 80;
const SHOWN = 10;
const ROLLS = 1_000_000;

const [letters, [first], ...rows] = COUNTED.map((line) => line.split(",").map(Number));
const placeOf = new Map(letters.map((letter, place) => [letter, place]));
const add = (numbers) => numbers.reduce((sum, n) => sum + n, 0);

const once = letters.map((letter, i) => add(rows.map((row) => row[i] ?? 0)) + (letter === first));
const all = add(once) + 1;
const often = (letter) => once[placeOf.get(letter)] ?? 0;
const frequency = (letter) => (often(letter) + 1 / 256) / all;

/** Return the function that gives a byte's chance after another, or after no byte. */
function chancesAfter(table, before) {
  if (table === "frequencies" || before === undefined) return frequency;
  const row = rows[placeOf.get(before)] ?? [];
  const followers = add(row);
  return (letter) => ((row[placeOf.get(letter)] ?? 0) + frequency(letter)) / (followers + 1);
}

/** Return the number in [0, 1) of a roll: the first of mulberry32 with its number as seed. */
function thrown(roll) {
  const state = (roll + 0x6d2b79f5) | 0;
  let bits = Math.imul(state ^ (state >>> 15), state | 1);
  bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
}

const bytesOf = (text) => [...new TextEncoder().encode(text)];

/** Return the pieces of the line from 0 to 1, the longest first, and the one that is hit. */
function lineOf({ text, table, roll }) {
  const chance = chancesAfter(table, bytesOf(text).at(-1));
  const pieces = letters
    .map((letter) => ({ letter, chance: chance(letter) }))
    .toSorted((a, b) => b.chance - a.chance || a.letter - b.letter);
  let end = 0;
  for (const piece of pieces) {
    piece.start = end;
    end += piece.chance;
    piece.end = end;
  }
  const number = thrown(roll);
  return { pieces, number, hit: pieces.find((piece) => number < piece.end) };
}

function billOf({ text, table }) {
  const bytes = bytesOf(text);
  return bytes.map((letter, i) => {
    const chance = chancesAfter(table, bytes[i - 1])(letter);
    return { letter, chance, nats: -Math.log(chance) };
  });
}

function compute(state) {
  const { pieces, number, hit } = lineOf(state);
  const bill = billOf(state);
  const top = pieces.slice(0, SHOWN);
  const sum = add(bill.map(({ nats }) => nats));
  const paid = {
    "nats in all": sum,
    "nats per byte": sum / bill.length,
    perplexity: Math.exp(sum / bill.length),
    ...Object.fromEntries(bill.map(({ nats }, i) => [`surprise ${i + 1}`, nats])),
  };
  return {
    ...Object.fromEntries(top.map(({ letter }, i) => [`letter ${i + 1}`, letter])),
    ...Object.fromEntries(top.map(({ chance }, i) => [`chance ${i + 1}`, chance])),
    "number thrown": number,
    "letter drawn": hit?.letter ?? -1,
    bytes: bill.length,
    ...(bill.length ? paid : {}),
  };
}

const SIGNS = { 9: "⇥", 10: "⏎", 32: "␣" };
const printed = (byte) => byte > 32 && byte < 127;

/** Return a byte as it is seen: blanks have signs, parts of characters are two digits. */
function sign(byte) {
  const other = () => byte.toString(16).padStart(2, "0");
  return SIGNS[byte] ?? (printed(byte) ? String.fromCodePoint(byte) : other());
}

const heard = (byte) =>
  printed(byte) || SIGNS[byte] ? spoken(String.fromCodePoint(byte)) : `byte ${sign(byte)}`;

const per = (share) => (share < 0.0005 ? "< 0.1 %" : `${fixed(100 * share, 1)} %`);

/** Draw the line from 0 to 1, its pieces, and the number thrown on it. */
function drawLine(picture, { pieces, number, hit }) {
  const { width } = picture.viewBox.baseVal;
  const X = (share) => 8 + share * (width - 16);
  const [top, foot] = [40, 78];
  for (const piece of pieces) {
    const [left, wide] = [X(piece.start), X(piece.end) - X(piece.start)];
    if (wide < 0.2) continue; // the last of them are thinner than a hair
    const on = piece === hit;
    picture.append(
      svg("rect", {
        x: left,
        y: top,
        width: wide,
        height: foot - top,
        fill: COLOURS.head,
        "fill-opacity": on ? 0.85 : 0.3,
        stroke: wide > 3 ? "currentcolor" : "none",
        "stroke-width": 0.6,
      }),
    );
    if (wide < 13) continue;
    const middle = { x: left + wide / 2, y: (top + foot) / 2 + 4, "text-anchor": "middle" };
    picture.append(svg("text", { ...middle, class: "gp-byte" }, sign(piece.letter)));
  }
  for (const at of [0, 0.25, 0.5, 0.75, 1]) {
    const anchor = { 0: "start", 1: "end" }[at] ?? "middle";
    picture.append(
      svg("path", { class: "gp-axis", d: `M${X(at)} ${foot}v5` }),
      svg("text", { class: "gp-tick", x: X(at), y: foot + 18, "text-anchor": anchor }, String(at)),
    );
  }
  const at = X(number);
  const near = Math.min(Math.max(at, 60), width - 60);
  picture.append(
    svg("path", { d: `M${at} ${foot}V26`, stroke: "currentcolor", "stroke-width": 2 }),
    svg("path", { d: `M${at - 6} 22h12l-6 9z`, fill: "currentcolor" }),
    svg("text", { x: near, y: 14, "text-anchor": "middle" }, `thrown: ${fixed(number, 4)}`),
  );
}

/** Return the box of one letter of the text, darker the more it surprised. */
function box({ letter, nats }) {
  const depth = Math.round(Math.min(nats / 8, 1) * 160);
  const style =
    "display: inline-block; min-width: 2.3rem; margin: 2px; padding: 0 3px; border-radius: 4px;" +
    `line-height: 1.35; text-align: center; background: ${COLOURS.head}` +
    depth.toString(16).padStart(2, "0");
  const price = html("span", { style: "display: block; font-size: 11px" }, fixed(nats, 2));
  return html("span", { style }, sign(letter), price);
}

function sentence(state, { hit, number }, numbers) {
  const last = bytesOf(state.text).at(-1);
  const known = state.table === "pairs" && last !== undefined;
  const where = known ? ` after “${sign(last)}”` : "";
  const falls = hit ? `on “${sign(hit.letter)}” (${per(hit.chance)})` : "beside all that occur";
  const roll = `The number ${fixed(number, 4)} falls ${falls}${where}.`;
  if (numbers.bytes === 0) return `${roll} No text, no bill.`;
  return (
    `${roll} The text costs ${fixed(numbers["nats in all"], 1)} nats, ` +
    `${fixed(numbers["nats per byte"], 2)} for each of ${numbers.bytes} bytes: ` +
    `perplexity ${fixed(numbers.perplexity, 1)}.`
  );
}

/** Return a state whose text has the letter drawn at its end, or the same where none fits. */
function grown(state) {
  const { hit } = lineOf(state);
  if (!hit || [...state.text].length >= MOST) return state;
  const text = state.text + String.fromCodePoint(hit.letter);
  return { ...state, text, roll: (state.roll + 1) % ROLLS };
}

/** Return the buttons: another number; the letter it gave; ten letters. */
function dice(view) {
  const take = (times) => {
    let state = view.state();
    for (let i = 0; i < times; i++) state = grown(state);
    view.model.set("text", state.text);
    view.set("roll", state.roll);
  };
  const roll = view.button("Roll", () => view.set("roll", (view.model.get("roll") + 1) % ROLLS));
  const buttons = [view.button("Add the letter", () => take(1))];
  buttons.push(view.button("Add ten", () => take(10)));
  return { buttons, node: html("div", { class: "gp-buttons" }, roll, ...buttons) };
}

function render({ model, el }) {
  const view = new PanelView({ model, el, title: "Guess, roll, pay" });
  const { buttons, node } = dice(view);
  view.group("The text", view.text("text", { label: "text", rows: 2, most: MOST }));
  view.group(
    "The guess and the dice",
    view.select("table", {
      label: "table",
      options: [
        ["pairs", "pairs: looks at one letter"],
        ["frequencies", "frequencies: looks at none"],
      ],
    }),
    node,
  );
  const caption = (text, more = {}) => html("p", { class: "gp-caption", ...more }, text);
  const next = html("div", { style: "min-width: 0; --gp-bar-label: 4rem" });
  view.stage.append(next);
  const line = view.picture("The chances side by side from 0 to 1, and the number thrown", 104);
  const side = html("div", { style: "min-width: 0" });
  const region = { role: "region", "aria-label": "The bill", tabindex: 0 };
  const style = "height: 9.5rem; white-space: normal; font-size: 0.92rem";
  const paper = html("div", { class: "gp-sample", ...region, style });
  side.append(caption("A number between 0 and 1 is thrown; it hits a long piece often."), line);
  side.append(
    caption("The bill: what each letter cost, in nats.", { style: "margin-top: 0.6rem" }),
  );
  side.append(paper);
  view.stage.append(side);
  view.readout.style.setProperty("--gp-narrow-lines", 4);
  return view.start((state) => {
    const shown = lineOf(state);
    const bill = billOf(state);
    const top = shown.pieces.slice(0, SHOWN);
    const longest = top[0].chance;
    next.replaceChildren(
      caption("The likeliest next letters"),
      bars(
        top.map((piece) => ({
          label: sign(piece.letter),
          share: piece.chance / longest,
          text: per(piece.chance),
          colour: COLOURS.head,
          off: false,
        })),
      ),
    );
    const stuck = !shown.hit || [...state.text].length >= MOST;
    for (const button of buttons) button.disabled = stuck;
    drawLine(line, shown);
    paper.replaceChildren(...bill.map(box));
    view.say(sentence(state, shown, compute(state)));
    view.setTable(
      "The bill",
      ["letter", "chance", "nats"],
      bill.map(({ letter, chance, nats }) => [
        heard(letter),
        Number(chance.toPrecision(3)),
        fixed(nats, 3),
      ]),
    );
  });
}

export default { render, compute };
