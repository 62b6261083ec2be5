// A GPT in plain JavaScript: the function of gptlib/model.py, for one sequence at a time.
//
// Shape letters as there: T new positions, S all positions so far, C emb_dim, H heads, D head size,
// V vocabulary. Arrays are flat, row after row: element (t, c) of a (T, C) array is [t * C + c].

import { decodeWeights } from "./weights.js";
import { addProduct, linear } from "./products.js";

const NORM_EPS = 1e-5; // keeps a constant row from dividing by zero

/** Return the model that gptlib.page_gpt.packing packed; its weights are decoded once for all. */
function loadModel(packed) {
  packed.params ??= decodeWeights(packed);
  return new GPT(packed.config, packed.params);
}

class GPT {
  constructor(config, params) {
    const matrix = (name) => ({ weight: params[`${name}.weight`], bias: params[`${name}.bias`] });
    const norm = (name) => ({ scale: params[`${name}.scale`], shift: params[`${name}.shift`] });
    this.config = config;
    this.tokens = params["tok_emb.weight"]; // (V, C)
    this.positions = params["pos_emb.weight"]; // (context_length, C)
    this.blocks = Array.from({ length: config.n_layers }, (_, layer) => ({
      norm1: norm(`blocks.${layer}.norm1`),
      qkv: matrix(`blocks.${layer}.attn.qkv`), // (3C, C)
      out: matrix(`blocks.${layer}.attn.out_proj`), // (C, C)
      norm2: norm(`blocks.${layer}.norm2`),
      up: matrix(`blocks.${layer}.ff.up`), // (4C, C)
      down: matrix(`blocks.${layer}.ff.down`), // (C, 4C)
    }));
    this.finalNorm = norm("final_norm");
    this.head = { weight: params["head.weight"] ?? this.tokens }; // (V, C), tied: the token table
  }

  /** Return an empty cache, which belongs to the caller; to shorten its `ids` is to forget them. */
  newCache() {
    const { n_layers, context_length, emb_dim } = this.config;
    const room = () => new Float32Array(context_length * emb_dim); // (context_length, C)
    const layers = Array.from({ length: n_layers }, () => ({ keys: room(), values: room() }));
    return { ids: [], layers };
  }

  /**
   * Score every possible next token at every position: ids (T) -> logits (T, V).
   *
   * With a cache, ids follow those it holds; however a text is cut into calls, the logits are the
   * same to the last bit. `trace`, an object, receives each layer's attention weights (H, T, S) as
   * "blocks.0.attn.weights". Without the `scale`, or without the `mask` (for ids in one call), it
   * is the broken machine of chapter "Attention".
   */
  forward(ids, { cache = this.newCache(), trace = null, scale = true, mask = true } = {}) {
    const past = cache.ids.length;
    this.check(ids, past);
    const C = this.config.emb_dim;
    const x = new Float32Array(ids.length * C); // the residual stream (T, C)
    ids.forEach((id, t) => x.set(this.tokens.subarray(id * C, (id + 1) * C), t * C));
    addTo(x, this.positions.subarray(past * C, past * C + x.length));
    this.blocks.forEach((block, layer) => {
      const qkv = linear(layerNorm(x, block.norm1), block.qkv, C); // (T, C) -> (T, 3C)
      const { heads, weights } = this.attend(qkv, cache.layers[layer], past, scale, mask);
      if (trace) trace[`blocks.${layer}.attn.weights`] = weights;
      addTo(x, linear(heads, block.out, C));
      const wide = gelu(linear(layerNorm(x, block.norm2), block.up, C)); // (T, C) -> (T, 4C)
      addTo(x, linear(wide, block.down, 4 * C));
    });
    cache.ids.push(...ids);
    return linear(layerNorm(x, this.finalNorm), this.head, C); // (T, C) -> (T, V)
  }

  /** Let T new positions read those before them and themselves: qkv (T, 3C) -> heads (T, C). */
  attend(qkv, { keys, values }, past, scale, mask) {
    const { emb_dim: C, n_heads: H } = this.config;
    const D = C / H;
    const T = qkv.length / (3 * C);
    const S = past + T;
    for (let t = 0; t < T; t++) {
      const at = 3 * t * C;
      keys.set(qkv.subarray(at + C, at + 2 * C), (past + t) * C);
      values.set(qkv.subarray(at + 2 * C, at + 3 * C), (past + t) * C);
    }
    const weights = new Float32Array(H * T * S); // 0 where a position may not look
    const heads = new Float32Array(T * C);
    for (let h = 0; h < H; h++) {
      for (let t = 0; t < T; t++) {
        const at = (h * T + t) * S;
        const row = weights.subarray(at, at + (mask ? past + t + 1 : S));
        addProduct(row, 0, row.length, keys, h * D, C, 1, qkv, 3 * t * C + h * D, D);
        softmax(row, scale ? 1 / Math.sqrt(D) : 1);
        addProduct(heads, t * C + h * D, D, values, h * D, 1, C, row, 0, row.length);
      }
    }
    return { heads, weights };
  }

  check(ids, past) {
    const { vocab_size, context_length } = this.config;
    const end = past + ids.length;
    if (!ids.length) throw new RangeError("ids is empty; give at least one token id");
    if (end > context_length) {
      throw new RangeError(`${end} positions exceed the context length ${context_length}`);
    }
    const bad = ids.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocab_size));
    if (bad < 0) return;
    throw new RangeError(
      `token id ${ids[bad]} at position ${bad} is outside the vocabulary 0..${vocab_size - 1}`,
    );
  }
}

function addTo(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

/** Give each row of x (T, C) mean 0 and variance 1, then scale and shift it. */
function layerNorm(x, { scale, shift }) {
  const C = scale.length;
  const out = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += C) {
    let mean = 0;
    let variance = 0;
    for (let c = 0; c < C; c++) mean += x[at + c] / C;
    for (let c = 0; c < C; c++) variance += (x[at + c] - mean) ** 2 / C;
    const factor = 1 / Math.sqrt(variance + NORM_EPS);
    for (let c = 0; c < C; c++) out[at + c] = (x[at + c] - mean) * factor * scale[c] + shift[c];
  }
  return out;
}

/** Bend x in place: 0.5 x (1 + tanh u), in its equal and faster form x / (1 + exp(-2u)). */
function gelu(x) {
  const factor = -2 * Math.sqrt(2 / Math.PI);
  for (let i = 0; i < x.length; i++) {
    x[i] /= 1 + Math.exp(factor * x[i] * (1 + 0.044715 * x[i] * x[i]));
  }
  return x;
}

/** Turn scores, times a factor, into weights that add up to 1, in place. */
function softmax(row, factor) {
  let best = -Infinity;
  let sum = 0;
  for (let i = 0; i < row.length; i++) best = Math.max(best, row[i]);
  for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp((row[i] - best) * factor);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
}

export { GPT, loadModel };
