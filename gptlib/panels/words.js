// How numbers and signs are written, what a screen reader says of them, what a field takes.

/** Write a number with a minus sign that is as wide as a plus. */
function fixed(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** Write a count with commas between thousands. */
function count(value) {
  return value.toLocaleString("en-US");
}

/** Write bytes in decimal units, as the chapters do. */
function memory(n) {
  if (n < 1e6) return `${fixed(n / 1e3, 1)}\u00a0kB`;
  return n < 1e9 ? `${fixed(n / 1e6, 1)}\u00a0MB` : `${fixed(n / 1e9, 2)}\u00a0GB`;
}

const NAMES = { " ": "space", "\n": "line end", "\t": "tab", "": "part of a character" };

/** Write a letter, or a longer piece of a text, so that it can be heard: signs have names. */
function spoken(piece) {
  return NAMES[piece] ?? piece.replace(/[ \n\t]/g, (sign) => ` ${NAMES[sign]} `).trim();
}

const SIZES = {
  characters: (text) => [...text].length,
  bytes: (text) => new TextEncoder().encode(text).length,
};

/**
 * Leave out what a text has beyond `most` of a unit: the last characters in front of the cursor,
 * which are those that came last. Return what is kept, the new cursor, and how many were left out.
 */
function fit(text, cursor, most, unit) {
  const size = SIZES[unit];
  const [before, after] = [text.slice(0, cursor), text.slice(cursor)].map((part) =>
    Array.from(part),
  );
  let [over, left] = [size(text) - most, 0];
  for (; over > 0; left++) over -= size((before.length ? before : after).pop());
  const head = before.join("");
  return { kept: head + after.join(""), cursor: head.length, left };
}

export { count, fit, fixed, memory, spoken };
