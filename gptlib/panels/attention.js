// Attention: what each head of each layer of the packaged model looks at in a text of the reader.

import { COLOURS, PanelView, bars, fixed, html, svg } from "./kit.js";
import { loadModel } from "../page_gpt/gpt.js";
import { spoken } from "./words.js";
import { encodeText, entropy } from "../page_gpt/sampling.js";

const MOST = 40; // bytes: the letters of more would be too small to read on a phone
const LANE = 12; // pixels: letters of narrower cells stand in two lanes, by turns
const SHOWN = 6; // positions in the list

const lastLook = {}; // drawing asks several times for the same

/** Return the weights of all heads: one [T * T] array per layer and head, row after row. */
function look({ text, scale, mask }, packed) {
  const key = JSON.stringify([text, scale, mask]);
  if (lastLook.key === key) return lastLook.value;
  const model = loadModel(packed);
  const ids = encodeText(text);
  const { n_layers, n_heads } = model.config;
  const trace = {};
  if (ids.length) model.forward(ids, { trace, scale, mask });
  const size = ids.length ** 2;
  const weights = Array.from({ length: n_layers * n_heads }, (_, i) => {
    const [layer, head] = [Math.floor(i / n_heads), i % n_heads];
    const all = trace[`blocks.${layer}.attn.weights`] ?? [];
    return all.slice(head * size, (head + 1) * size);
  });
  Object.assign(lastLook, { key, value: { ids, weights, n_layers, n_heads } });
  return lastLook.value;
}

/** Return the row of weights at the reader's position, which cannot lie beyond the text. */
function chosen(state, packed) {
  const { ids, weights, n_heads } = look(state, packed);
  const at = Math.min(state.position, ids.length) - 1;
  const all = weights[(state.layer - 1) * n_heads + state.head - 1];
  return { ids, at, all, row: all.slice(at * ids.length, (at + 1) * ids.length) };
}

function compute(state, packed) {
  const { ids, at, row } = chosen(state, packed);
  if (!ids.length) return {};
  return {
    ...Object.fromEntries([...row].map((w, i) => [`weight on ${i + 1}`, w])),
    entropy: entropy(row),
    "weight ahead": row.slice(at + 1).reduce((sum, w) => sum + w, 0),
  };
}

/** Write one byte for readers: letters as they are, the rest as signs. */
function sign(id) {
  if (id === 32) return "␣";
  if (id === 10) return "⏎";
  return id > 32 && id < 127 ? String.fromCharCode(id) : id.toString(16).toUpperCase();
}

/** Name one byte for those who hear it. */
function heard(id) {
  return id === 10 || (id > 31 && id < 127) ? spoken(String.fromCharCode(id)) : `byte ${sign(id)}`;
}

/** Return where the matrix begins, how large a cell is, and in how many lanes letters stand. */
function layoutOf({ width, height }, T) {
  const room = (lanes) => Math.min(width, height) - lanes * LANE - 10;
  const lanes = room(1) / T < LANE ? 2 : 1;
  return { lanes, edge: lanes * LANE + 6, cell: Math.min(room(lanes) / T, 26) };
}

/** Write the letters along both sides; a click on one, or on its row, chooses it. */
function drawLetters(picture, ids, at, { lanes, edge, cell }, choose) {
  const size = Math.min(12, 0.8 * (lanes === 1 ? cell : LANE));
  const type = { style: `font-size:${size}px`, "text-anchor": "middle", class: "gp-byte" };
  const hit = (i, place) => svg("rect", { ...place, class: "gp-hit", onclick: () => choose(i) });
  ids.forEach((id, i) => {
    const [from, lane] = [edge + i * cell, LANE * (i % lanes)];
    const middle = from + cell / 2;
    const face = i === at ? { ...type, "font-weight": 700 } : type;
    picture.append(
      svg("text", { ...face, x: middle, y: lane + size }, sign(id)),
      svg("text", { ...face, x: lane + 0.65 * size, y: middle + 0.35 * size }, sign(id)),
      hit(i, { x: from, y: 0, width: cell, height: edge }),
      hit(i, { x: 0, y: from, width: edge + ids.length * cell, height: cell }),
    );
  });
}

function drawHead(picture, ids, weights, at, choose) {
  const T = ids.length;
  const layout = layoutOf(picture.viewBox.baseVal, T);
  const { edge, cell } = layout;
  const place = (i) => edge + i * cell;
  const squares = []; // one path for all cells of a percentage: thousands of nodes would take long
  weights.forEach((w, i) => {
    const [percent, x, y] = [Math.round(100 * w), place(i % T), place(Math.floor(i / T))];
    if (percent) squares[percent] = `${squares[percent] ?? ""}M${x} ${y}h${cell}v${cell}h${-cell}z`;
  });
  picture.append(
    svg("rect", { x: edge, y: place(at), width: T * cell, height: cell, class: "gp-row" }),
    ...Object.entries(squares).map(([percent, d]) =>
      svg("path", { d, fill: COLOURS.attention, "fill-opacity": percent / 100 }),
    ),
    svg("rect", { x: edge, y: edge, width: T * cell, height: T * cell, class: "gp-frame" }),
  );
  drawLetters(picture, ids, at, layout, choose);
}

/** Draw every head small: a row of heads for each layer, the present one framed. */
function drawAll(canvas, { ids, weights, n_layers, n_heads }, layer, head) {
  const T = ids.length;
  const step = T + 2; // pixels from one head to the next
  [canvas.width, canvas.height] = [n_heads * step, n_layers * step];
  if (!T) return;
  const context = canvas.getContext("2d");
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(COLOURS.attention.slice(at, at + 2), 16));
  weights.forEach((all, i) => {
    const [x, y] = [(i % n_heads) * step, Math.floor(i / n_heads) * step];
    const here = (layer - 1) * n_heads + head - 1 === i;
    context.fillStyle = here ? COLOURS.broken : COLOURS.residual;
    context.fillRect(x, y, step, step);
    const image = context.createImageData(T, T);
    // On paper of its own, white, so that the colours are the same in the dark.
    for (let p = 0; p < all.length; p++) {
      image.data[4 * p] = 255 - (255 - r) * all[p];
      image.data[4 * p + 1] = 255 - (255 - g) * all[p];
      image.data[4 * p + 2] = 255 - (255 - b) * all[p];
      image.data[4 * p + 3] = 255;
    }
    context.putImageData(image, x + 1, y + 1);
  });
}

async function render({ model, el }) {
  const view = new PanelView({ model, el, title: "What a head looks at" });
  const from = view.range("position", { label: "from letter", min: 1, max: MOST });
  view.group("The text", view.text("text", { label: "text", most: MOST, unit: "bytes" }), from);
  view.group(
    "The head",
    view.range("layer", { label: "layer", min: 1, max: 4 }),
    view.range("head", { label: "head", min: 1, max: 4 }),
    view.check("scale", { label: "divide scores by √D" }),
    view.check("mask", { label: "hide what comes later" }),
  );
  const picture = view.picture("The weights of the chosen head: a row looks at its columns", 330);
  const canvas = html("canvas", { class: "gp-heads", role: "img", "aria-label": "All 16 heads" });
  const list = html("div", { class: "gp-six", style: "--gp-bar-label: 4.5rem" });
  view.stage.append(
    html(
      "div",
      {},
      html("p", { class: "gp-caption" }, "All heads, a row for each layer"),
      canvas,
      list,
    ),
  );
  canvas.addEventListener("click", ({ offsetX, offsetY }) => {
    const { clientWidth, clientHeight } = canvas;
    view.set("layer", Math.min(4, 1 + Math.floor((4 * offsetY) / clientHeight)));
    view.set("head", Math.min(4, 1 + Math.floor((4 * offsetX) / clientWidth)));
  });
  view.readout.style.setProperty("--gp-narrow-lines", 5);
  view.say("Waiting for the model. In JupyterLab it comes when the cell is run.");
  const packed = await view.weights();
  return view.start((state) => {
    const { ids, at, all, row } = chosen(state, packed);
    drawAll(canvas, look(state, packed), state.layer, state.head);
    const speak = ids.length ? `${at + 1}, ${heard(ids[at])}` : "no text";
    view.setRange(from, { max: Math.max(1, ids.length), value: at + 1, speak });
    if (!ids.length) {
      list.replaceChildren();
      view.setTable("No text", ["letter"], []);
      view.say("Type a text, and the model reads it.");
      return;
    }
    drawHead(picture, ids, all, at, (i) => view.set("position", i + 1));
    const order = [...row.keys()].toSorted((i, j) => row[j] - row[i] || i - j);
    const name = (i) => `${sign(ids[i])} (${i + 1})`;
    const told = (i) => `${heard(ids[i])} (${i + 1})`;
    const item = (i) => ({
      label: name(i),
      share: row[i],
      text: fixed(row[i], 3),
      colour: COLOURS.attention,
    });
    list.replaceChildren(bars(order.slice(0, SHOWN).map(item)));
    const now = compute(state, packed);
    const spread = Math.exp(now.entropy);
    const ahead =
      now["weight ahead"] > 0 ? `, ${fixed(now["weight ahead"])} of it on what comes later` : "";
    view.say(
      `Layer ${state.layer}, head ${state.head}: from ${told(at)} the strongest look, ` +
        `${fixed(row[order[0]])}, goes to ${told(order[0])}. The weight is spread as over ` +
        `${fixed(spread, 1)} letters${ahead}.`,
    );
    view.setTable(
      `Weights from ${told(at)}, layer ${state.layer}, head ${state.head}`,
      ["letter", "weight"],
      [...row].map((w, i) => [told(i), fixed(w, 3)]),
    );
  });
}

export default { render, compute };
