// Matrix products, into which nearly all of a model's time goes.
//
// Eight sums run side by side: they share what they load and need not wait for each other. Each sum
// by itself runs in order, in both functions, so that no result depends on what is computed beside it.

/** Multiply rows by a matrix and add a bias: x (T, I) with weight (O, I) -> (T, O). */
function linear(x, { weight, bias }, nIn) {
  const T = x.length / nIn;
  const nOut = weight.length / nIn;
  const out = new Float32Array(T * nOut);
  if (bias) for (let t = 0; t < T; t++) out.set(bias, t * nOut);
  let t = 0;
  for (; t + 4 <= T; t += 4) addFourRows(out, x, t, weight, nIn, nOut);
  for (; t < T; t++) addProduct(out, t * nOut, nOut, weight, 0, nIn, 1, x, t * nIn, nIn);
  return out;
}

/**
 * Add a matrix times a vector to `rows` numbers of out, from `at` on.
 *
 * The vector is n numbers of v from i on. The matrix lies in m from j on: `down` apart are its
 * rows, `along` apart the n numbers of a row.
 */
function addProduct(out, at, rows, m, j, down, along, v, i, n) {
  const down2 = 2 * down;
  const down3 = 3 * down;
  const down4 = 4 * down;
  const down5 = 5 * down;
  const down6 = 6 * down;
  const down7 = 7 * down;
  let s0, s1, s2, s3, s4, s5, s6, s7;
  let row = 0;
  for (; row + 8 <= rows; row += 8) {
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0;
    for (let k = i, p = j + row * down; k < i + n; k++, p += along) {
      const factor = v[k];
      s0 += factor * m[p];
      s1 += factor * m[p + down];
      s2 += factor * m[p + down2];
      s3 += factor * m[p + down3];
      s4 += factor * m[p + down4];
      s5 += factor * m[p + down5];
      s6 += factor * m[p + down6];
      s7 += factor * m[p + down7];
    }
    out[at + row] += s0;
    out[at + row + 1] += s1;
    out[at + row + 2] += s2;
    out[at + row + 3] += s3;
    out[at + row + 4] += s4;
    out[at + row + 5] += s5;
    out[at + row + 6] += s6;
    out[at + row + 7] += s7;
  }
  for (; row < rows; row++) {
    let sum = 0;
    for (let k = i, p = j + row * down; k < i + n; k++, p += along) sum += v[k] * m[p];
    out[at + row] += sum;
  }
}

/** Add four rows of x (T, I), from row t on, times weight (O, I) to those rows of out (T, O). */
function addFourRows(out, x, t, weight, nIn, nOut) {
  const [x0, x1, x2, x3] = [t * nIn, (t + 1) * nIn, (t + 2) * nIn, (t + 3) * nIn];
  let a0, a1, a2, a3, b0, b1, b2, b3;
  for (let o = 0; o < nOut; o += 2) {
    const p = o * nIn;
    const q = Math.min(o + 1, nOut - 1) * nIn; // an odd number of outputs ends with one alone
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0;
    for (let i = 0; i < nIn; i++) {
      const a = weight[p + i];
      const b = weight[q + i];
      a0 += a * x[x0 + i];
      a1 += a * x[x1 + i];
      a2 += a * x[x2 + i];
      a3 += a * x[x3 + i];
      b0 += b * x[x0 + i];
      b1 += b * x[x1 + i];
      b2 += b * x[x2 + i];
      b3 += b * x[x3 + i];
    }
    const at = t * nOut + o;
    out[at] += a0;
    out[at + nOut] += a1;
    out[at + 2 * nOut] += a2;
    out[at + 3 * nOut] += a3;
    if (q === p) return;
    out[at + 1] += b0;
    out[at + nOut + 1] += b1;
    out[at + 2 * nOut + 1] += b2;
    out[at + 3 * nOut + 1] += b3;
  }
}

export { addProduct, linear };
