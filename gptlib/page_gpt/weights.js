// The weights that gptlib.page_gpt.packing packed as text, unpacked.

/** Return one Float32Array per parameter, under the names of the torch model. */
function decodeWeights({ shapes, rounded, int8, float32 }) {
  const floats = new Float32Array(bytesOf(float32).buffer);
  const codes = new Int8Array(bytesOf(int8).buffer);
  let [nextFloat, nextCode] = [0, 0];
  const params = {};
  for (const [name, [rows, columns = 1]] of Object.entries(shapes)) {
    const isRounded = rounded.includes(name);
    const n = isRounded ? rows : rows * columns;
    params[name] = floats.subarray(nextFloat, (nextFloat += n));
    if (isRounded) {
      const own = codes.subarray(nextCode, (nextCode += rows * columns));
      params[name] = scaled(own, params[name], columns);
    }
  }
  return params;
}

function scaled(codes, scales, columns) {
  const matrix = new Float32Array(codes.length);
  for (let row = 0, i = 0; row < scales.length; row++) {
    for (const end = i + columns; i < end; i++) matrix[i] = codes[i] * scales[row];
  }
  return matrix;
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64); // in browsers since 2025
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export { decodeWeights };
