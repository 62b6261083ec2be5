// The bent curves of chapter "GELU and feed-forward" and their slopes, for one number x.

import { erf } from "../page_gpt/parts.js";

const ROOT = Math.sqrt(2 / Math.PI);
const CUBE = 0.044715;

const gate = (x) => (1 + erf(x / Math.SQRT2)) / 2; // share of normal numbers below x
const bell = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const bent = (x) => Math.tanh(ROOT * (x + CUBE * x ** 3));

const ACTIVATIONS = {
  gelu_tanh: {
    value: (x) => (x * (1 + bent(x))) / 2,
    slope: (x) => {
      const t = bent(x);
      return (1 + t + x * (1 - t * t) * ROOT * (1 + 3 * CUBE * x * x)) / 2;
    },
  },
  gelu: { value: (x) => x * gate(x), slope: (x) => gate(x) + x * bell(x) },
  relu: { value: (x) => Math.max(x, 0), slope: (x) => (x > 0 ? 1 : 0) },
  tanh: { value: Math.tanh, slope: (x) => 1 - Math.tanh(x) ** 2 },
};

export { ACTIVATIONS };
