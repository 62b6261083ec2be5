// Attention: what each head of each layer of the packaged model looks at in a text of the reader.

import { COLOURS, PanelView, bars, fixed, html, svg } from "./kit.js";
import { loadModel } from "../page_gpt/gpt.js";
import { encodeText, entropy } from "../page_gpt/sampling.js";

const MOST = 48; // bytes that are read: more would not fit in the picture
const SHOWN = 6; // positions in the list

const lastLook = {}; // drawing asks several times for the same

/** Return the weights of all heads: one [T * T] array per layer and head, row after row. */
function look({ text, scale, mask }, packed) {
  const key = JSON.stringify([text, scale, mask]);
  if (lastLook.key === key) return lastLook.value;
  const model = loadModel(packed);
  const ids = encodeText(text).slice(0, MOST);
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

function drawHead(picture, ids, weights, at) {
  const T = ids.length;
  const { width, height } = picture.viewBox.baseVal;
  const cell = Math.min((width - 24) / T, (height - 24) / T, 26);
  const place = (i) => 20 + i * cell;
  const squares = []; // one path for all cells of a percentage: thousands of nodes would take long
  weights.forEach((w, i) => {
    const [percent, x, y] = [Math.round(100 * w), place(i % T), place(Math.floor(i / T))];
    if (percent) squares[percent] = `${squares[percent] ?? ""}M${x} ${y}h${cell}v${cell}h${-cell}z`;
  });
  picture.append(
    svg("rect", { x: 20, y: place(at), width: T * cell, height: cell, class: "gp-row" }),
    ...Object.entries(squares).map(([percent, d]) =>
      svg("path", { d, fill: COLOURS.attention, "fill-opacity": percent / 100 }),
    ),
    svg("rect", { x: 20, y: 20, width: T * cell, height: T * cell, class: "gp-frame" }),
  );
  if (cell < 7) return;
  const type = {
    style: `font-size:${Math.min(12, 0.8 * cell)}px`,
    "text-anchor": "middle",
    class: "gp-byte",
  };
  ids.forEach((id, i) => {
    picture.append(
      svg("text", { ...type, x: place(i) + cell / 2, y: 14 }, sign(id)),
      svg("text", { ...type, x: 9, y: place(i) + cell * 0.7 }, sign(id)),
    );
  });
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
  view.group(
    "The text",
    view.text("text", { label: `up to ${MOST} bytes are read`, most: 40 }),
    from,
  );
  view.group(
    "The head",
    view.range("layer", { label: "layer", min: 1, max: 4 }),
    view.range("head", { label: "head", min: 1, max: 4 }),
    view.check("scale", { label: "divide scores by √D" }),
    view.check("mask", { label: "hide what comes later" }),
  );
  const picture = view.picture("The weights of the chosen head: a row looks at its columns", 330);
  const canvas = html("canvas", { class: "gp-heads", role: "img", "aria-label": "All 16 heads" });
  const list = html("div", { class: "gp-six" });
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
    view.setRange(from, { max: Math.max(1, ids.length), value: at + 1 });
    if (!ids.length) {
      list.replaceChildren();
      view.setTable("No text", ["letter"], []);
      view.say("Type a text, and the model reads it.");
      return;
    }
    drawHead(picture, ids, all, at);
    const order = [...row.keys()].toSorted((i, j) => row[j] - row[i] || i - j);
    const name = (i) => `${sign(ids[i])} (${i + 1})`;
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
      `Layer ${state.layer}, head ${state.head}: from ${name(at)} the strongest look, ` +
        `${fixed(row[order[0]])}, goes to ${name(order[0])}. The weight is spread as over ` +
        `${fixed(spread, 1)} letters${ahead}.`,
    );
    view.setTable(
      `Weights from ${name(at)}, layer ${state.layer}, head ${state.head}`,
      ["letter", "weight"],
      [...row].map((w, i) => [name(i), fixed(w, 3)]),
    );
  });
}

export default { render, compute };
