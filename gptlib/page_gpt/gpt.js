// A GPT in plain JavaScript: the function of gptlib/model.py, for one sequence at a time.
//
// Shape letters as there: T new positions, S all positions so far, C emb_dim, H heads, G heads of
// keys and values, D head size, F middle of the feed-forward part, V vocabulary. Arrays are flat, row
// after row: element (t, c) of a (T, C) array is [t * C + c].

import { decodeWeights } from "./weights.js";
import { addProduct, linear } from "./products.js";
import { addTo, BENDS, normed, rotate, rotaryTurns, softmax } from "./parts.js";

// The switches of GPTConfig at GPT-2's choice, which models packed before there were any have.
const GPT2 = {
  norm: "layer",
  norm_eps: 1e-5,
  norm_first: true,
  positions: "learned",
  rotary_skip: 0,
  qk_norm: false,
  activation: "gelu_tanh",
};

/** Return the model that gptlib.page_gpt.packing packed; its weights are decoded once for all. */
function loadModel(packed) {
  packed.params ??= decodeWeights(packed);
  return new GPT(packed.config, packed.params);
}

class GPT {
  constructor(config, params) {
    const matrix = (name) => ({ weight: params[`${name}.weight`], bias: params[`${name}.bias`] });
    const norm = (name) => ({ scale: params[`${name}.scale`], shift: params[`${name}.shift`] });
    this.config = { ...GPT2, ...config };
    const { emb_dim: C, n_heads: H } = config;
    const [G, D, F] = [config.n_kv_heads ?? H, config.head_size ?? C / H, config.ff_size ?? 4 * C];
    this.sizes = { C, H, G, D, F };
    this.tokens = params["tok_emb.weight"]; // (V, C)
    this.positions = params["pos_emb.weight"]; // (context_length, C), none where positions rotate
    this.blocks = Array.from({ length: config.n_layers }, (_, layer) => {
      const name = `blocks.${layer}`;
      return {
        norm1: norm(`${name}.norm1`),
        qkv: matrix(`${name}.attn.qkv`), // ((H + 2G) D, C)
        qNorm: norm(`${name}.attn.q_norm`), // (D)
        kNorm: norm(`${name}.attn.k_norm`), // (D)
        out: matrix(`${name}.attn.out_proj`), // (C, H D)
        norm2: norm(`${name}.norm2`),
        up: matrix(`${name}.ff.up`), // (F, C)
        gate: config.gated ? matrix(`${name}.ff.gate`) : null, // (F, C)
        down: matrix(`${name}.ff.down`), // (C, F)
      };
    });
    this.finalNorm = norm("final_norm");
    this.head = { weight: params["head.weight"] ?? this.tokens }; // (V, C), tied: the token table
  }

  /** Return an empty cache, which belongs to the caller; to shorten its `ids` is to forget them. */
  newCache() {
    const { n_layers, context_length } = this.config;
    const room = () => new Float32Array(context_length * this.sizes.G * this.sizes.D);
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
    const { C, D } = this.sizes;
    const { rotary_base, rotary_skip } = this.config;
    let x = new Float32Array(ids.length * C); // the residual stream (T, C)
    ids.forEach((id, t) => x.set(this.tokens.subarray(id * C, (id + 1) * C), t * C));
    let turns = null;
    if (this.positions) addTo(x, this.positions.subarray(past * C, past * C + x.length));
    else turns = rotaryTurns(past, ids.length, D, rotary_base);
    this.blocks.forEach((block, layer) => {
      const own = rotary_skip && (layer + 1) % rotary_skip === 0 ? null : turns;
      x = this.add(x, block.norm1, (read) => {
        const qkv = this.queriesKeysValues(read, block, own); // (T, C) -> (T, (H + 2G) D)
        const { heads, weights } = this.attend(qkv, cache.layers[layer], past, scale, mask);
        if (trace) trace[`blocks.${layer}.attn.weights`] = weights;
        return linear(heads, block.out, heads.length / ids.length); // (T, H D) -> (T, C)
      });
      x = this.add(x, block.norm2, (read) => this.feedForward(read, block));
    });
    cache.ids.push(...ids);
    return linear(this.norm(x, this.finalNorm), this.head, C); // (T, C) -> (T, V)
  }

  /** Add what a part makes of x (T, C) to x, normed before the part, or after the addition. */
  add(x, norm, part) {
    const { norm_first } = this.config;
    addTo(x, part(norm_first ? this.norm(x, norm) : x));
    return norm_first ? x : this.norm(x, norm);
  }

  norm(x, params) {
    return normed(x, params, this.config.norm === "layer", this.config.norm_eps);
  }

  /** Project x (T, C) to queries, keys and values (T, (H + 2G) D), turned by their positions. */
  queriesKeysValues(x, { qkv: matrix, qNorm, kNorm }, turns) {
    const { C, H, G, D } = this.sizes;
    const qkv = linear(x, matrix, C);
    for (let at = 0, t = 0; at < qkv.length; at += (H + 2 * G) * D, t++) {
      const queries = qkv.subarray(at, at + H * D);
      const keys = qkv.subarray(at + H * D, at + (H + G) * D);
      if (this.config.qk_norm) {
        queries.set(this.norm(queries, qNorm)); // row by row: each head by itself
        keys.set(this.norm(keys, kNorm));
      }
      if (turns) rotate(qkv.subarray(at, at + (H + G) * D), turns, t, D);
    }
    return qkv;
  }

  /** Let T new positions read those before them and themselves: qkv -> heads (T, H D). */
  attend(qkv, { keys, values }, past, scale, mask) {
    const { H, G, D } = this.sizes;
    const [Q, K] = [H * D, G * D]; // widths of queries, and of keys or values
    const width = Q + 2 * K;
    const T = qkv.length / width;
    const S = past + T;
    for (let t = 0; t < T; t++) {
      const at = t * width + Q;
      keys.set(qkv.subarray(at, at + K), (past + t) * K);
      values.set(qkv.subarray(at + K, at + 2 * K), (past + t) * K);
    }
    const weights = new Float32Array(H * T * S); // 0 where a position may not look
    const heads = new Float32Array(T * Q);
    for (let h = 0; h < H; h++) {
      const shared = Math.floor((h * G) / H) * D; // where the keys and values of this head begin
      for (let t = 0; t < T; t++) {
        const at = (h * T + t) * S;
        const row = weights.subarray(at, at + (mask ? past + t + 1 : S));
        addProduct(row, 0, row.length, keys, shared, K, 1, qkv, t * width + h * D, D);
        softmax(row, scale ? 1 / Math.sqrt(D) : 1);
        addProduct(heads, t * Q + h * D, D, values, shared, 1, K, row, 0, row.length);
      }
    }
    return { heads, weights };
  }

  /** Widen, bend and narrow each row of x (T, C); a gate is bent instead, and multiplies. */
  feedForward(x, { up, gate, down }) {
    const { C, F } = this.sizes;
    const bend = BENDS[this.config.activation];
    const wide = linear(x, up, C); // (T, C) -> (T, F)
    if (!gate) return linear(bend(wide), down, F);
    const bent = bend(linear(x, gate, C));
    for (let i = 0; i < bent.length; i++) bent[i] *= wide[i];
    return linear(bent, down, F); // (T, F) -> (T, C)
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

export { GPT, loadModel };
