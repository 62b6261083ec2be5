// What a GPT does to rows of numbers beside multiplying them: norms, rotations, bends, softmax.

/** Add y to x in place. */
function addTo(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

/**
 * Divide each row of x (..., C) by the root of its mean square, then scale and shift it.
 *
 * C is the length of `scale`. A LayerNorm (`centred`) takes the row's mean away first.
 */
function normed(x, { scale, shift }, centred, eps) {
  const C = scale.length;
  const out = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += C) {
    let mean = 0;
    let square = 0;
    if (centred) for (let c = 0; c < C; c++) mean += x[at + c] / C;
    for (let c = 0; c < C; c++) square += (x[at + c] - mean) ** 2 / C;
    const factor = 1 / Math.sqrt(square + eps);
    for (let c = 0; c < C; c++) {
      out[at + c] = (x[at + c] - mean) * factor * scale[c] + (shift ? shift[c] : 0);
    }
  }
  return out;
}

/** Return cosines and sines (T, D/2): pair i turns by base^(-2i/D) per position. */
function rotaryTurns(past, T, D, base) {
  const half = D / 2;
  const angle = (i) => (past + Math.floor(i / half)) * base ** ((-2 * (i % half)) / D);
  const angles = Float64Array.from({ length: T * half }, (_, i) => angle(i));
  return { cos: angles.map(Math.cos), sin: angles.map(Math.sin) };
}

/** Turn the pairs (i, i + D/2) of each head in a row by the angles of its position t, in place. */
function rotate(row, { cos, sin }, t, D) {
  const half = D / 2;
  for (let at = 0; at < row.length; at += D) {
    for (let i = 0; i < half; i++) {
      const [a, b] = [row[at + i], row[at + i + half]];
      const [c, s] = [cos[t * half + i], sin[t * half + i]];
      row[at + i] = a * c - b * s;
      row[at + i + half] = b * c + a * s;
    }
  }
}

// What a feed-forward part does to each number of x, in place.
const BENDS = {
  /** 0.5 x (1 + tanh u), in its equal and faster form x / (1 + exp(-2u)). */
  gelu_tanh(x) {
    const factor = -2 * Math.sqrt(2 / Math.PI);
    for (let i = 0; i < x.length; i++) {
      x[i] /= 1 + Math.exp(factor * x[i] * (1 + 0.044715 * x[i] * x[i]));
    }
    return x;
  },
  gelu(x) {
    for (let i = 0; i < x.length; i++) x[i] *= (1 + erf(x[i] / Math.SQRT2)) / 2;
    return x;
  },
  relu(x) {
    for (let i = 0; i < x.length; i++) x[i] = Math.max(x[i], 0);
    return x;
  },
  silu(x) {
    for (let i = 0; i < x.length; i++) x[i] /= 1 + Math.exp(-x[i]);
    return x;
  },
};

/** The error function, from a series whose terms are all positive, so that none cancels another. */
function erf(x) {
  const y = Math.min(Math.abs(x), 6); // beyond it, 1 to the last bit
  let term = y;
  let sum = y;
  for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * y * y) / (2 * n + 1);
  return ((Math.sign(x) * 2) / Math.sqrt(Math.PI)) * Math.exp(-y * y) * sum;
}

/** Turn scores, times a factor, into weights that add up to 1, in place. */
function softmax(row, factor) {
  let best = -Infinity;
  let sum = 0;
  for (let i = 0; i < row.length; i++) best = Math.max(best, row[i]);
  for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp((row[i] - best) * factor);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
}

export { addTo, BENDS, erf, normed, rotaryTurns, rotate, softmax };
